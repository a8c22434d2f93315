"""SYNC ON a view of the clock equals the general way: that view as a relation of points, whatever its remainders.

The oracle answers the query as it was bound before there was an algebra of points: it reads the rows of the clock's
view at every moment, before 1970 too.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.queries import clock_conditions
from tests.properties.query_text import Query, View
from tests.properties.test_answers import places
from tests.properties.trial import check_view, create, database, drawn_database, log_of, oracle, plan_of, watch
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.points import clock_periods
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import Cast, ColumnRef, Literal, Operation, Paren

SECOND = 1_000_000
QUERIES = {
    "rows": "SELECT a.k, a.v FROM A SYNC ON P AS a WHERE a.v > 1",
    "keyed rows": "SELECT a.k, a.v FROM K SYNC ON P AS a WHERE a.v > 1",
    "groups": "SELECT q.k, q.n FROM (SELECT a.k, COUNT(*) AS n FROM K AS a GROUP BY a.k) q SYNC ON P",
    "one group": "SELECT COUNT(*) AS n, SUM(a.v) AS s FROM A SYNC ON P AS a",
    "windows": "SELECT a.k, COUNT(*) AS n FROM A SYNC ON P AS a WHERE NOW - 5 < TS AND TS <= NOW GROUP BY a.k",
    "grouped windows": "SELECT q.k, q.n FROM (SELECT a.k, COUNT(*) AS n FROM A [RANGE 4 SLIDE 2] AS a GROUP BY a.k) q"
    " SYNC ON P",
    "join": "SELECT a.v, b.v AS w FROM K SYNC ON P AS a JOIN K AS b ON a.k = b.k",
    "joined": "SELECT q.v, q.w FROM (SELECT a.v, b.v AS w FROM K AS a JOIN K AS b ON a.k = b.k) q SYNC ON P",
    "twice": "SELECT q.k FROM (SELECT a.k FROM A SYNC ON P AS a) q SYNC ON Q",
    "period above": "SELECT q.k FROM (SELECT a.k FROM A SYNC ON P AS a) q SYNC EVERY 6",
    "period below": "SELECT q.k FROM (SELECT a.k FROM A SYNC EVERY 2 AS a) q SYNC ON P",
    "counted": "SELECT COUNT(*) AS n FROM (SELECT a.k FROM A SYNC ON P AS a) q SYNC EVERY 6",
    "table": "SELECT q.k FROM (SELECT d.k FROM D AS d UNION ALL SELECT a.k FROM A AS a) q SYNC ON P",
    "table joined": "SELECT q.k, q.v FROM (SELECT a.k, a.v FROM A AS a JOIN D AS d ON a.k = d.k) q SYNC ON P",
}


def general_plan(db: LocalDatabase, view: View) -> Relation:
    """The query as it was bound before views of the clock were periods.

    The one row of a grouping without keys is there from the first point of a periodic synchronizer on, with the first
    row where points come from a view: with one period it is the former.
    """
    entry = db.workload.views[view.name.lower()].entry
    own = plan_of(db, view.name)
    if "COUNT(*) AS n" in view.query.template and "GROUP BY" not in view.query.template and _is_periodic(own):
        return own
    bound = db.workload.bind(parse_one(entry.text).query, Beginning(entry.birth, planning=0))
    stood = db.workload.views[view.name.lower()].node
    if not isinstance(stood, r.Rstream):
        return bound.node
    return r.Rstream(bound.node, bound.rhythm.period, bound.rhythm.points, stood.stamp, stood.stamp_type)


def _is_periodic(plan: Relation) -> bool:
    return not any(isinstance(n, (r.SynchronizePeriods, r.SynchronizeOn)) for n in walk(plan))


@st.composite
def moved(draw: st.DrawFn, stream: st.SearchStrategy[streams.Stream]) -> streams.Stream:
    """A stream whose times may begin before 1970."""
    found, back = draw(stream), draw(st.sampled_from([0, 4, 9, 9, 30]))
    return replace(found, rows=tuple({**row, "tm": row["tm"] - back} for row in found.rows))


@st.composite
def workloads(draw: st.DrawFn):
    tables = draw(streams.static_table("D"))
    sources = [draw(moved(streams.append_only("A", odd=False))), draw(moved(streams.keyed("K", odd=False))), tables]
    clocks = [
        View(name, "STREAMED", Query(f"SELECT C.TimePoint FROM R(clockStr) C WHERE {draw(clock_conditions)}", (), {}))
        for name in ("P", "Q")
    ]
    names = draw(st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=3, unique=True))
    outputs = st.sampled_from(["STREAMED", "STREAMED", "STREAMED", "RSTREAM", "COMPLETE"])
    views = [View(f"v{i}", draw(outputs), Query(QUERIES[n], (), {})) for i, n in enumerate(names)]
    return sources, clocks, views


@effort(10, thorough_cases=300)
@given(workload=workloads(), place=places)
def test_answers_are_those_of_the_clock_view_for_any_cut_into_batches(workload, place):
    sources, clocks, views = workload
    with drawn_database(sources, **place) as db:
        create(db, clocks)
        watch(db, sources)
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            truth.views.update({v.name: general_plan(db, v) for v in made})
            for view in made:
                check_view(db, view, truth, general_plan(db, view))


@effort(60)
@given(condition=clock_conditions)
def test_periods_are_the_times_that_the_condition_selects(condition):
    with database([]) as db:
        bound = db.workload.bind(
            parse_one(f"SELECT TimePoint FROM clockStr WHERE {condition}").query, Beginning(1)
        ).node
    in_us = Paren(Operation("*", Cast(ColumnRef("TimePoint"), "BIGINT"), Literal(str(SECOND))))
    periods = clock_periods(r.Project(bound, (r.Item("TimePoint", in_us, "BIGINT"),)))
    text = condition.replace(" mod ", " % ")
    wanted = duckdb.sql(f'SELECT "TimePoint" FROM range(-130, 200) AS c("TimePoint") WHERE {text}')
    times = {t for (t,) in wanted.fetchall()}
    assume(periods is not None)
    assert periods is not None
    points = {t for t in range(-130, 200) if any(p.last_point_before(t * SECOND + 1) == t * SECOND for p in periods)}
    assert points == times


@pytest.mark.parametrize(
    "condition, node",
    [
        ("TimePoint mod 3 = 0", r.Synchronize),
        ("(TimePoint - 2) mod 5 = 0", r.Synchronize),
        ("TimePoint mod 4 = 0 AND TimePoint mod 6 = 0", r.Synchronize),
        ("TimePoint mod 3 = 1", r.SynchronizePeriods),
        ("TimePoint mod 2 = 0 OR TimePoint mod 3 = 0", r.SynchronizePeriods),
        ("TimePoint mod 6 IN (1, 5)", r.SynchronizePeriods),
        ("TimePoint mod 3 = -1", r.SynchronizeOn),
        ("TimePoint mod 2 = 0 AND TimePoint mod 2 = 1", r.SynchronizeOn),
        ("TimePoint mod 3 = 0 OR TimePoint > 7", r.SynchronizeOn),
        ("TimePoint mod 3 <> 0", r.SynchronizeOn),
    ],
)
def test_clock_views_that_are_periods_and_those_that_are_not(condition, node):
    source = streams.Stream("S", streams.PLAIN, ())
    with database([source]) as db:
        db.execute(f"CREATE VIEW P AS SELECT TimePoint FROM clockStr WHERE {condition}")
        db.execute("CREATE VIEW V AS SELECT k FROM S SYNC ON P")
        kinds = {type(n) for n in walk(db.workload.views["v"].query.node)}
    assert kinds & {r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn} == {node}


def test_a_clock_view_that_ran_before_has_the_same_points(tmp_path):
    """Its stored points have passed: none of them is a point of the later view."""
    (tmp_path / "1.csv").write_text("k,at\n1,1\n2,6\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at BIGINT) FROM FILES '{tmp_path}/*.csv' WITH (timestamp = 'at');"
            "CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW Held AS SELECT k FROM S;"
            "CREATE VIEW P AS SELECT TimePoint FROM clockStr WHERE TimePoint mod 4 = 1 OR TimePoint mod 4 = 2"
        )
        db.run(final=False)
        db.execute(
            "CREATE STREAMED VIEW Later AS SELECT k FROM S SYNC ON P;"
            "CREATE RSTREAM VIEW Again AS SELECT k FROM S SYNC ON P;"
            "CREATE STREAMED VIEW Seen AS SELECT k FROM Held SYNC ON P"
        )
        (tmp_path / "2.csv").write_text("k,at\n3,7\n4,9\n5,10\n6,15\n")
        db.run()
        assert [(c.time // SECOND, c.row) for c in log_of(db, "Later")] == [(9, (3,)), (9, (4,)), (10, (5,))]
        assert db.query("SELECT TS, k FROM Again ORDER BY ALL").to_pylist() == [
            {"TS": 9, "k": 3},
            {"TS": 9, "k": 4},
            *({"TS": t, "k": k} for t in (10, 13, 14) for k in (3, 4, 5)),
        ]
        assert {c.time // SECOND for c in log_of(db, "Seen")} <= {6, 9, 10}
