"""Shares that span several fragments: what is predicted is what tables count, and the chosen plan is the best one.

Entries of a phantom stayed in its table until a newcomer evicted them, so its children got entries of two fragments in
turns, and each evicted the one before: 2.3 probes a row were predicted for the queries of the README, 6.7 counted.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.harness import LocalDatabase
from tests.properties.effort import thorough
from tests.share.measuring import SECOND, Driven, Rows, asked
from tidemill.optimize.share.costs import plan_costs
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.reader_plan import Settings
from tidemill.optimize.share.stream_statistics import Wants, read_statistics
from tidemill.runtime.share.reader.lfta import Lfta

SLIDE, BATCHES = 10, 4
GROUPINGS = {2: ("a, b", "b, c"), 3: ("a", "b", "a, c"), 4: ("a, b", "b, c", "c, d", "a")}
TESTS = ("", " WHERE e > 700", "", " WHERE e < 300")
ROWS, FRAGMENTS = (1_000, 10_000, 100_000, 1_000_000), (1, 3, 10, 100)
FEW = [
    (1_000, 3, 3, True),
    (10_000, 1, 3, False),
    (10_000, 10, 4, True),
    (100_000, 3, 2, False),
    (20_000, 100, 3, True),
]
ALL = [(r, f, g, p) for r in ROWS for f in FRAGMENTS for g in GROUPINGS for p in (False, True)]


def texts(groupings: int, predicates: bool) -> tuple[str, ...]:
    return tuple(
        f"SELECT {g}, COUNT(*) AS n, SUM(e) AS s FROM A [RANGE {2 * SLIDE} SLIDE {SLIDE}]"
        f"{where if predicates else ''} GROUP BY {g}"
        for g, where in zip(GROUPINGS[groupings], TESTS, strict=False)
    )


def stream(rows: int, micros: float, seed: int, groups: tuple[int, ...] = (60, 50, 40, 30)) -> Rows:
    """One row in this many microseconds; the first is at an edge for some seeds, elsewhere for others."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, most, rows) for name, most in zip("abcde", (*groups, 1000), strict=True)}
    begin = seed % 3 * SLIDE * SECOND / 3
    return Rows(columns, (begin + np.arange(rows) * micros).astype(np.int64))


@pytest.mark.parametrize(("rows", "fragments", "groupings", "predicates"), ALL if thorough() else FEW)
def test_costs_are_as_predicted_and_the_plan_is_the_best(rows, fragments, groupings, predicates):
    db = Driven(asked(texts(groupings, predicates)), Settings(memory=200_000, constants=Constants(1, 15)))
    share = rows / db.readers
    data = stream(rows * (BATCHES + 1), SLIDE * SECOND * fragments / share, rows + fragments)
    for i in range(BATCHES):
        met, said = db.batch(data.cut(i * rows, (i + 1) * rows))
    assert said == pytest.approx(met, rel=0.25)
    last = data.cut(BATCHES * rows, (BATCHES + 1) * rows)
    others = {
        name: (db.cost(plan, last), plan_costs(plan, db.measured, db.settings).tables)
        for name, plan in db.alternatives()
    }
    assert db.cost(db.plan, last) <= 1.1 * min(counted for counted, _ in others.values())
    for name, (counted, predicted) in others.items():
        assert abs(math.log(predicted / counted)) < math.log(1.3), f"{name}, which never ran"


def test_statistics_know_which_columns_a_predicate_reads():
    """Groups of a predicate over the attributes are fewer, of one over other columns they are not: by columns, not by
    the text of the predicate, which has a name in a string here.
    """
    queries = (
        "SELECT a, COUNT(*) AS n FROM A [RANGE 4 SLIDE 2] WHERE a < 6 AND a <> length('\"e\"') GROUP BY a",
        "SELECT b, COUNT(*) AS n FROM A [RANGE 4 SLIDE 2] WHERE e > 600 GROUP BY b",
    )
    db = Driven(asked(queries), Settings(memory=1_000_000))
    db.batch(stream(20_000, 50, 1))
    found = read_statistics(db.measured)
    assert sorted(map(sorted, found.reads.values())) == [["a"], ["e"]] and set(found.reads) == set(found.predicates)
    (narrow,) = (p for p, columns in found.reads.items() if columns == {"a"})
    groups = found.keys(frozenset("a"), Wants.of([narrow]), 20_000)
    assert groups == pytest.approx(6, rel=0.2)
    stored = db.measured.copy()
    del stored["reads"]
    older = read_statistics(stored)
    assert older.keys(frozenset("a"), Wants.of([narrow]), 20_000) > 2 * groups


def test_children_of_a_phantom_do_not_evict_in_turns():
    """Every configuration of the README's queries costs what is predicted, on fragments of two lengths."""
    queries = (
        "SELECT a, COUNT(*) AS n, SUM(e) AS s FROM A [RANGE 4 SLIDE 2] GROUP BY a",
        "SELECT b, c, COUNT(*) AS n FROM A [RANGE 6 SLIDE 2] WHERE e > 600 GROUP BY b, c",
        "SELECT a, c, MAX(e) AS m FROM A [RANGE 5 SLIDE 5] GROUP BY a, c",
    )
    db = Driven(asked(queries), Settings(memory=1_000_000))
    data = stream(400_000, 50, 1, (60, 50, 3, 1))
    for i in range(2):
        db.batch(data.cut(100_000 * i, 100_000 * (i + 1)))
    deep = 0
    for name, plan in db.alternatives():
        deep += any(plan.tree[n.parent].parent >= 0 for n in plan.tree if n.parent >= 0)
        predicted = plan_costs(plan, db.measured, db.settings).tables
        assert db.cost(plan, data.cut(200_000, 300_000)) == pytest.approx(predicted, rel=0.15), name
    assert deep


def test_a_fragment_ends_once_for_all_readers_chunks():
    """Chunks of any size: the same entries, but for those that wait when fragments are short."""
    db, data = Driven(asked(texts(3, True)), Settings(memory=200_000)), stream(30_000, 2_000, 2)
    op = db.operator(next(plan for _, plan in db.alternatives() if plan.chosen.configuration.phantoms))
    counts = set()
    for size in (700, 9_000, 30_000):
        lfta = Lfta(op)
        for low in range(0, len(data), size):
            piece = data.cut(low, low + size)
            for _ in lfta.push(piece.table, piece.times):
                pass
        for _ in lfta.finish():
            pass
        counts.add(str(lfta.counts().relations))
    assert len(counts) == 1


README = """
REGISTER SOURCE Packets (src INTEGER, dst INTEGER, port INTEGER, len INTEGER, at TIMESTAMP)
FROM GENERATE (rate = 20000, rows = 200000, seed = 5, src = 'uniform(1,60)', dst = 'uniform(1,50)',
               port = 'choice(80:4,443:5,53)', len = 'uniform(40,1500)')
WITH (timestamp = 'at');
CREATE TAGGED STREAM Pkt OVER Packets;
SET lfta_memory = 1000000;
CREATE VIEW Talkers AS SELECT src, count(*) AS n, sum(len) AS bytes
FROM Pkt [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY src;
CREATE VIEW Targets AS SELECT dst, port, count(*) AS n
FROM Pkt [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE len > 1000 GROUP BY dst, port;
CREATE VIEW Largest AS SELECT src, port, max(len) AS largest
FROM Pkt [RANGE 5 SECONDS] GROUP BY src, port;
"""


def test_explain_of_the_readme(tmp_path):
    """Through the engine: planner, readers, ticks, statistics, EXPLAIN."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(README)
        db.run()
        (shown,) = db.explain().to_dict()["sharing"]
    assert shown["measured_cost"] == pytest.approx(shown["tables_cost"], rel=0.1)
    assert shown["measured_cost"] < 2.5
    for relation in shown["relations"]:
        assert relation["evictions"] == pytest.approx(relation["predicted_evictions"], rel=0.25)
