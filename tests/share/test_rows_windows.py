"""Windows that count rows share one numbering, and give what the same queries give alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, tagged
from tests.properties.effort import effort
from tests.properties.queries import predicate
from tests.properties.streams import cuts
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import UNSHARED, check_same, outcome, run, shared_nodes
from tests.share.workloads import (
    COMPUTED_KEYS,
    KEYS,
    KINDS,
    ON_TOP,
    TESTS,
    Taste,
    calls,
    settings_text,
    shared_streams,
    view,
    window_query,
)
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.scalars import sql_of
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.share.sliding import Answers
from tidemill.runtime.share.stage.numbering import merge_by_time

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
INPUTS = ("A", "A", "A", "(SELECT * FROM A WHERE k > 0)", "(SELECT k % 2 AS k, b, x, d, s, f, day FROM A)")
TASTE = Taste(approximate=False)


@st.composite
def rows_query(draw):
    """GROUP BY over the last rows of A, or of something made of it."""
    source, n = draw(st.sampled_from(INPUTS)), draw(st.integers(1, 9))
    slide = draw(st.sampled_from(["", " SLIDE 1", f" SLIDE {draw(st.integers(1, 12))}"]))
    stamped = not source.startswith("(")
    tests = st.one_of(st.sampled_from([t for t in TESTS if stamped or "TS" not in t]), predicate(KINDS))
    where = f" WHERE {draw(tests)}" if draw(st.booleans()) else ""
    options = [*KEYS, *COMPUTED_KEYS, *(["a.TS", "a.tm % 3"] if stamped else [])]
    keys = draw(st.lists(st.sampled_from(options), min_size=1, max_size=3, unique=True))
    chosen = [f"{sql} AS o{i}" for i, sql in enumerate(keys)]
    chosen += [f"{sql} AS c{i}" for i, sql in enumerate(draw(calls(TASTE)))]
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1"]))
    return f"SELECT {', '.join(chosen)} FROM {source} AS a [ROWS {n}{slide}]{where} GROUP BY {', '.join(keys)}{having}"


@st.composite
def rows_views(draw, most=4):
    """Window aggregates by rows, now and then one by time beside them and something above."""
    outputs = st.sampled_from(["STREAMED", "STREAMED", "COMPLETE", "RSTREAM"])
    found = [view(f"v{i}", draw(outputs), draw(rows_query())) for i in range(draw(st.integers(1, most)))]
    if draw(st.booleans()):
        found.append(view("timed", "STREAMED", draw(window_query(TASTE))))
    below = next((v for v in found if v.output != "RSTREAM"), None)
    if below is not None and draw(st.booleans()):
        found.append(view("top", "STREAMED", draw(st.sampled_from(ON_TOP)).format(below.name)))
    return found


@effort(12)
@given(stream=shared_streams(TASTE, most=40), views=rows_views(), first=places, second=places, data=st.data())
def test_shared_equals_unshared(stream, views, first, second, data):
    expected, none = run(stream, views, without=UNSHARED, **first)
    found, _ = run(stream.recut(*data.draw(cuts(len(stream.rows)))), views, data.draw(settings_text()), **second)
    assert none == 0
    check_same(found, expected)


@effort(15)
@given(stream=shared_streams(TASTE), views=rows_views(most=3), place=places)
def test_shared_equals_the_oracle(stream, views, place):
    with database([stream], **place) as db:
        for each in views:
            db.execute(each.statement)
        db.run()
        with oracle(db, [stream]) as truth:
            for each in views:
                check_view(db, each, truth)


# ---- by hand -------------------------------------------------------------------------------------


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as found:
        yield found


def numbering(db):
    """Operators of the plan that number rows, and those that window them unshared."""
    plan = db.workload.physical(0, (0, 1))
    return tuple(sum(op.kind == kind for op in plan.stage) for kind in ("numbering", "weave_numbered", "rows_window"))


def test_rows_are_shown_at_the_event_time_of_the_last_one(db, tmp_path):
    """The timeline of `operators/numbering.py`: of the points 4 and 6 at time 8 only the last one shows.

    rows      1 2 4 8 16 32 64 128
    times     5 5 6 8  8  8  9  10
    points      2   4    6       8
    """
    feed = Feed(db, tmp_path, "Raw", "n INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW V AS SELECT 0 AS z, sum(n) AS s FROM S [ROWS 3 SLIDE 2] GROUP BY 0 * n")
    feed.send("<1>5 <2>5 <4>6 <8>8").send("<16>8 <32>8 <64>9 <128>10 <256>11")
    db.run()
    assert shared_nodes(db) == 1
    assert tagged(db, "V") == ["+<0,3>5", "-<0,3>8", "+<0,56>8", "-<0,56>10", "+<0,224>10"]


def test_the_window_counts_rows_before_where(db, tmp_path):
    """Rows 3 and 4 are inside, one of them passes; what leaves takes its group along."""
    Feed(db, tmp_path, "Raw", "k VARCHAR, n INTEGER").send("<a,1>1 <a,2>2 <b,3>3 <b,4>4 <c,5>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW V AS SELECT k, sum(n) AS s FROM S [ROWS 2 SLIDE 2] WHERE n % 2 = 0 GROUP BY k")
    db.run()
    assert sorted(tagged(db, "V")) == ["+<a,2>2", "+<b,4>4", "-<a,2>4"]


def test_rows_between_short_windows_are_never_seen(db, tmp_path):
    Feed(db, tmp_path, "Raw", "n INTEGER").send("<1>1 <2>2 <4>3 <8>4 <16>5 <32>6 <64>7")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW V AS SELECT sum(n) AS s FROM S [ROWS 1 SLIDE 3] GROUP BY 0 * n")
    db.run()
    assert tagged(db, "V") == ["+<4>3", "-<4>6", "+<32>6"]


def test_all_windows_over_one_stream_share_one_numbering(db, tmp_path):
    """Two sets of attributes: two fragment stores. Another relation below the window counts other rows."""
    Feed(db, tmp_path, "Raw", "k VARCHAR, n INTEGER").send("<a,1>1")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    for i in range(10):
        db.execute(f"CREATE VIEW V{i} AS SELECT k, sum(n) AS s FROM S [ROWS {i + 1} SLIDE {i % 3 + 1}] GROUP BY k")
        db.execute(f"CREATE VIEW W{i} AS SELECT n, count(*) AS c FROM S [ROWS {i + 1}] WHERE k > 'a' GROUP BY n")
    assert numbering(db) == (1, 2, 0)
    db.execute("CREATE VIEW X AS SELECT k, sum(n) AS s FROM (SELECT k, n FROM S WHERE n > 1) q [ROWS 3] GROUP BY k")
    assert numbering(db) == (2, 3, 0)
    db.execute("CREATE VIEW Y AS SELECT k, sum(n) AS s FROM S [ROWS 3] SYNC EVERY 5 GROUP BY k")
    assert numbering(db) == (2, 3, 1)


@pytest.mark.parametrize(
    ("text", "window", "predicate"),
    [
        ("FROM S [ROWS 8 SLIDE 5] GROUP BY k", Window(5, 0, 0, 8), None),
        ("FROM S [ROWS 8] WHERE n > 2 GROUP BY k", Window(1, 0, 0, 8), '"n" > 2'),
        ("FROM (SELECT k, n FROM S WHERE n > 2) q [ROWS 4 SLIDE 4] GROUP BY k", Window(4, 0, 0, 4), None),
    ],
)
def test_windows_by_rows_are_recognised(db, tmp_path, text, window, predicate):
    Feed(db, tmp_path, "Raw", "k VARCHAR, n INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute(f"CREATE VIEW V AS SELECT k, sum(n) AS s {text}")
    (found,) = [n for n in walk(db.workload.views["v"].node) if isinstance(n, r.WindowAggregate)]
    assert found.counts_rows and (found.window, sql_of(found.predicate), found.once) == (window, predicate, False)


def test_explain_does_not_call_it_unshared(db, tmp_path):
    Feed(db, tmp_path, "Raw", "k VARCHAR, n INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    for window, alone in (("[ROWS 8 SLIDE 5]", False), ("[ROWS 8 SLIDE 5] SYNC EVERY 5", True)):
        text = str(db.explain(f"SELECT k, sum(n) AS s FROM S {window} GROUP BY k"))
        assert ("its window counts rows" in text) is alone


# ---- life ----------------------------------------------------------------------------------------


@effort(6)
@given(stream=shared_streams(TASTE, most=40), staying=rows_views(most=3), passing=rows_query(), data=st.data())
def test_queries_come_and_go(stream, staying, passing, data):
    """A query that comes later numbers from its beginning; its neighbours do not notice."""
    later = view("later", "STREAMED", passing)
    begin = data.draw(st.integers(0, 3))
    outcomes = []
    for without, setting in ((UNSHARED, ""), ((), data.draw(settings_text()))):
        with database([stream], shards=2, without=without) as db:
            for each in staying:
                db.execute(each.statement)
            if setting:
                db.execute(setting)
            db.start()
            for _ in range(begin):
                db.step()
            db.execute(later.statement)
            while db.step():
                pass
            found = outcome(db, [*staying, later])
            db.execute("DROP VIEW later")
            db.step()
            outcomes.append(found)
    check_same(*reversed(outcomes))


# ---- kernel --------------------------------------------------------------------------------------


@st.composite
def histories_of_groups(draw):
    """For each group its answer after every point (None: no row), and the event time of every point."""
    points = draw(st.integers(1, 8))
    times = sorted(draw(st.lists(st.integers(0, 4), min_size=points, max_size=points)))
    answers = st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=points, max_size=points)
    return times, draw(st.lists(answers, max_size=3))


@effort(100)
@given(histories_of_groups())
def test_of_points_at_one_time_the_last_shows(history):
    times, groups = history
    rows, expected = [], []
    for key, answers in enumerate(groups):
        for target, moments in ((rows, range(len(times))), (expected, _lasts(times))):
            before = None
            for point in moments:
                if answers[point] != before:
                    target += [(point, key, -1, before)] if before is not None else []
                    target += [(point, key, 1, answers[point])] if answers[point] is not None else []
                    before = answers[point]
    point, key, diff, value = (np.array([row[i] for row in rows], np.int64) for i in range(4))  # type: ignore[assignment]
    changes = Answers(point, key, diff, value[None], np.zeros((0, len(rows))), 0)  # type: ignore[arg-type]
    found = merge_by_time(changes, np.array(times, np.int64)[point])
    kept = list(zip(found.point.tolist(), found.key.tolist(), found.diff.tolist(), found.ints[0].tolist(), strict=True))
    assert _net(kept) == _net([(times[p], k, d, v) for p, k, d, v in expected])


def _lasts(times):
    """The last of the points at each time."""
    return [i for i, t in enumerate(times) if i + 1 == len(times) or times[i + 1] != t]


def _net(rows):
    """Changes added up; what cancels is gone."""
    total = {}
    for time, key, diff, value in rows:
        total[time, key, value] = total.get((time, key, value), 0) + diff
    return {row: n for row, n in total.items() if n}
