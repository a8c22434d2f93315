"""The data of the phantom experiments has the numbers of the paper (section 8.1); the page shows what was missed."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest

from benchmarks.experiments.checks import at_most
from benchmarks.experiments.phantoms import data
from benchmarks.experiments.phantoms.costs import costs_of
from benchmarks.experiments.phantoms.line import curve, low_part
from benchmarks.experiments.phantoms.measured import Measured
from benchmarks.experiments.phantoms.scatter import scatter, weighted_rate
from benchmarks.experiments.phantoms.tables import measured_flows, measured_rates
from benchmarks.experiments.report import render
from benchmarks.experiments.weaving.points import measured
from tidemill.optimize.share.phantoms.collisions import collision_rate
from tidemill.optimize.share.phantoms.configuration import Configuration

PROJECTIONS = [s for size in (1, 2, 3, 4) for s in combinations(range(4), size)]


@pytest.mark.parametrize("attributes", PROJECTIONS)
def test_every_projection_has_the_papers_number_of_groups(attributes: tuple[int, ...]) -> None:
    assert data.group_count(data.group_set(), attributes) == data.GROUPS[len(attributes)]


def test_even_groups_are_even() -> None:
    groups = data.even_group_set()
    found = data.counts(groups)
    assert (found[1], found[4]) == (552, 2837) and min(found[2], found[3]) > 2800
    assert all(set(np.unique(column, return_counts=True)[1]) == {5, 6} for column in groups)
    _, sizes = np.unique(groups[:2], axis=1, return_counts=True)
    assert sizes.max() <= 3
    _, sizes = np.unique(data.group_set()[:2], axis=1, return_counts=True)
    assert sorted(sizes)[-108:] == [9] * 108  # what the paper's numbers in every projection take


def test_equation_13_holds_for_pairs_of_even_data_only() -> None:
    forest, met = Configuration.parse("AB"), {}
    for name, groups in (("even", data.even_group_set()), ("uneven", data.group_set())):
        columns, count = data.uniform(200_000, groups=groups), data.group_count(groups, (0, 1))
        met[name] = measured_rates(forest, [2400], columns)[0] / collision_rate(count, 2400)
    assert met["even"] == pytest.approx(1, abs=0.05) and met["uneven"] < 0.85


def test_ratios_are_means_over_draws() -> None:
    found = Measured({20_000: [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}], 40_000: [{"a": 5.0, "b": 4.0}]})
    assert found.ratios("a", "b") == [1.0, 1.25] and found.singles("a", "b") == [0.5, 1.5]
    assert found.means(20_000) == {"a": 2.0, "b": 2.0}


def test_no_woven_plan_is_below_the_floor() -> None:
    for whole in (False, True):
        for point in measured(40, 1, whole).values():
            assert point.floor <= min(point.triops.values()) * (1 + 1e-9)


def test_the_page_says_why_a_check_is_missed() -> None:
    checks = [at_most("low", [1.0], 2, why="never shown"), at_most("high", [3.0], 2, why="because of this")]
    facts = {"processor": "p", "cores": 2, "python": "3", "numpy": "2", "numba": "0", "taken": "now"}
    result = {"title": "T", "setup": "s", "checks": [asdict(c) for c in checks], "tables": [], "plots": []}
    page = render({"phantoms": {**result, "machine": facts, "quick": False, "seconds": 1.0}})
    assert "because of this" in page and "never shown" not in page


def test_the_trace_has_the_papers_size_and_all_groups() -> None:
    trace = data.trace()
    assert trace.columns.shape == (4, 860_000)
    assert data.group_count(trace.columns, (0, 1, 2, 3)) == 2837
    assert len(np.unique(trace.flow)) == data.FLOWS


def test_the_trace_is_clustered_and_a_shuffle_is_not() -> None:
    columns = data.trace(packets=200_000).columns
    forest, buckets = Configuration.parse("ABCD"), [2000]
    mixed = columns[:, np.random.default_rng(1).permutation(columns.shape[1])]
    clustered, shuffled = (measured_flows(forest, buckets, data.GROUPS, c)[1][0] for c in (columns, mixed))
    # Groups of different sizes collide a little less than equal ones, also without flows.
    assert clustered > 5 and 0.9 < shuffled < 1.6


def test_real_tables_collide_as_the_model_says_on_uniform_data() -> None:
    columns = data.one_attribute(2000, 100_000, seed=5)
    assert measured_rates(Configuration.parse("A"), [1000], columns)[0] == pytest.approx(
        collision_rate(2000, 1000), rel=0.05
    )


def test_a_missed_check_is_shown_as_missed() -> None:
    check = {"what": "w", "target": "<= 1", "measured": "2", "met": False}
    facts = {"processor": "p", "cores": 2, "python": "3", "numpy": "2", "numba": "0", "taken": "now"}
    result = {"title": "T", "setup": "s", "checks": [check], "tables": [], "plots": [], "machine": facts}
    page = render({"phantoms": {**result, "quick": False, "seconds": 1.0}})
    assert "**missed**" in page and "## T" in page


def test_sizes_of_groups_explain_the_collision_rate_of_flows() -> None:
    columns = data.flows_in_random_order(data.trace(packets=200_000), 20)
    buckets = data.GROUPS[3]
    met = measured_rates(Configuration.parse("ABC"), [buckets], columns)[0]
    assert met == pytest.approx(weighted_rate(data.group_sizes(columns, "ABC"), buckets), rel=0.06)
    assert met < 0.95 * collision_rate(data.GROUPS[3], buckets)


@pytest.mark.parametrize(("groups", "buckets"), [(50, 50), (200, 100), (200, 800)])
def test_scatter_is_the_deviation_of_draws(groups: int, buckets: int) -> None:
    rng = np.random.default_rng(1)
    used = [len(np.unique(rng.integers(0, buckets, groups))) for _ in range(4000)]
    rates = 1 - np.array(used) / groups
    assert np.std(rates) / collision_rate(groups, buckets) == pytest.approx(scatter(groups, buckets), rel=0.1)


def test_the_low_part_is_the_papers_straight_line() -> None:
    loads = low_part()
    mu, alpha = np.polyfit(loads, curve(loads), 1)
    assert (mu, alpha) == (pytest.approx(0.354, rel=0.02), pytest.approx(0.0267, rel=0.05))


def test_a_record_has_the_probes_and_evictions_of_its_plan() -> None:
    records = costs_of([20_000], 1)
    assert {r.probes // r.rows for r in records} == {1, 2, 3, 4}
    tight, roomy = records[0], records[4]
    assert tight.evictions > 0.9 * tight.rows > 5 * roomy.evictions
