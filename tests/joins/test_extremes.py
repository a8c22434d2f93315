"""MIN and MAX over a join: rows that come and go together keep one value, and the answer is that of all values."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.harness import LocalDatabase
from tests.joins.drawn import Taste, workloads
from tests.joins.test_join_answers import bits, check_answers, places, plan_of
from tests.properties.effort import effort
from tidemill.plan.aggregation_joins import analyze_join
from tidemill.plan.node import walk
from tidemill.plan.relations import JoinAggregate

SOURCES = (
    """
    REGISTER SOURCE As (k INTEGER, v INTEGER, t VARCHAR, at TIMESTAMP) FROM GENERATE (rate = 2000, rows = 12000,
      seed = 5, k = 'uniform(1,20)', v = 'uniform(1,100000)', t = 'choice(a,b,c)') WITH (timestamp = 'at');
    REGISTER SOURCE Bs (k INTEGER, v INTEGER, t VARCHAR, at TIMESTAMP) FROM GENERATE (rate = 2000, rows = 12000,
      seed = 6, k = 'uniform(1,20)', v = 'uniform(1,100000)', t = 'choice(a,b,c)') WITH (timestamp = 'at');
    CREATE TAGGED STREAM A OVER As; CREATE TAGGED STREAM B OVER Bs; CREATE TAGGED STREAM K OVER Bs KEY v;
""".replace(" As ", " SourceA ")
    .replace(" As;", " SourceA;")
    .replace(" Bs", " SourceB")
)
WINDOWS = ("[RANGE 2 SECONDS SLIDE 2 SECONDS]", "[RANGE 3 SECONDS SLIDE 1 SECONDS]", "[WINDOW 2 SECONDS] SYNC EVERY 1")
FRAGMENTS = 3  # of a window at most


def run(tmp_path, select: str, window: str = WINDOWS[0], right: str = "B", name: str = "db") -> LocalDatabase:
    with LocalDatabase(str(tmp_path / name), shards=1, cores=1) as db:
        db.execute(
            SOURCES + f"CREATE STREAMED VIEW V AS SELECT A.k, {select} FROM A {window}, {right} AS B {window}"
            " WHERE A.k = B.k GROUP BY A.k"
        )
        db.run()
    return db


def pairs(db: LocalDatabase) -> int:
    """Pairs that were joined in the last batch."""
    (notes,) = db.runner.reports.last["joins"].values()
    return sum(n.pairs for n in notes)


def node_of(db: LocalDatabase) -> JoinAggregate:
    return next(n for n in walk(db.workload.views["v"].node) if isinstance(n, JoinAggregate))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "select",
    [
        "max(B.v) AS m",
        "min(A.v) AS l, max(A.v) AS h, min(B.v) AS m",
        "max(B.t) AS m",
        "sum(B.v) AS s, max(B.v) AS m",
        "max(B.v % 7) AS m, min(-B.v) AS n",
        "count(DISTINCT B.v) AS m",
        "count(DISTINCT A.t) AS m, max(A.t) AS n",
    ],
)
def test_extremes_join_as_few_pairs_as_sums(tmp_path, select, window):
    """Every value of a window was a row of its own: thousands of pairs for each key. Fragments have one each."""
    sums = run(tmp_path, "count(*) AS n, sum(A.v) AS s, sum(B.v) AS t", window, name="sums")
    extremes = run(tmp_path, f"count(*) AS n, sum(A.v) AS sa, {select}", window)
    assert pairs(extremes) <= FRAGMENTS**2 * pairs(sums)
    if "DISTINCT" not in select:  # which keeps each value once for each group
        assert extremes.runner.reports.last["state_rows"] <= FRAGMENTS**2 * sums.runner.reports.last["state_rows"]


def test_what_does_not_leave_as_a_whole_keeps_each_value(tmp_path):
    """Of a keyed stream any row may go alone."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            SOURCES + "CREATE VIEW V AS SELECT A.k, max(B.v) AS m, max(A.v) AS n FROM A [RANGE 2 SECONDS],"
            " K AS B SYNC EVERY 1 SECOND WHERE A.k = B.k GROUP BY A.k"
        )
        left, right = analyze_join(node_of(db)).sides
        assert list(left.extremes.values()) == ["max"]
        assert right.extremes == {}


def test_a_value_that_something_else_reads_stays(tmp_path):
    """The predicate wants to see each value; COUNT(DISTINCT) has a list of its own."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            SOURCES + "CREATE VIEW V AS SELECT A.k, max(B.v) AS m, min(A.v) AS n, count(DISTINCT A.v) AS d"
            " FROM A [RANGE 2 SECONDS], B [RANGE 2 SECONDS] WHERE A.k = B.k AND A.t < B.t AND B.v > A.k"
            " GROUP BY A.k"
        )
        left, right = analyze_join(node_of(db)).sides
        assert sorted(left.extremes.values()) == ["min", "set"]
        assert right.extremes == {}


@effort(5)
@given(workload=workloads(Taste(extreme=True, inputs=3)), place=places, number=bits)
def test_extremes_of_every_moment_are_those_of_sql(workload, place, number):
    check_answers(workload, place, plan_of(number, workload))
