"""Window aggregates are recognised in every spelling, mean the same afterwards, and nothing else is taken for one."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, tagged
from tests.properties.effort import effort
from tests.properties.queries import aggregate, grouping, predicate, scalar
from tests.properties.query_text import CLASSES, stream_source
from tests.properties.streams import PLAIN, UNIT, Stream, decimals, finite, maybe, small, words
from tests.reference.logs import canonical_row, same_rows
from tests.reference.oracle import Oracle
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.optimize.optimizer import RULES, optimize
from tidemill.optimize.rewrite.window_aggregates import why_not, window_aggregates
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, why_not_weavable
from tidemill.plan.node import walk
from tidemill.plan.relations import Item
from tidemill.plan.scalars import Ceiling, ColumnRef, Epoch, Literal, Operation, Shift
from tidemill.plan.sources import Column
from tidemill.plan.unshared import expand_window_aggregate
from tidemill.plan.windows import Window
from tidemill.runtime.sources.columns import arrow_schema

BEFORE = tuple(rule.__name__ for rule in RULES if rule is not window_aggregates)
STREAMS = {"A": "INTEGER", "T": "TIMESTAMP"}  # by the type of their event time
COLUMNS = {f"a.{c.name}": CLASSES[c.type] for c in PLAIN if c.name != "tm"}
NUMBERS = {n: kind for n, kind in COLUMNS.items() if kind != "str"}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    database = LocalDatabase(str(tmp_path_factory.mktemp("recognition")))
    columns = ", ".join(f"{c.name} {c.type}" for c in PLAIN if c.name != "tm")
    for name, kind in STREAMS.items():
        database.execute(f"""
            REGISTER SOURCE {name}Source ({columns}, tm {kind}) FROM FILES '/nowhere-{name}-*.json'
              WITH (timestamp = 'tm');
            CREATE TAGGED STREAM {name} OVER {name}Source;
            CREATE TAGGED STREAM {name}Keyed OVER {name}Source KEY k""")
    database.execute("REGISTER TABLE D (k INTEGER, w INTEGER) FROM FILES '/nowhere-d*.csv'")
    database.execute("CREATE STREAMED VIEW V AS SELECT k, TS AS t FROM A [WINDOW 3]")
    yield database
    database.close()


def bound(db, text):
    """A query before any rule."""
    return db.workload.bind(parse_one(text).query, Beginning(1)).node


def rewritten(node, without=()):
    """A query after the rules; distinct counts stay in one grouping, which is then no window aggregate."""
    return optimize(node, (*without, "distinct_windows", "keyless_windows")).node


def found_in(node):
    return [n for n in walk(node) if isinstance(n, r.WindowAggregate)]


# ---- spellings -----------------------------------------------------------------------------------

S, TIME = 1_000_000, ColumnRef(r.TS)
TUMBLING = Window(5 * S, 0, 1, 5 * S + 1)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("FROM A [RANGE 8 SLIDE 5] GROUP BY k", Window(5 * S, 3 * S, 1, 8 * S + 1)),
        ("FROM A [RANGE 5 SLIDE 5] GROUP BY k", TUMBLING),
        ("FROM A [RANGE 2 SLIDE 5] GROUP BY k", Window(5 * S, 2 * S, 1, 2 * S + 1)),
        ("FROM T [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k", TUMBLING),
        ("FROM A SYNC EVERY 5 WHERE NOW - 8 < TS AND TS <= NOW GROUP BY k", Window(5 * S, 0, 0, 8 * S)),
        ("FROM A SYNC EVERY 5 WHERE NOW - 8 < TS <= NOW GROUP BY k", Window(5 * S, 0, 0, 8 * S)),
        ("FROM A SYNC EVERY 5 WHERE NOW - 8 < TS GROUP BY k", Window(5 * S, 0, 0, 8 * S)),
        ("FROM A SYNC EVERY 5 WHERE TS + 8 > NOW GROUP BY k", Window(5 * S, 0, 0, 8 * S)),
        # A row enters when it comes, even if the condition would let it in before.
        ("FROM A SYNC EVERY 5 WHERE NOW - 8 < TS AND TS < NOW + 3 GROUP BY k", Window(5 * S, 0, 0, 8 * S)),
        ("FROM A SYNC EVERY 5 WHERE TS BETWEEN NOW - 8 AND NOW - 2 GROUP BY k", Window(5 * S, 0, 2 * S, 9 * S)),
        ("FROM A SYNC EVERY 5 WHERE TS = NOW - 2 GROUP BY k", Window(5 * S, 0, 2 * S, 3 * S)),
        ("FROM T SYNC EVERY 5 WHERE TS = NOW - 2 GROUP BY k", Window(5 * S, 0, 2 * S, 2 * S + 1)),
        ("FROM T SYNC EVERY 5 WHERE NOW - 8 <= TS AND TS < NOW GROUP BY k", Window(5 * S, 0, 1, 8 * S + 1)),
        (
            "FROM A SYNC EVERY 5 WHERE NOW - 8 < TS AND NOW - 6 < TS AND TS <= NOW AND TS < NOW GROUP BY k",
            Window(5 * S, 0, S, 6 * S),
        ),
        ("FROM A [WINDOW 8] SYNC EVERY 5 GROUP BY k", Window(5 * S, 0, S, 9 * S)),
        ("FROM A [WINDOW 8] SYNC EVERY 5 WHERE NOW - 3 < TS GROUP BY k", Window(5 * S, 0, S, 3 * S)),
        ("FROM A [RANGE 5 SLIDE 5] SYNC EVERY 5 GROUP BY k", TUMBLING),
        (
            "FROM A [RANGE 8 SLIDE 5] WHERE v > 2 AND s = 'a' GROUP BY k + 1, upper(s) HAVING count(*) > 1",
            Window(5 * S, 3 * S, 1, 8 * S + 1),
        ),
        ("FROM (SELECT k + 1 AS k, v FROM A [RANGE 5 SLIDE 5] WHERE v > 0) q WHERE k > 2 GROUP BY k", TUMBLING),
        ("FROM (SELECT k, count(*) AS n FROM A [RANGE 5 SLIDE 5] GROUP BY k) q GROUP BY n", TUMBLING),
        (
            "FROM (SELECT k, count(*) AS n FROM A [WINDOW 8] GROUP BY k) q SYNC EVERY 4 GROUP BY n",
            Window(4 * S, 0, S, 9 * S),
        ),
        ("FROM A SYNC EVERY 5 GROUP BY k", Window(5 * S, 0, 0, None)),
        ("FROM A SYNC EVERY 5 WHERE TS <= NOW - 2 GROUP BY k", Window(5 * S, 0, 2 * S, None)),
        # Of the epoch [0, 5) the rows up to 3 come at 5, the others at 10: its groups change after they were reported.
        ("FROM A SYNC EVERY 5 WHERE TS <= NOW - 2 GROUP BY TS/5", Window(5 * S, 0, 2 * S, None)),
    ],
)
def test_a_window_is_what_its_text_says(db, text, window):
    (found,) = found_in(rewritten(bound(db, f"SELECT count(*) AS n {text}")))
    assert (found.window, found.once) == (window, False)
    assert isinstance(found.input, r.Scan)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("FROM A GROUP BY TS/5 AS tb", TUMBLING),
        ("FROM A GROUP BY k, tm/5", TUMBLING),
        ("FROM A [WINDOW UNTIL NOW] GROUP BY (TS - 5)/5, k", TUMBLING),
        ("FROM A SYNC EVERY 5 WHERE k > 1 GROUP BY tm/5 AS tb, s", TUMBLING),
        ("FROM A GROUP BY (TS - 3)/5", Window(5 * S, 3 * S, 1, 5 * S + 1)),
        ("FROM A GROUP BY (TS + 3)/5", Window(5 * S, 2 * S, 1, 5 * S + 1)),
    ],
)
def test_an_epoch_is_a_tumbling_window_whose_groups_stay(db, text, window):
    (found,) = found_in(rewritten(bound(db, f"SELECT count(*) AS n {text}")))
    assert (found.window, found.once) == (window, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("count(*) AS n FROM AKeyed [RANGE 8 SLIDE 5] GROUP BY k", "a keyed stream takes rows back"),
        ("count(*) AS n FROM D GROUP BY k", "a table has no time"),
        ("count(*) AS n FROM V SYNC EVERY 5 GROUP BY k", "it reads a view, not a stream"),
        ("count(*) AS n FROM clockStr SYNC EVERY 5 WHERE NOW - 3 < TS GROUP BY TimePoint", "it reads clockStr"),
        (
            "count(*) AS n FROM A a JOIN A b ON a.k = b.k AND b.TS BETWEEN a.TS - 5 AND a.TS + 5 GROUP BY a.k",
            "it groups a join",
        ),
        ("count(*) AS n FROM A [ROWS 3] SYNC EVERY 5 GROUP BY k", "its window counts rows"),
        ("count(*) AS n FROM A SYNC EVERY 5 ROWS WHERE NOW - 3 < TS GROUP BY k", "its points come from data"),
        (
            "count(*) AS n FROM (SELECT k FROM A [WINDOW 3]) q [RANGE 4 SLIDE 2] GROUP BY k",
            "its times are those of changes, not of rows",
        ),
        ("count(*) AS n FROM A [RANGE 8 SLIDE 5] SYNC EVERY 4 GROUP BY k", "two different rhythms"),
        ("count(*) AS n FROM A GROUP BY TS/5, TS/3", "two different rhythms"),
        ("count(*) AS n FROM A [WINDOW 8] GROUP BY TS/5", "rows come or go between the points"),
        (
            "count(*) AS n FROM A WHERE NOW - 8 < TS GROUP BY k",
            "it refreshes at every change: no SLIDE, SYNC EVERY or epoch",
        ),
        ("count(*) AS n FROM A SYNC EVERY 5 WHERE NOW - 2 < TS AND TS < NOW - 4 GROUP BY k", "no row is ever inside"),
        (
            "count(*) AS n FROM A SYNC EVERY 5 WHERE NOW - 8 < TS AND NOW < v GROUP BY k",
            "the window is not bounded by TS plus a constant",
        ),
        ("count(*) AS n FROM A [RANGE 8 SLIDE 5]", "a grouping without keys has one row at all times"),
        ("count(DISTINCT v) AS n FROM A [RANGE 8 SLIDE 5] GROUP BY k", "COUNT(DISTINCT …)"),
        ("max(s) AS m FROM A [RANGE 8 SLIDE 5] GROUP BY k", "MAX of VARCHAR"),
        ("sum(CAST(v AS HUGEINT)) AS m FROM A [RANGE 8 SLIDE 5] GROUP BY k", "SUM of HUGEINT"),
        ("sum(CAST(d AS DECIMAL(20,2))) AS m FROM A [RANGE 8 SLIDE 5] GROUP BY k", "SUM of DECIMAL(20,2)"),
    ],
)
def test_what_is_no_window_aggregate_stays_and_says_why(db, text, reason):
    node = rewritten(bound(db, f"SELECT {text}"))
    assert not found_in(node)
    (left,) = [n for n in walk(node) if isinstance(n, r.GroupBy)]
    assert why_not(left) == reason


def test_expressions_are_put_over_the_stream(db):
    """Through two projections, and past filters above, between and below windows."""
    inner = "SELECT k + 1 AS a, v * 2 AS b, v FROM A [RANGE 5 SLIDE 5] WHERE k > 0"
    text = f"SELECT a, sum(b) AS n, max(v - a) AS m, sum(b) - 1 AS l FROM ({inner}) q WHERE b < 9 GROUP BY a"
    for off in ((), BEFORE):
        (found,) = found_in(rewritten(bound(db, text), off))
        assert found.predicate.sql == '("k" > 0) AND (("v" * 2) < 9)'
        assert [i.sql for i in found.keys] == ['"k" + 1']
        assert [i.sql for i in found.arguments] == ['"v" * 2', '"v" - ("k" + 1)']
        assert [a.argument for a in found.aggregates] == [i.name for i in found.arguments]


@pytest.fixture(scope="module")
def scan(db):
    return next(n for n in walk(bound(db, "SELECT k FROM A")) if isinstance(n, r.Scan))


def test_the_order_of_arrival_is_not_shared(scan):
    inside = r.Synchronize(r.Temporal(scan, TIME, Shift(TIME, "+", 5)), 5)
    late = Operation(">", ColumnRef("__seq"), Literal("3"))
    for node in (r.GroupBy(inside, ("__seq",), ()), r.GroupBy(r.Filter(inside, late), ("k",), ())):
        assert why_not(node) == "it depends on the order of arrival"
    assert why_not(r.GroupBy(inside, ("k",), ())) is None


def test_groups_stay_only_when_the_key_is_their_epoch(scan):
    rows = r.Temporal(scan, Ceiling(Shift(TIME, "+", 1), 5, 3), None, (5, 3))
    three, eight, two = (Shift(TIME, "-", us) for us in (3, 8, 2))
    later = Shift(TIME, "+", 2)
    epochs = [(three, 5), (later, 5), (eight, 5), (two, 5), (three, 10)]
    keys = [Item("e", Epoch(time, length, "BIGINT"), "BIGINT") for time, length in epochs]
    groups = [window_aggregates(r.GroupBy(r.Project(rows, (key,)), ("e",), ())) for key in keys]
    assert [g.once for g in groups] == [True, True, True, False, False]  # type: ignore[attr-defined]
    assert not window_aggregates(r.GroupBy(rows, ("k",), ())).once  # type: ignore[attr-defined]


def test_a_window_above_a_synchronizer_is_another_window(scan):
    """It lets rows go between the points."""
    above = r.Temporal(r.Synchronize(scan, 5), None, Shift(TIME, "+", 3))
    assert why_not(r.GroupBy(above, ("k",), ())) == "a window over what was synchronized before"


def test_bounds_that_nobody_wrote_are_not_understood(scan):
    later, upper = Shift(TIME, "+", 1), Ceiling(Shift(TIME, "+", 9), 5, 0)
    for lower in (later, Ceiling(later, 5, 1), Ceiling(Operation("*", TIME, Literal("1")), 5, 0)):
        node = r.GroupBy(r.Temporal(scan, lower, upper, (5, 0)), ("k",), ())
        assert why_not(node) == "the window is not bounded by TS plus a constant"
    leaves = r.Temporal(scan, None, upper, (5, 0))
    assert why_not(r.GroupBy(leaves, ("k",), ())) == "rows come or go between the points"


@pytest.mark.parametrize(
    ("function", "kind", "fine"),
    [
        ("count", "VARCHAR", True),
        ("sum", "UINTEGER", True),
        ("sum", "UBIGINT", False),
        ("avg", "DECIMAL(18,3)", True),
        ("avg", "DECIMAL(19,3)", False),
        ("max", "DATE", True),
        ("min", "TIMESTAMP", True),
        ("max", "BOOLEAN", True),
        ("var_pop", "FLOAT", True),
        ("stddev_samp", "BIGINT", True),
        ("min", "INTERVAL", False),
    ],
)
def test_aggregates_of_numbers_are_weavable(function, kind, fine):
    assert (why_not_weavable(Aggregate(function, "a", kind, "n", kind)) is None) is fine


# ---- epochs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("without", [(), ("window_aggregates",)])
def test_epochs_before_time_zero_are_epochs_of_their_own(tmp_path, without):
    """Times -4…-1 and 0…4 do not share a number, and each epoch is reported once, when it ends."""
    with LocalDatabase(str(tmp_path / "db"), without=without) as db:
        Feed(db, tmp_path, "Raw", "n INTEGER").send("<1>-7 <2>-4 <4>-1 <8>0 <16>4 <32>5 <64>11")
        db.execute("CREATE TAGGED STREAM S OVER Raw")
        db.execute("CREATE STREAMED VIEW E AS SELECT tb, sum(n) AS s FROM S GROUP BY TS/5 AS tb")
        db.execute("CREATE STREAMED VIEW F AS SELECT at/5 AS tb, sum(n) AS s FROM S GROUP BY at/5")
        db.run()
        assert tagged(db, "E") == ["+<-2,1>-5", "+<-1,6>0", "+<0,24>5", "+<1,32>10"] == tagged(db, "F")


@pytest.mark.parametrize("without", [(), ("window_aggregates",)])
def test_shifted_epochs_are_reported_when_they_end(tmp_path, without):
    """(TS - 3)/5 numbers the epochs [3, 8), [8, 13), …"""
    with LocalDatabase(str(tmp_path / "db"), without=without) as db:
        Feed(db, tmp_path, "Raw", "n INTEGER").send("<1>2 <2>3 <4>7 <8>8 <16>12 <32>13")
        db.execute("CREATE TAGGED STREAM S OVER Raw")
        db.execute("CREATE STREAMED VIEW E AS SELECT tb, sum(n) AS s FROM S GROUP BY (TS - 3)/5 AS tb")
        db.run()
        assert tagged(db, "E") == ["+<-1,1>3", "+<0,6>8", "+<1,24>13"]


# ---- meaning -------------------------------------------------------------------------------------


@st.composite
def rows(draw):
    """Rows of both streams, before and after time 0, in the order of time."""
    values = {"k": st.integers(0, 2), "v": small, "x": finite, "d": decimals, "s": words}
    record = st.fixed_dictionaries({n: maybe(v) for n, v in values.items()} | {"at": st.integers(-13, 13)})
    found = draw(st.lists(record, min_size=draw(st.sampled_from([0, 8])), max_size=14))
    found.sort(key=lambda row: row["at"])
    return [{**row, "part": draw(st.sampled_from([0, 0, 1, 250_000, 999_999]))} for row in found]


def arrived(source, records):
    """Rows as a reader of the source sees them: clock units, or times to the microsecond."""
    units = source == "ASource"
    schema = arrow_schema((*PLAIN[:5], Column("tm", STREAMS[source[0]])))
    times = [row["at"] * UNIT + (0 if units else row["part"]) for row in records]
    since = datetime(1970, 1, 1)
    told = [row["at"] for row in records] if units else [since + timedelta(microseconds=t) for t in times]
    data = {c.name: pa.array([row[c.name] for row in records], schema.field(c.name).type) for c in PLAIN[:5]}
    hidden = {"__ts": pa.array(times, pa.int64()), "__seq": pa.array(range(len(records)), pa.int64())}
    return pa.table({**data, "tm": pa.array(told, schema.field("tm").type), **hidden})


def check_meaning(before, after, records):
    """The same rows at every moment: in points, just before, and between them."""
    moments = {t * UNIT + e for t in range(-14, 26) for e in (-1, 0, 1, UNIT // 2)}
    truth = Oracle(lambda source, _: arrived(source, records), moments, begin=min(moments))
    try:
        expected, found = truth.history(before), truth.history(after)
    finally:
        truth.close()
    for moment in sorted(moments):
        a, b = (Counter(map(canonical_row, h[moment])) for h in (expected, found))
        assert same_rows(b, a), f"at {moment / UNIT:g}: {dict(b)} instead of {dict(a)}"


rules_off = st.sampled_from([(), ("push_filters",), ("presynchronize",), BEFORE])
lengths = st.integers(1, 7)


@st.composite
def window_text(draw, odd):
    """(stream with window, conditions, key of an epoch); the odd ones are mixed with other windows."""
    stream = draw(st.sampled_from(sorted(STREAMS)))
    size, slide, back = draw(lengths), draw(lengths), draw(st.integers(0, 3))
    sync = f"SYNC EVERY {draw(st.integers(2, 4))} " if odd and draw(st.booleans()) else ""
    how = draw(st.sampled_from(["range", "window", "now", "now", "now", "epoch"]))
    if how == "range":
        return f"{stream} [RANGE {size} SLIDE {slide}] {sync}AS a", [], None
    if how == "window":
        return f"{stream} [WINDOW {size}] {sync or f'SYNC EVERY {slide} '}AS a", [], None
    if how == "epoch":
        time = draw(st.sampled_from(["a.TS", "a.tm", f"(a.TS - {back})", f"(a.TS + {back})"]))
        window = draw(st.sampled_from(["", f"[WINDOW {size}] ", f"[RANGE {size} SLIDE {slide}] "])) if odd else ""
        return f"A {window}{sync}AS a", [], f"{time}/{slide}"
    until = draw(
        st.sampled_from(
            [
                f"NOW - {size + back} < a.TS",
                f"a.TS >= NOW - {size + back}",
                f"a.TS + {size} > NOW - {back}",
                f"NOW <= a.TS + {size + back}",
            ]
        )
    )
    after = draw(st.sampled_from(["", f"a.TS <= NOW - {back}", f"NOW - {back} > a.TS", f"a.TS < NOW + {back}"]))
    return f"{stream} SYNC EVERY {slide} AS a", [until, after] if after else [until], None


@st.composite
def window_queries(draw, odd=False):
    """GROUP BY over a window in any spelling, with expressions, FILTER, WHERE, HAVING, subqueries."""
    source, conditions, epoch = draw(window_text(odd))
    where = [*conditions, *draw(st.lists(predicate(COLUMNS), max_size=1))]
    keys = draw(st.lists(scalar(COLUMNS, exact=True), min_size=1, max_size=2, unique_by=lambda x: x[0]))
    texts = [*([epoch] if epoch else []), *(sql for sql, _ in keys)]
    calls = [sql for sql, _ in draw(st.lists(aggregate(NUMBERS, False), min_size=1, max_size=2))]
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1"]))
    if not epoch and draw(st.booleans()):
        names = [c.name for c in PLAIN if c.name != "tm"]
        inner = f"SELECT {', '.join(f'a.{n} AS {n}' for n in names)}, a.v + 1 AS w FROM {source}"
        inner += f" WHERE {' AND '.join(where)}" if where else ""
        more = draw(st.sampled_from(["", " WHERE a.w > 2", " WHERE a.w + a.k < 8"]))
        source, where, texts = f"({inner}) AS a{more}", [], [*texts, "a.w"]
    chosen = ", ".join(f"{sql} AS o{i}" for i, sql in enumerate([*texts, *calls]))
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    text = f"SELECT {chosen} FROM {source}{condition} GROUP BY {', '.join(texts)}{having}"
    return f"SELECT o0, COUNT(*) AS n FROM ({text}) q GROUP BY o0" if draw(st.integers(0, 4)) == 0 else text


@effort(100)
@given(text=st.booleans().flatmap(window_queries), records=rows(), off=rules_off)
def test_a_recognised_window_aggregate_means_the_same(db, text, records, off):
    before = bound(db, text)
    check_meaning(before, optimize(before, off).node, records)


@effort(50)
@given(query=grouping([stream_source(Stream("A", PLAIN, ()))], [], False), records=rows())
def test_any_grouping_means_the_same(db, query, records):
    before = bound(db, query.text)
    check_meaning(before, optimize(before).node, records)


@effort(100)
@given(text=window_queries(), off=rules_off)
def test_only_a_reason_leaves_a_grouping_as_it_was(db, text, off):
    """What these queries may lack is a kind of aggregate, or a window that is ever open."""
    node = rewritten(bound(db, text), off)
    left = [why_not(n) for n in walk(node) if isinstance(n, r.GroupBy)]
    fine = ("it groups groups", "COUNT(DISTINCT …)", "no row is ever inside")
    assert all(reason in fine or str(reason).endswith(("of VARCHAR", "of HUGEINT")) for reason in left), left
    assert len(left) + len(found_in(node)) == text.count("GROUP BY")


@effort(60)
@given(text=window_queries())
def test_the_plain_form_is_recognised_as_the_same_node(db, text):
    for found in found_in(rewritten(bound(db, text))):
        assert window_aggregates(expand_window_aggregate(found)) is found
