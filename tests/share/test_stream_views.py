"""Window aggregates over views that only select and project a stream are part of the stream's one shared plan."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, tagged
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import contents_of, drawn_database, log_of
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.optimize.optimizer import optimize
from tidemill.optimize.rewrite.stream_views import unfold_stream_views
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import Lfta

OFF = f"SET optimizer_off = '{unfold_stream_views.__name__}'"
SETUP = """
REGISTER SOURCE Raw (k INTEGER, v INTEGER, s VARCHAR, at BIGINT) FROM FILES '/nowhere*.csv' WITH (timestamp = 'at');
REGISTER SOURCE Corrected (k INTEGER, v INTEGER, at BIGINT) FROM FILES '/nowhere-c*.csv'
  WITH (timestamp = 'at', late = 'apply');
CREATE TAGGED STREAM A OVER Raw;
CREATE TAGGED STREAM Keyed OVER Raw KEY k;
CREATE TAGGED STREAM Late OVER Corrected;
REGISTER TABLE D (k INTEGER, v INTEGER) FROM FILES '/nowhere-d*.csv';
CREATE STREAMED VIEW Few AS SELECT k, v, s, A.TS AS since FROM A WHERE v > 2 AND s IS NOT NULL;
CREATE VIEW Fewer AS SELECT v AS w, k AS key, since FROM Few WHERE k IN (1, 2, 3);
"""


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with LocalDatabase(str(tmp_path_factory.mktemp("stream_views") / "db")) as made:
        made.execute(SETUP)
        yield made


def optimized(db, text):
    """The plan of a query that begins with the views."""
    return optimize(db.workload.bind(parse_one(f"SELECT {text}").query, Beginning(1)).node).node


def windows_of(node):
    return [n for n in walk(node) if isinstance(n, r.WindowAggregate)]


@pytest.mark.parametrize(
    ("over_view", "over_stream"),
    [
        (
            "k, count(*) AS n FROM Few [RANGE 8 SLIDE 5] GROUP BY k",
            "k, count(*) AS n FROM A [RANGE 8 SLIDE 5] WHERE v > 2 AND s IS NOT NULL GROUP BY k",
        ),
        (
            "k, sum(v) AS n FROM Few SYNC EVERY 5 WHERE NOW - 8 < TS AND v < 9 GROUP BY k",
            "k, sum(v) AS n FROM A SYNC EVERY 5 WHERE NOW - 8 < TS AND v > 2 AND s IS NOT NULL AND v < 9 GROUP BY k",
        ),
        (
            "k, max(v) AS n FROM Few [WINDOW 8] SYNC EVERY 5 GROUP BY k",
            "k, max(v) AS n FROM A [WINDOW 8] SYNC EVERY 5 WHERE v > 2 AND s IS NOT NULL GROUP BY k",
        ),
        (
            "k, count(*) AS n FROM Few SYNC EVERY 5 GROUP BY k",
            "k, count(*) AS n FROM A SYNC EVERY 5 WHERE v > 2 AND s IS NOT NULL GROUP BY k",
        ),
        (
            "key, min(w) AS n FROM Fewer [RANGE 4 SLIDE 2] WHERE w > key GROUP BY key",
            "k AS key, min(v) AS n FROM A [RANGE 4 SLIDE 2]"
            " WHERE v > 2 AND s IS NOT NULL AND k IN (1, 2, 3) AND v > k GROUP BY k",
        ),
        ("k, count(*) AS n FROM (SELECT k FROM A) q [RANGE 4 SLIDE 2] GROUP BY k",) * 2,
    ],
)
def test_a_view_of_a_stream_is_read_as_its_text(db, over_view, over_stream):
    (mine,), (other,) = (windows_of(optimized(db, text)) for text in (over_view, over_stream))
    assert isinstance(mine.input, r.Scan) and mine.input is other.input
    assert (mine.window, mine.once) == (other.window, other.once)
    assert [k.sql for k in mine.keys] == [k.sql for k in other.keys]
    tests = [None if n.predicate is None else n.predicate.sql.replace("(", "").replace(")", "") for n in (mine, other)]
    assert tests[0] == tests[1]


def test_epochs_distinct_counts_and_windows_without_keys_share_too(db):
    (found,) = windows_of(optimized(db, "tb, count(*) AS n FROM Few GROUP BY TS/5 AS tb"))
    assert found.once
    assert windows_of(optimized(db, "k, count(DISTINCT s) AS n FROM Few [RANGE 8 SLIDE 5] GROUP BY k"))
    assert windows_of(optimized(db, "count(*) AS n FROM Fewer [RANGE 8 SLIDE 5]"))


@pytest.mark.parametrize(
    "view",
    [
        "SELECT k, v FROM A SYNC EVERY 5",
        "SELECT k, v FROM A SYNC EVERY 3 ROWS",
        "SELECT k, v FROM A [WINDOW 9]",
        "SELECT k, v FROM A [RANGE 5 SLIDE 5]",
        "SELECT k, v FROM A [ROWS 9]",
        "SELECT k, count(*) AS v FROM A GROUP BY k",
        "SELECT DISTINCT k, v FROM A",
        "SELECT k, v FROM Keyed",
        "SELECT k, v FROM Late",
        "SELECT a.k, D.v FROM A a JOIN D ON a.k = D.k",
        "SELECT k, v FROM A UNION ALL SELECT k, v FROM A",
        "SELECT k, v + 1 AS v FROM A",  # may overflow
        "SELECT k, v, CAST(s AS INTEGER) AS i FROM A",
        "SELECT k, v FROM A WHERE CAST(s AS INTEGER) > 3",
    ],
)
def test_every_other_view_is_read_as_it_is(db, view):
    db.execute(f"CREATE VIEW Other AS {view} WITH (unbounded_state = true)")
    try:
        for text in ("FROM Other SYNC EVERY 5 GROUP BY k", "FROM Other [RANGE 8 SLIDE 5] GROUP BY k"):
            node = optimized(db, f"k, count(*) AS n {text}")
            assert any(isinstance(n, r.View) for n in walk(node))
            assert all(isinstance(n.input, r.RowsWindow) for n in windows_of(node) if not _inside_view(node, n))
    finally:
        db.execute("DROP VIEW Other")


def _inside_view(root, node):
    return any(node in list(walk(n)) for n in walk(root) if isinstance(n, r.View))


def test_an_rstream_view_is_read_as_it_is(db):
    db.execute("CREATE RSTREAM VIEW Again AS SELECT k, v FROM A SYNC EVERY 5")
    assert not windows_of(optimized(db, "k, count(*) AS n FROM Again SYNC EVERY 5 GROUP BY k"))
    db.execute("DROP VIEW Again")


def test_what_shares_nothing_keeps_reading_the_view(db):
    """Without points, or with an aggregate that cannot be put together from parts, the rows of the view are there."""
    for text in ("k, count(*) AS n FROM Few GROUP BY k", "k, max(s) AS n FROM Few [RANGE 8 SLIDE 5] GROUP BY k"):
        node = optimized(db, text)
        assert not windows_of(node) and any(isinstance(n, r.View) for n in walk(node))


# ---- running -------------------------------------------------------------------------------------


def start(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "k INTEGER, v INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 2")
    return feed


QUERY = "SELECT k, sum(v) AS s FROM {} [RANGE 4 SLIDE 2] GROUP BY k"


def test_one_plan_serves_the_stream_and_its_views(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = start(db, tmp_path)
        db.execute(f"CREATE STREAMED VIEW Q AS {QUERY.format('V')}; CREATE STREAMED VIEW P AS {QUERY.format('S')}")
        feed.send("<1,3>1 <1,1>2 <2,5>2 <1,4>5 <2,2>7")
        db.run()
        (lfta,) = (op for op in db.workload.physical(9, (0,)).reader if isinstance(op, Lfta))
        assert len(lfta.queries) == 2 and len(lfta.stores) == 1
        assert tagged(db, "Q") == ["+<1,3>2", "+<2,5>4", "u<1,4>6"]


def test_a_later_query_begins_with_the_contents_of_the_view(tmp_path):
    """It must not read the stream, which it would see from its creation on only."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = start(db, tmp_path)
        feed.send("<1,3>1 <2,5>2")
        db.run(final=False)
        db.execute("CREATE VIEW Later AS SELECT k, count(*) AS n FROM V SYNC EVERY 2 GROUP BY k")
        assert not windows_of(db.workload.views["later"].node)
        feed.send("<1,7>5 <2,9>6")
        db.run()
        assert db.query("SELECT k, n FROM Later ORDER BY k").to_pylist() == [{"k": 1, "n": 2}, {"k": 2, "n": 2}]


def test_the_plan_stays_when_the_database_is_opened_again(tmp_path):
    """That of an older database too: its state fits the plan that it was made with."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        start(db, tmp_path)
        db.execute(f"CREATE VIEW Q AS {QUERY.format('V')}; CREATE VIEW Old AS {QUERY.format('V')}")
        node = db.workload.views["q"].node
        db.catalog.entries["old"].planning = 1
        db.run(final=False)
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert windows_of(node) and again.workload.views["q"].node is node
        assert not windows_of(again.workload.views["old"].node)


def test_dropped_names_and_readers(tmp_path):
    """The query reads the view by its name, whatever its plan reads: the view can go only with it."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        start(db, tmp_path)
        db.execute(f"CREATE VIEW Q AS {QUERY.format('V')}")
        with pytest.raises(Exception, match="TM306"):
            db.execute("DROP VIEW V")


# ---- meaning -------------------------------------------------------------------------------------

_CONDITIONS = ("v > 0", "v <> 1", "s = 'b'", "s IS NOT NULL", "x > 0.5", "k IN (0, 2)", "d <= 3", "TS > 3", "v * 2 > 1")
_COLUMNS = ("s", "x", "d", "TS AS t", "v % 3 AS m")
_CALLS = ("count(*)", "sum(v)", "max(v)", "avg(v)", "min(k)", "count(DISTINCT k)")
_WINDOWS = (
    "{v} [RANGE 4 SLIDE 2]",
    "{v} [RANGE 3 SLIDE 5]",
    "{v} [WINDOW 6] SYNC EVERY 2",
    "{v} SYNC EVERY 3",
    "{v} [ROWS 4]",
    "{v} SYNC EVERY 2 WHERE NOW - 5 < TS",
    "{v} WHERE v > 1",
)
_drawn: Counter[str] = Counter()


@st.composite
def view_text(draw, source):
    """A selection and projection of a stream or of another view, at times with points of its own."""
    first = source == "A"
    more = draw(st.permutations(_COLUMNS))[: draw(st.integers(0, 3))] if first else ()
    where = draw(st.lists(st.sampled_from(_CONDITIONS if first else _CONDITIONS[:2]), max_size=2))
    sync = draw(st.sampled_from(("", "", "", " SYNC EVERY 2")))
    return f"SELECT {', '.join(('k', 'v', *more))} FROM {source}{sync}" + (
        f" WHERE {' AND '.join(where)}" if where else ""
    )


@st.composite
def workloads(draw):
    stream = draw(streams.append_only("A", odd=draw(st.booleans())))
    views = [draw(view_text("A"))]
    views += [draw(view_text(f"v{i}")) for i in range(draw(st.integers(0, 2)))]
    asked = []
    for _ in range(draw(st.integers(1, 4))):
        window = draw(st.sampled_from(_WINDOWS)).format(v=f"v{draw(st.integers(0, len(views) - 1))}")
        keys = draw(st.sampled_from(("k", "k", "k, v", "TS/3 AS e", "")))
        call = draw(st.sampled_from(_CALLS))
        shown = ", ".join(filter(None, (keys.replace("TS/3 AS e", "e"), f"{call} AS c")))
        asked.append(f"SELECT {shown} FROM {window}" + (f" GROUP BY {keys}" if keys else ""))
    return stream, views, asked


@effort(20)
@given(workload=workloads(), place=places)
def test_the_log_is_the_same_with_and_without(workload, place):
    stream, views, asked = workload
    free = " WITH (unbounded_state = true)"
    with drawn_database([stream], **place) as db:
        db.execute("SET view_matching = off")
        for i, text in enumerate(views):
            db.execute(f"CREATE VIEW v{i} AS {text}{free}")
        for name, off in (("mine", "SET optimizer_off = ''"), ("plain", OFF)):
            db.execute(off)
            for i, text in enumerate(asked):
                db.execute(f"CREATE STREAMED VIEW {name}{i} AS {text}{free}")
        db.run()
        for i, text in enumerate(asked):
            assert log_of(db, f"mine{i}") == log_of(db, f"plain{i}"), text
            assert contents_of(db, f"mine{i}") == contents_of(db, f"plain{i}")
            fired = db.workload.views[f"mine{i}"].node is not db.workload.views[f"plain{i}"].node
            _drawn["shared" if fired else "as it was"] += 1
            event("shared" if fired else "as it was")


def test_many_of_them_were_shared():
    """The property above says something only where the rule fires."""
    assert min(_drawn["shared"], _drawn["as it was"]) >= 8, _drawn
