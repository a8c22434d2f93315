"""NS and NG that EXPLAIN prices for the pipelines of figure 12 are those that are then counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.experiments.pipelines.counted import run_setting
from benchmarks.experiments.pipelines.settings import FIGURES, MODES
from tidemill.optimize.views.cost import Gap, Updates, fit_regularity, synchronizer_output, union_gaps
from tidemill.optimize.views.streams import StreamRate, count_groups

UNITS = 650


@pytest.mark.parametrize("setting", FIGURES, ids=lambda s: s.name)
def test_prices_after_separate_queries_are_what_every_pipeline_counts(setting):
    """A tenth of the rooms of figures 13 to 15, which report regularly: nothing was counted but pipeline (a)."""
    few = replace(setting, rooms=tuple((count // 10, every) for count, every in setting.rooms))
    runs = {mode: run_setting(few, mode) for mode in MODES}
    for mode in MODES:
        assert runs["off"]["prices"][mode] == pytest.approx(runs[mode]["counts"], rel=0.1)


@pytest.mark.parametrize("mode", MODES[1:])
def test_prices_of_a_shared_pipeline_that_runs(mode):
    """Figure 15: the synchronizers above the shared tagger read more rows than the one below it."""
    few = replace(FIGURES[-1], rooms=tuple((count // 10, every) for count, every in FIGURES[-1].rooms))
    found = run_setting(few, mode)
    assert found["prices"][mode] == pytest.approx(found["counts"], rel=0.02)
    assert 4 * sum(each.rows(UNITS) for each in few.updates) < found["counts"].NS


@pytest.mark.parametrize("setting", FIGURES[1:], ids=lambda s: s.name)
def test_one_synchronizer_tells_what_others_emit(setting):
    """Of regular updates of unlike keys, by one number: random ones would give up to a third less."""
    keys, rate = sum(u.keys for u in setting.updates), sum(u.keys * u.rate for u in setting.updates)
    one, other = ((period, 0) for period in (setting.building_period, setting.temperature_period))
    points = [union_gaps(periods, UNITS) for periods in ([one], [other], [one, other])]
    for seen in points:
        counted = synchronizer_output(setting.updates, seen)
        fitted = Updates(keys, rate / keys, fit_regularity(keys, rate / keys, [(seen, counted)]))
        for gaps in points:
            expected = synchronizer_output(setting.updates, gaps)
            assert synchronizer_output([fitted], gaps) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("regularity", [-5.0, -0.3, 0.0, 0.4, 1.0])
def test_the_share_of_updated_keys_grows_with_the_gap_and_with_regularity(regularity):
    shares = [Updates(1, 0.1, regularity).share_updated(gap) for gap in (0, 1, 5, 10, 50, 1_000)]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] <= 1
    less = [Updates(1, 0.1, regularity - 0.1).share_updated(gap) for gap in (0, 1, 5, 10, 50, 1_000)]
    assert all(one <= other for one, other in zip(less, shares, strict=True))
    seen = [Gap(8, 100)]
    counted = synchronizer_output([Updates(10, 0.1, regularity)], seen)
    assert fit_regularity(10, 0.1, [(seen, counted)]) == pytest.approx(regularity, abs=1e-6)


def test_counts_of_older_databases_have_no_regularity():
    assert StreamRate(*[20.0, 4.0]) == StreamRate(20.0, 4.0, regularity=0.0, changes=2.0)
    assert count_groups(["degrees"], {}, 10.0) == 20.0
