"""Queries: what FROM, expressions and the output words become, and that text and tree agree."""

from __future__ import annotations

import copy
import pickle

import pytest
from sqlglot import exp

from tests.statements import parse, parse_one
from tidemill.errors import SyntaxProblem
from tidemill.plan.statements import Select
from tidemill.sql.dialect.dialect import Tidemill, to_sql
from tidemill.sql.dialect.nodes import Difference, Now, Sync, WindowSpec
from tidemill.sql.lexical.durations import Duration
from tidemill.sql.parse.statements import position

MINUTE = 60_000_000


def query(text: str) -> exp.Expression:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


def first_item(text: str) -> exp.Expression:
    return query(f"SELECT * FROM {text}").args["from_"].this


def condition(text: str) -> exp.Expression:
    return query(f"SELECT * FROM S WHERE {text}").args["where"].this


SYNCS = [
    ("S SYNC EVERY 2 MINUTES AS x", Sync(every=Duration(us=2 * MINUTE)), "x"),
    ("S AS x SYNC EVERY 2 MINUTES", Sync(every=Duration(us=2 * MINUTE)), "x"),
    ("S x SYNC ON PoliceSync", Sync(on="PoliceSync"), "x"),
    ("S SYNC ON PoliceSync x", Sync(on="PoliceSync"), "x"),
    ("S sync every 1000 rows", Sync(rows=1000), "S"),
    ("S SYNC EVERY 1 ROW", Sync(rows=1), "S"),
    ('S SYNC ON "my sync"', Sync(on="my sync"), "S"),
    ("(SELECT a FROM S) SYNC EVERY 5 AS q", Sync(every=Duration(units=5)), "q"),
    ("(SELECT a FROM S) AS q SYNC EVERY 5", Sync(every=Duration(units=5)), "q"),
    ("R(S, Sync2)", Sync(on="Sync2"), "S"),
    ("r(S, Sync2) AS R1", Sync(on="Sync2"), "R1"),
    ("R(S, Sync2) R1", Sync(on="Sync2"), "R1"),
    ("R((SELECT a FROM S), Sync2) R1", Sync(on="Sync2"), "R1"),
]


@pytest.mark.parametrize(("text", "sync", "name"), SYNCS)
def test_sync_stands_on_its_item_before_or_behind_the_alias(text, sync, name):
    item = first_item(text)
    assert item.args["sync"] == sync
    assert item.alias_or_name == name


@pytest.mark.parametrize("text", ["R(S)", "r(S)", "S"])
def test_the_relation_of_a_stream_is_the_stream(text):
    assert first_item(text) == exp.to_table("S")


def test_the_relation_of_a_subquery_is_the_subquery():
    assert first_item("R((SELECT a FROM S)) x") == first_item("(SELECT a FROM S) x")


WINDOWS = [
    ("Bid AS B [WINDOW 1 HOUR]", WindowSpec("window", size=Duration(us=60 * MINUTE))),
    ("Bid [WINDOW 1 HOUR] AS B", WindowSpec("window", size=Duration(us=60 * MINUTE))),
    ("Bid B [WINDOW 10]", WindowSpec("window", size=Duration(units=10))),
    ("Bid B [WINDOW UNTIL NOW]", WindowSpec("landmark")),
    ("Bid B [ROWS 100]", WindowSpec("rows", rows=100)),
    ("Bid B [ROWS 1000 SLIDE 100]", WindowSpec("rows", rows=1000, slide_rows=100)),
    (
        "Bid B [RANGE 60 SECONDS SLIDE 1 SECOND]",
        WindowSpec("range", size=Duration(us=MINUTE), slide=Duration(us=1_000_000)),
    ),
    ("Bid B [RANGE 60]", WindowSpec("range", size=Duration(units=60), slide=Duration(units=60))),
    ("(SELECT a FROM S) B [rows 5]", WindowSpec("rows", rows=5)),
]


@pytest.mark.parametrize(("text", "window"), WINDOWS)
def test_windows(text, window):
    item = first_item(text)
    assert item.args["window"] == window
    assert item.alias == "B"


@pytest.mark.parametrize(
    "text",
    [
        "S x [ROWS 5] SYNC EVERY 3",
        "S SYNC EVERY 3 x [ROWS 5]",
        "S [ROWS 5] SYNC EVERY 3 AS x",
        "S [ROWS 5] x SYNC EVERY 3",
    ],
)
def test_a_window_and_a_sync_may_both_be_there(text):
    assert first_item(text) == first_item("S SYNC EVERY 3 [ROWS 5] AS x")


def test_clauses_reach_the_items_of_joins():
    tree = query("SELECT * FROM A a [ROWS 1], B SYNC EVERY 2 LEFT JOIN C c SYNC ON v ON a.x = c.x")
    comma, left = tree.args["joins"]
    assert comma.this.args["sync"] == Sync(every=Duration(units=2))
    assert left.this.args["sync"] == Sync(on="v")
    assert left.side == "LEFT"
    assert left.args["on"].sql() == "a.x = c.x"


def test_sync_stays_a_name_where_it_is_no_clause():
    assert first_item("S AS sync").alias == "sync"
    assert query("SELECT sync FROM sync").args["from_"].this.name == "sync"


DURATIONS = [
    ("5", Duration(units=5)),
    ("2 MINUTES", Duration(us=2 * MINUTE)),
    ("INTERVAL '5' MINUTE", Duration(us=5 * MINUTE)),
    ("INTERVAL 5 MINUTES", Duration(us=5 * MINUTE)),
    ("INTERVAL '5 minutes'", Duration(us=5 * MINUTE)),
    ("'5 seconds'", Duration(us=5_000_000)),
    ("'1 hour 30 minutes'", Duration(us=90 * MINUTE)),
    ("0.5 seconds", Duration(us=500_000)),
    *[(f"3 {unit}", Duration(us=3)) for unit in ("us", "microsecond", "MICROSECONDS")],
    *[(f"3 {unit}", Duration(us=3_000)) for unit in ("ms", "millisecond", "milliseconds")],
    *[(f"3 {unit}", Duration(us=3_000_000)) for unit in ("s", "sec", "second", "seconds")],
    *[(f"3 {unit}", Duration(us=3 * MINUTE)) for unit in ("min", "minute", "minutes")],
    *[(f"3 {unit}", Duration(us=180 * MINUTE)) for unit in ("hour", "hours")],
    *[(f"3 {unit}", Duration(us=3 * 1440 * MINUTE)) for unit in ("day", "days")],
    *[(f"3 {unit}", Duration(us=3 * 7 * 1440 * MINUTE)) for unit in ("week", "weeks")],
]


@pytest.mark.parametrize(("text", "duration"), DURATIONS)
def test_durations(text, duration):
    assert first_item(f"S SYNC EVERY {text} AS x").args["sync"].every == duration
    assert first_item(f"S [WINDOW {text}]").args["window"].size == duration


def test_a_duration_has_exactly_one_measure():
    with pytest.raises(ValueError, match="either"):
        Duration()
    with pytest.raises(ValueError, match="either"):
        Duration(units=1, us=1)


@pytest.mark.parametrize("sign", ["-", "−", "–", "—"])
def test_difference_stands_as_the_from_item(sign):
    item = first_item(f"R(S1) R1 {sign} R(S2) R2")
    assert isinstance(item, Difference)
    assert (item.this.alias, item.expression.alias) == ("R1", "R2")
    assert item.alias_or_name == "R1"


def test_difference_is_read_from_the_left():
    item = first_item("a - b - c")
    assert isinstance(item.this, Difference)
    assert (item.this.this.name, item.this.expression.name, item.expression.name) == ("a", "b", "c")


def test_difference_has_clauses_and_joins():
    tree = query("SELECT * FROM a x SYNC EVERY 2 - (SELECT 1 AS q) y [ROWS 3] JOIN d ON d.q = x.q WHERE x.q - 1 > 0")
    item = tree.args["from_"].this
    assert item.this.args["sync"] == Sync(every=Duration(units=2))
    assert item.expression.args["window"] == WindowSpec("rows", rows=3)
    assert len(tree.args["joins"]) == 1
    assert isinstance(tree.args["where"].find(exp.Sub), exp.Sub)


@pytest.mark.parametrize("text", ["NOW", "now", "Now", "NOW()", "now ( )"])
def test_now(text):
    assert query(f"SELECT {text}").expressions[0] == Now()


def test_now_is_only_the_bare_word():
    assert query('SELECT "now", x.now, 1 AS now FROM x').find(Now) is None


CHAINS = [
    ("NOW - 5 < R.TS <= NOW", "NOW - 5 < R.TS AND R.TS <= NOW"),
    ("NOW - 5 < R.TS ≤ NOW", "NOW - 5 < R.TS AND R.TS <= NOW"),
    ("Now - 5 < R.TS AND R.TS <= Now", "NOW - 5 < R.TS AND R.TS <= NOW"),
    ("1 ≥ a ≠ 2", "1 >= a AND a <> 2"),
    ("a <> b <> c", "a <> b AND b <> c"),
    ("a = b = c = d", "a = b AND b = c AND c = d"),
    ("p AND a < b < c AND q", "p AND a < b AND b < c AND q"),
    ("p OR a < b < c", "p OR a < b AND b < c"),
    ("NOT a < b < c", "NOT (a < b AND b < c)"),
    ("a < b < c IS NULL", "(a < b AND b < c) IS NULL"),
    ("a < b BETWEEN 1 AND 2", "a < b BETWEEN 1 AND 2"),
]


@pytest.mark.parametrize(("text", "meaning"), CHAINS)
def test_a_chain_of_comparisons_is_their_conjunction(text, meaning):
    assert to_sql(condition(text)) == meaning
    assert condition(meaning) == condition(text)


def test_signs_inside_strings_and_comments_stay():
    tree = condition("a = '≤ − ≠' /* ≤ */ AND \"b≤\" ≤ 1 -- ≥")
    assert to_sql(tree) == "a = '≤ − ≠' AND \"b≤\" <= 1"


MODS = [
    ("TimePoint mod 2 = 0", "TimePoint % 2 = 0"),
    ("C.TimePoint MOD 2 = 0", "C.TimePoint % 2 = 0"),
    ("a mod b * c = 0", "a % b * c = 0"),
    ("a + b mod (c) = 0", "a + b % (c) = 0"),
    ("mod(a, 2) = 0", "a % 2 = 0"),
]


@pytest.mark.parametrize(("text", "meaning"), MODS)
def test_infix_mod(text, meaning):
    assert to_sql(condition(text)) == meaning
    assert condition(text).find(exp.Mod) is not None


def test_mod_stays_a_name_where_it_is_no_operator():
    assert to_sql(query("SELECT a mod, x.mod FROM t mod")) == "SELECT a AS mod, x.mod FROM t AS mod"


def test_an_integer_beside_now_stays_an_integer():
    assert condition("TS > NOW - 5").expression == exp.Sub(this=Now(), expression=exp.Literal.number(5))


@pytest.mark.parametrize("text", ["NOW - INTERVAL '5' MINUTES", "NOW - 5 MINUTES", "NOW - INTERVAL 5 MINUTES"])
def test_interval_arithmetic(text):
    assert to_sql(condition(f"TS > {text}")) == "TS > NOW - INTERVAL '5' MINUTES"


OUTPUTS = [
    ("SELECT STREAMED a FROM t", "streamed", "SELECT a FROM t"),
    ("select streamed * from t", "streamed", "SELECT * FROM t"),
    ("SELECT RSTREAM a FROM t", "rstream", "SELECT a FROM t"),
    ("SELECT ISTREAM a FROM t", "istream", "SELECT a FROM t"),
    ("select dstream a from t", "dstream", "SELECT a FROM t"),
    ("SELECT istream, dstream FROM t", None, "SELECT istream, dstream FROM t"),
    ("SELECT STREAMED DISTINCT a FROM t", "streamed", "SELECT DISTINCT a FROM t"),
    ("SELECT STREAMED a FROM t UNION ALL SELECT b FROM u", "streamed", "SELECT a FROM t UNION ALL SELECT b FROM u"),
    ("(SELECT STREAMED a FROM t) EXCEPT SELECT b FROM u", "streamed", "(SELECT a FROM t) EXCEPT SELECT b FROM u"),
    ("WITH c AS (SELECT 1 AS a) SELECT RSTREAM a FROM c", "rstream", "WITH c AS (SELECT 1 AS a) SELECT a FROM c"),
    ("SELECT streamed FROM t", None, "SELECT streamed FROM t"),
    ("SELECT streamed, a FROM t", None, "SELECT streamed, a FROM t"),
    ("SELECT streamed.a FROM streamed", None, "SELECT streamed.a FROM streamed"),
]


@pytest.mark.parametrize(("text", "output", "plain"), OUTPUTS)
def test_the_output_word_leaves_an_ordinary_query(text, output, plain):
    statement = parse_one(text)
    assert statement == Select(query(plain), output)
    assert statement.text == text


def test_options_at_the_end_of_a_query():
    statement = parse_one("WITH c AS (SELECT 1 AS a) SELECT STREAMED a FROM c WITH (unbounded_state = true)")
    assert statement.options == {"unbounded_state": True}
    assert to_sql(statement.query) == "WITH c AS (SELECT 1 AS a) SELECT a FROM c"


def test_parentheses_around_the_whole_query_do_not_count():
    assert query("((SELECT a FROM t))") == query("SELECT a FROM t")


ORDINARY = [
    "SELECT * FROM a CROSS JOIN b NATURAL JOIN c",
    "SELECT * FROM a JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x",
    "SELECT a, COUNT(DISTINCT b) AS n FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 3",
    "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS c, CAST(a AS DOUBLE), a::DATE FROM t",
    "SELECT * FROM a INNER JOIN b USING (x) LEFT JOIN c ON a.x = c.x AND c.y > 1 FULL JOIN d ON a.x = d.x",
    "SELECT a FROM t UNION SELECT a FROM u INTERSECT ALL SELECT a FROM v EXCEPT ALL SELECT a FROM w",
    "SELECT upper(a) || 'x', a BETWEEN 1 AND 2, a IN (1, 2), a LIKE '%x', a IS NOT NULL FROM t WHERE NOT a = 1",
    "SELECT a FROM (SELECT a, b FROM (SELECT * FROM t) AS x) AS y WHERE EXISTS(SELECT 1 FROM u WHERE u.a = y.a)",
    "SELECT time / 5 AS tb, SUM(len) FROM p GROUP BY time / 5",
    "SELECT STDDEV(a), VARIANCE(a), AVG(a), MIN(a), MAX(a) FROM t",
]
EVERYTHING = [
    *[f"SELECT * FROM {text}" for text, *_ in (*SYNCS, *WINDOWS)],
    *[f"SELECT * FROM S SYNC EVERY {text} AS x" for text, _ in DURATIONS],
    *[f"SELECT * FROM S WHERE {text}" for text, _ in (*CHAINS, *MODS)],
    *[text for text, *_ in OUTPUTS],
    *ORDINARY,
    "SELECT * FROM a x SYNC EVERY 2 - (SELECT 1 AS q) y [ROWS 3] JOIN d ON d.q = x.q",
    "SELECT * FROM (a - b) AS x, R(c, S2) - R((SELECT 1 AS z)) w",
    "FROM a - b SELECT x",
]


@pytest.mark.parametrize("text", EVERYTHING)
def test_the_tree_written_and_read_again_is_the_same(text):
    tree = query(text)
    assert query(to_sql(tree)) == tree
    assert query(tree.sql(dialect=Tidemill, pretty=True)) == tree


@pytest.mark.parametrize("text", EVERYTHING)
def test_copies_keep_everything(text):
    tree = query(text)
    for twin in (tree.copy(), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert twin == tree
        assert to_sql(twin) == to_sql(tree)


@pytest.mark.parametrize("text", ORDINARY)
def test_plain_sql_gives_the_tree_of_plain_duckdb(text):
    from sqlglot import parse_one as plain

    assert query(text) == plain(text, dialect="duckdb")


def test_trees_that_differ_only_in_a_clause_differ():
    assert query("SELECT * FROM S SYNC EVERY 2") != query("SELECT * FROM S SYNC EVERY 3")
    assert query("SELECT * FROM S [ROWS 2]") != query("SELECT * FROM S")


def test_positions_count_from_the_beginning_of_the_whole_text():
    text = "SHOW VIEWS;\n  SELECT t.abc,\n    f(x), NOW\n  FROM tab AS t; SELECT z"
    first, second = parse(text)[1:]
    column, function, now = first.query.expressions
    assert position(column) == (2, 10)
    assert position(column.this) == (2, 12)
    assert position(function) == (3, 5)
    assert position(now) == (3, 11)
    assert position(first.query.args["from_"].this) == (4, 8)
    assert position(second.query.expressions[0]) == (4, 25)
    assert position(exp.Literal.number(1)) is None


def test_a_comment_cannot_move_a_position():
    assert position(query("SELECT /* sqlglot.meta line=x */ a FROM t").expressions[0]) == (1, 34)


def test_clauses_know_their_place():
    item = first_item("S x\n  SYNC ON v [ROWS 1]")
    assert item.args["sync"].place == (2, 3)
    assert item.args["window"].place == (2, 13)


def test_the_missing_comma_of_the_paper_is_refused():
    with pytest.raises(SyntaxProblem, match="unexpected") as caught:
        parse("SELECT STREAMED R1.VID R1.VType FROM R(S1) R1")
    assert (caught.value.line, caught.value.column) == (1, 26)
    assert "comma" in caught.value.hint
