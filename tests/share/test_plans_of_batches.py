"""The plan fits the batch at hand: real rows through the reader's tables, under the chosen plan and under every other.

A share ends with empty tables, whatever the windows: at few rows a batch a phantom sees hardly a group twice. Plans
that were chosen as if only windows ended epochs cost three to four times what was predicted, and more than no phantoms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort, thorough
from tests.share.measuring import SECOND, SOURCE, Driven, Rows, asked
from tidemill.optimize.share.costs import plan_costs
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.reader_plan import Settings, plan_reader

W = "A [RANGE 10 SLIDE 10]"
THREE = tuple(f"SELECT {g}, COUNT(*) AS n, SUM(e) AS s FROM {W} GROUP BY {g}" for g in "abc")
PAIRS = tuple(f"SELECT {g}, COUNT(*) AS n FROM {W} GROUP BY {g}" for g in ("a, b", "b, c", "b, d", "c, d"))
SLIDES = (
    "SELECT a, b, COUNT(*) AS n FROM A [RANGE 4 SLIDE 1] GROUP BY a, b",
    "SELECT b, c, COUNT(*) AS n FROM A [RANGE 6 SLIDE 2] GROUP BY b, c",
    "SELECT a, COUNT(*) AS n FROM A [RANGE 10 SLIDE 5] GROUP BY a",
)
THRESHOLDS = tuple(
    f"SELECT {g}, COUNT(*) AS n FROM {W} WHERE e > {100 * i} GROUP BY {g}"
    for i, g in enumerate(("a", "b", "c", "a, b", "b, c", "a, c", "a, b, c", "b"), 1)
)
UNIFORM = tuple(
    f"SELECT {g}, COUNT(*) AS n FROM {W} WHERE e > {100 * i} GROUP BY {g}" for i, g in enumerate("abcdabcd", 1)
)
SELECTIVE = tuple(
    f"SELECT {g}, COUNT(*) AS n FROM {W} WHERE e >= {300 * i} AND e < {300 * i + 20} GROUP BY {g}"
    for i, g in enumerate("abc")
)
EVICTION = 10  # probes
BOUND: dict[tuple[str, ...], tuple] = {}


def driven(texts: tuple[str, ...], memory: int, **options) -> Driven:
    if texts not in BOUND:
        BOUND[texts] = asked(texts)
    return Driven(BOUND[texts], Settings(memory=memory, constants=Constants(1, EVICTION)), **options)


def stream(rows: int, seed: int, zipf: float | None = None, rate: int = 8_000, groups=(60, 50, 40, 30)) -> Rows:
    rng = np.random.default_rng(seed)
    columns = {
        name: rng.zipf(zipf, rows) % g if zipf else rng.integers(0, g, rows)
        for name, g in zip("abcd", groups, strict=True)
    }
    return Rows(columns | {"e": rng.integers(0, 1000, rows)}, (np.arange(rows) * SECOND // rate).astype(np.int64))


def settle(db: Driven, data: Rows, rows: int, batches: int = 6) -> tuple[float, float]:
    """Drive batches of this many rows; (measured, predicted) of the last one."""
    found = (0.0, 0.0)
    for i in range(batches):
        found = db.batch(data.cut(i * rows, (i + 1) * rows))
    return found


@pytest.mark.parametrize("zipf", [None, 1.3])
@pytest.mark.parametrize("rows", [1_000, 10_000, 100_000])
@pytest.mark.parametrize(("texts", "memory"), [(THREE, 3_000), (THREE, 100_000), (SLIDES, 100_000), (PAIRS, 100_000)])
def test_the_chosen_plan_is_as_good_as_the_best_alternative(texts, memory, rows, zipf):
    """All configurations of the queries are run over the same batch; EXPLAIN's cost is what was counted."""
    db, data = driven(texts, memory), stream(7 * rows, rows, zipf)
    met, said = settle(db, data, rows)
    assert said == pytest.approx(met, rel=0.25)
    last = data.cut(6 * rows, 7 * rows)
    measured = {name: db.cost(plan, last) for name, plan in db.alternatives()}
    assert len(measured) >= 2
    assert db.cost(db.plan, last) <= 1.1 * min(measured.values()), min(measured, key=measured.__getitem__)


def test_three_group_bys_live():
    """8,000 rows a second: 1.1 probes were predicted, 3.6 to 4.5 counted; 3.0 without phantoms."""
    db, data = driven(THREE, 100_000), stream(8 * 8_000, 1)
    met, said = settle(db, data, 8_000, 7)
    last = data.cut(7 * 8_000, 8 * 8_000)
    assert said == pytest.approx(met, rel=0.25)
    assert db.cost(db.plan, last) <= 1.1 * db.cost(db.unshared(), last)


@pytest.mark.parametrize("rows", [2_000, 30_000])
@pytest.mark.parametrize("texts", [THRESHOLDS, SELECTIVE])
def test_predicates_are_in_the_model(texts, rows):
    """Keys are (group, predicates) pairs, and rows that no query below wants are not fed."""
    db, data = driven(texts, 60_000), stream(6 * rows, rows)
    met, said = settle(db, data, rows, 5)
    last = data.cut(5 * rows, 6 * rows)
    assert said == pytest.approx(met, rel=0.25)
    assert db.cost(db.plan, last) <= 1.05 * db.cost(db.unshared(), last)
    plain = plan_costs(db.unshared(), db.measured, db.settings).tables
    # Some shares have an edge, others not: a prediction is of an average one.
    counted = np.mean([db.cost(db.unshared(), data.cut(i * rows, (i + 1) * rows)) for i in range(6)])
    assert plain == pytest.approx(counted, rel=0.15), "a plan that never ran is predicted as well"


@pytest.mark.parametrize("rows", [1_000, 10_000, 100_000])
@pytest.mark.parametrize(("memory", "groups"), [(20_000, (60, 50, 40, 30)), (60_000, (400,) * 4)])
def test_eight_thresholds_cost_no_more_than_any_way_to_weave_them(memory, groups, rows):
    """Two thresholds on each attribute. Their common table had an entry for each threshold that holds, and was kept
    where one table for each query, below a phantom of both, cost 0.8 times as much.
    """
    db, data = driven(UNIFORM, memory), stream(7 * rows, rows, groups=groups)
    met, said = settle(db, data, rows)
    assert said == pytest.approx(met, rel=0.25)
    last, measured = data.cut(6 * rows, 7 * rows), {}
    for weaving in ("unshared", "weave_share", "shared"):
        for phantoms in (True, False):
            settings = replace(db.settings, weaving=weaving, phantoms=phantoms, reader_plans={}, stored_plans={})
            measured[weaving, phantoms] = db.cost(plan_reader(SOURCE, db.queries, db.parts, settings), last)
    assert db.cost(db.plan, last) <= 1.1 * min(measured.values()), measured


def test_predicates_that_follow_from_the_group_make_no_more_keys():
    texts = tuple(
        f"SELECT {g}, COUNT(*) AS n FROM {W} WHERE a > {t} GROUP BY {g}"
        for g, t in (("a, b", 10), ("a", 30), ("a, c", 50))
    )
    db, data = driven(texts, 100_000), stream(6 * 20_000, 4)
    met, said = settle(db, data, 20_000, 5)
    assert said == pytest.approx(met, rel=0.1)
    plain = plan_costs(db.unshared(), db.measured, db.settings).tables
    assert plain == pytest.approx(db.cost(db.unshared(), data.cut(100_000, 120_000)), rel=0.1)


def test_a_phantom_that_evicts_what_it_is_fed_is_refused():
    """Three queries of 2 % each: a phantom with one bucket stayed in force."""
    db, data = driven(SELECTIVE, 60), stream(40_000, 5)
    for i in range(4):
        db.batch(data.cut(10_000 * i, 10_000 * (i + 1)))
    assert not db.plan.chosen.configuration.phantoms
    idle = {"a\x1fb\x1fc": 5_000.0, "a\x1fb": 5_000.0, "b\x1fc": 5_000.0, "a\x1fc": 5_000.0}
    db = driven(THREE, 1_000_000)
    settle(db, stream(900_000, 6), 300_000, 3)
    assert db.plan.chosen.configuration.phantoms
    db.settings.statistics[SOURCE] |= {"idle": dict.fromkeys(idle, db.measured["share"][0])}
    db.settings.reader_plans.clear()
    assert not Driven(db.queries, db.settings).plan.chosen.configuration.phantoms


def test_a_phantom_that_is_fed_little_is_refused_in_the_end():
    """Three queries of the same 2 %: a phantom that evicted all of its 20 rows a batch stayed for ever."""
    texts = tuple(f"SELECT {g}, COUNT(*) AS n FROM {W} WHERE e < 20 GROUP BY {g}" for g in ("a, b", "b, c", "a, c"))
    db, data = driven(texts, 2_000_000), stream(64_000, 9, groups=(100_000, 50, 2_000, 1))
    assert db.plan.chosen.configuration.phantoms, "nothing is known at first"
    settle(db, data, 1_000, 64)
    assert not db.plan.chosen.configuration.phantoms


@pytest.mark.parametrize("limit", [1_000, 5_000])
def test_a_broken_peak_load_forces_another_plan(limit):
    """A limit of 20,000 was kept by no plan for 20 batches, since only cheaper plans were installed."""
    db, data = driven(PAIRS, 400_000), stream(8 * 50_000, 7)
    settle(db, data, 50_000, 3)
    before = plan_costs(db.plan, db.measured, db.settings)
    assert before.peak > 2 * limit
    db.settings.method = db.settings.method.__class__(peak=float(limit))
    db.batch(data.cut(150_000, 200_000))
    after = plan_costs(db.plan, db.measured, db.settings)
    assert after.peak <= limit and after.tables > before.tables
    changes = db.changes
    for i in range(4, 8):
        db.batch(data.cut(50_000 * i, 50_000 * (i + 1)))
    assert db.changes <= changes + 1 and plan_costs(db.plan, db.measured, db.settings).peak <= 1.25 * limit


def test_drift_of_the_data_is_followed():
    """Few groups, then as many as rows: the phantom that saved probes only costs them now."""
    db = driven(THREE, 1_000_000)
    few = stream(4 * 200_000, 8, groups=(20, 20, 20, 20))
    settle(db, few, 200_000, 4)
    assert db.plan.chosen.configuration.phantoms
    many = stream(3 * 200_000, 9, groups=(5_000, 5_000, 5_000, 5_000))
    settle(db, many, 200_000, 2)
    last = many.cut(400_000, 600_000)
    assert db.cost(db.plan, last) <= 1.1 * db.cost(db.unshared(), last)


# ---- random workloads --------------------------------------------------------------------------

GROUPINGS = ("a", "b", "c", "d", "a, b", "b, c", "c, d", "a, c", "a, b, c", "b, c, d")
TESTS = ("", "", " WHERE e > 500", " WHERE e < 30", " WHERE a > 5", " WHERE e > 200 AND b < 20", " WHERE d = 3")


@st.composite
def workloads(draw: st.DrawFn) -> tuple[tuple[str, ...], int, int, int, float | None, tuple[int, ...]]:
    """(queries, units of memory, rows of a batch, readers, skew, groups of each attribute)."""
    texts = []
    for grouping in draw(st.lists(st.sampled_from(GROUPINGS), min_size=2, max_size=5)):
        slide = draw(st.sampled_from([1, 2, 5, 10]))
        window = f"A [RANGE {slide * draw(st.integers(1, 4))} SLIDE {slide}]"
        where = draw(st.sampled_from(TESTS))
        texts.append(f"SELECT {grouping}, COUNT(*) AS n FROM {window}{where} GROUP BY {grouping}")
    groups = tuple(draw(st.lists(st.sampled_from([2, 10, 60, 400]), min_size=4, max_size=4)))
    return (
        tuple(dict.fromkeys(texts)),
        draw(st.sampled_from([2_000, 20_000, 200_000])),
        draw(st.sampled_from([1_000, 6_000, 40_000])),
        draw(st.integers(1, 3)),
        draw(st.sampled_from([None, None, 1.2, 1.6])),
        groups,
    )


def _sent_out(data: Rows, names: list[str]) -> float:
    """How often a row of the two largest groups of some columns sends the other one out, of all rows."""
    _, counts = np.unique(np.stack([data.columns[n] for n in names]), axis=1, return_counts=True)
    first, second = np.sort(np.append(counts, [0, 0]))[-2:] / len(data.times)
    return float(2 * first * second / max(first + second, 1e-9))


def _chance(texts: tuple[str, ...], data: Rows) -> float:
    """What it costs a row if the two largest groups of a query share a bucket by chance: that is not for the model to
    know.
    """
    return EVICTION * max(_sent_out(data, text.rpartition("GROUP BY ")[2].split(", ")) for text in texts)


@effort(12)
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_random_workloads_cost_what_is_predicted_and_no_more_than_without_phantoms(workload, seed):
    """Predicted within a quarter of what is counted, and never more than 1.15 times the plan without phantoms."""
    texts, memory, rows, readers, zipf, groups = workload
    db, data = driven(texts, memory, readers=readers), stream(6 * rows, seed, zipf, groups=groups)
    met, said = settle(db, data, rows, 5)
    assert said == pytest.approx(met, rel=0.25, abs=0.05 + _chance(texts, data))
    last, plain = data.cut(5 * rows, 6 * rows), db.unshared()
    assert db.cost(db.plan, last) <= 1.15 * db.cost(plain, last) + 0.05


@effort(2, 100)
@given(workload=workloads(), seed=st.integers(0, 1000))
def test_random_workloads_cost_at_most_a_tenth_more_than_other_configurations(workload, seed):
    """In tables of a few buckets; what is predicted of the chosen plan is compared with what is predicted of others,
    since in such tables much of what is counted is chance.
    """
    texts, _, rows, readers, zipf, groups = workload
    rows = min(rows, 6_000)
    db, data = driven(texts, 2_000, readers=readers), stream(5 * rows, seed, zipf, groups=groups)
    settle(db, data, rows, 4)
    plan = db.planned_anew()
    others = db.alternatives(plan, None if thorough() else 20)
    assert db.said(plan) <= 1.1 * min(db.said(other) for _, other in others) + 0.05


def test_a_query_that_wants_few_rows_is_fed_only_where_that_pays():
    """GC fed `c` below `b, c, d`, which then told its rows apart, and took three tables of all rows instead: that was
    predicted to cost 2.88 a row where 1.77 was possible, and 3.2 and 1.5 were counted.
    """
    texts = (
        "SELECT c, COUNT(*) AS n FROM A [RANGE 30 SLIDE 10] WHERE e < 30 GROUP BY c",
        "SELECT b, c, COUNT(*) AS n FROM A [RANGE 2 SLIDE 2] GROUP BY b, c",
        "SELECT d, COUNT(*) AS n FROM A [RANGE 30 SLIDE 10] GROUP BY d",
        "SELECT d, COUNT(*) AS n FROM A [RANGE 10 SLIDE 5] GROUP BY d",
        "SELECT b, c, d, COUNT(*) AS n FROM A [RANGE 2 SLIDE 2] WHERE e > 500 GROUP BY b, c, d",
    )
    db, data = driven(texts, 2_000, readers=1), stream(6_000, 12, 1.6, groups=(400, 2, 2, 2))
    settle(db, data, 1_000, 5)
    plan = db.planned_anew()
    assert db.said(plan) <= 1.1 * min(db.said(other) for _, other in db.alternatives(plan))
