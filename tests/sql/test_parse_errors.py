"""Refusals: the code, the place, the words and the hint; and that nothing else ever comes out."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.statements import parse, parse_one
from tidemill.errors import SyntaxProblem, TidemillError
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.lexical import tokens

SOURCE = "REGISTER SOURCE s (a INT, b INT) FROM PORT 5501"

# text, code, line, column, a part of the message, a part of the hint
REFUSALS = [
    ("SELEC a FROM t", "TM105", 1, 1, 'no statement begins with "SELEC"', "did you mean SELECT?"),
    ("SHOW VIEWS;\n  CRAETE VIEW v AS SELECT 1", "TM105", 2, 3, "CRAETE", "did you mean CREATE?"),
    ("INSERT INTO t VALUES (1)", "TM106", 1, 1, "INSERT is not part of the language", "REGISTER, ALTER"),
    ("COPY t TO 'x'", "TM106", 1, 1, "COPY is not", "supported"),
    ("ATTACH 'x'", "TM106", 1, 1, "ATTACH is not", "supported"),
    ("PRAGMA version", "TM106", 1, 1, "PRAGMA is not", "supported"),
    ("CREATE TABLE t (a INT)", "TM106", 1, 8, "CREATE TABLE is not", "REGISTER TABLE"),
    ("CREATE STREAM t OVER s", "TM106", 1, 8, "CREATE STREAM is not", "TAGGED STREAM"),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", "TM106", 1, 8, "MATERIALIZED", "CREATE VIEW"),
    ("CREATE VEIW v AS SELECT 1", "TM101", 1, 8, "VEIW", "did you mean VIEW?"),
    ("CREATE STREAMED VEIW v AS SELECT 1", "TM101", 1, 17, "expected VIEW", "did you mean VIEW?"),
    ("CREATE VIEW v SELECT a FROM t", "TM101", 1, 15, "expected AS", "AS SELECT"),
    ("CREATE VIEW v AS", "TM101", 1, 17, "expected a query", "SELECT"),
    ("CREATE VIEW v AS SELECT STREAMED a FROM t", "TM112", 1, 25, "before VIEW", "CREATE STREAMED VIEW v"),
    ("CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1", "TM112", 1, 24, "contradict", "keep one"),
    ("CREATE TAGGED STREAM t OVER s KYE a", "TM101", 1, 31, "KYE", "did you mean KEY?"),
    ("CREATE TAGGED STREAM t OVER s KEY a, A", "TM108", 1, 38, "twice in the key", "keep one"),
    ("CREATE SINK s FROM v TO FILES", "TM101", 1, 30, "expected a directory", "TO FILES 'dir'"),
    ("CREATE SINK s FROM v TO CONSOL", "TM101", 1, 25, "CONSOL", "did you mean CONSOLE?"),
    ("DROP VIEWS v", "TM101", 1, 6, "VIEWS", "did you mean VIEW?"),
    ("DROP VIEW", "TM101", 1, 10, "expected a name but found the end", "write a name"),
    ("DROP VIEW a CASCAD", "TM101", 1, 13, "CASCAD", "did you mean CASCADE?"),
    ("SHOW VIEWS;\n SHOW VEIWS", "TM101", 2, 7, "VEIWS", "did you mean VIEWS?"),
    ("SHOW VIEWS extra", "TM101", 1, 12, 'unexpected "extra"', ";"),
    ("SELECT R1.VID R1.VType FROM t", "TM101", 1, 17, 'unexpected "."', "comma"),
    ("SELECT a FROM t WEHRE x > 1", "TM101", 1, 23, 'unexpected "x"', "did you mean WHERE"),
    ("SELECT FROM t", "TM101", 1, 8, 'unexpected "FROM"', "SELECT"),
    ("SELECT a,, b FROM t", "TM101", 1, 10, 'unexpected ","', ","),
    ("SELECT a +\nFROM t", "TM101", 2, 1, 'unexpected "FROM"', "+"),
    ("SELECT (a FROM t", "TM101", 1, 11, 'unexpected "FROM"', "a"),
    ("SELECT a FROM", "TM101", 1, 14, "unexpected end", "FROM"),
    ("SELECT a FROM t WHERE", "TM101", 1, 22, "unexpected end", "WHERE"),
    ("SELECT a FROM t GROUP BY ORDER BY a", "TM101", 1, 26, "ORDER BY", "GROUP BY"),
    ("SELECT a FROM t JOIN u ON", "TM101", 1, 26, "unexpected end", "ON"),
    ("SELECT CASE WHEN a THEN b FROM t", "TM101", 1, 27, 'unexpected "FROM"', "b"),
    ("SELECT a FROM t, (SELECT b FROM WHERE)", "TM101", 1, 33, 'unexpected "WHERE"', "FROM"),
    ("SELECT a JOIN b ON a.x = b.x", "TM101", 1, 10, 'unexpected "JOIN"', "a"),
    ("SELECT a FROM b LEFT JOIN c WHERE a", "TM101", 1, 29, 'unexpected "WHERE"', "c"),
    ("SELECT a FROM b JOIN c JOIN d", "TM101", 1, 30, "unexpected end", "d"),
    ("SELECT a FROM b LATERAL VIEW c", "TM101", 1, 17, "LATERAL", "b"),
    ("SELECT a FROM FROM t", "TM101", 1, 15, 'unexpected "FROM"', "FROM"),
    ("SELECT a FROM SELECT b FROM t", "TM101", 1, 15, 'unexpected "SELECT"', "FROM"),
    ("SELECT @", "TM101", 1, 9, "unexpected end", "@"),
    ("WITH c AS (SELECT 1) DELETE FROM c", "TM101", 1, 22, "DELETE", ""),
    ("SELECT 1; SELECT 'abc", "TM102", 1, 18, "string without an end", "'"),
    ('SELECT\n "abc', "TM102", 2, 2, "quoted name without an end", '"'),
    ("SELECT 1 /* abc", "TM102", 1, 10, "comment without an end", "*/"),
    ("SELECT 1;\n/* a /* b */ ", "TM102", 2, 1, "comment without an end", "*/"),
    ("SELECT a FROM s SYNC EVERY 5 SYNC EVERY 6", "TM112", 1, 30, "second SYNC", "keep one"),
    ("SELECT a FROM R(s, v) SYNC EVERY 6", "TM112", 1, 23, "second SYNC", "keep one"),
    ("SELECT a FROM s [ROWS 1] x [ROWS 2]", "TM112", 1, 28, "second window", "keep one"),
    ("SELECT a FROM UNNEST([1]) SYNC EVERY 5", "TM112", 1, 27, "SYNC clause is not possible", "subquery"),
    ("SELECT a FROM s SYNC EVERY", "TM101", 1, 27, "expected a length of time", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 0", "TM111", 1, 28, "greater than zero", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 1.5", "TM111", 1, 28, "whole number", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 2 MONTHS", "TM111", 1, 28, "MONTHS", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 2 MINUTS", "TM101", 1, 30, "MINUTS", "did you mean MINUTE"),
    ("SELECT a FROM s SYNC EVERY '2 fortnights'", "TM111", 1, 28, "fortnights", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 99999999999999999 WEEKS", "TM111", 1, 28, "too long", "MINUTES"),
    ("SELECT a FROM s SYNC EVERY 0 ROWS", "TM111", 1, 28, "number of rows", "100"),
    ("SELECT a FROM b, s [WINDWO 5]", "TM101", 1, 21, "WINDWO", "did you mean WINDOW?"),
    ("SELECT a FROM s [ROWS 5", "TM101", 1, 24, "expected ]", "[ROWS 100]"),
    ("SELECT a FROM R(s, 5)", "TM101", 1, 20, "view of time points", "names"),
    ("SELECT a FROM (SELECT STREAMED b FROM t)", "TM112", 1, 23, "first SELECT", "first SELECT"),
    ("SELECT a FROM t UNION SELECT RSTREAM b FROM t", "TM112", 1, 30, "first SELECT", "first SELECT"),
    ("SELECT a FROM t WITH (unbounded = true)", "TM110", 1, 23, 'unknown option "unbounded"', "unbounded_state"),
    (f"{SOURCE} WITH (latenes = 1)", "TM110", 1, 55, 'unknown option "latenes"', "did you mean lateness?"),
    (f"{SOURCE} WITH (format = 'a', FORMAT = 'b')", "TM110", 1, 69, "given twice", "keep one"),
    (f"{SOURCE} WITH (format 'a')", "TM101", 1, 62, "expected =", "format = value"),
    (f"{SOURCE} WITH (format = )", "TM101", 1, 64, "expected a value", "string"),
    (f"{SOURCE} WITH (batch_rows = 1e999)", "TM111", 1, 68, "too large", "smaller"),
    ("REGISTER SORCE s (a INT) FROM port1", "TM101", 1, 10, "SORCE", "did you mean SOURCE?"),
    ("REGISTER SOURCE s (a INTT) FROM port1", "TM108", 1, 22, 'unknown type "INTT"', "did you mean INT?"),
    ("REGISTER SOURCE s (a DECIMAL(50,2)) FROM port1", "TM108", 1, 22, "unknown type", "DuckDB"),
    ("REGISTER SOURCE s (a INT, A INT) FROM port1", "TM108", 1, 27, "declared twice", "another name"),
    ("REGISTER SOURCE s (a INT,\n ts INT) FROM port1", "TM108", 2, 2, "reserved name", "timestamp = 'TS'"),
    ("REGISTER SOURCE s (Now INT) FROM port1", "TM108", 1, 20, "reserved name", "rename"),
    ("REGISTER SOURCE s (__x INT) FROM port1", "TM108", 1, 20, "reserved name", "rename"),
    ("REGISTER SOURCE s (a) FROM port1", "TM101", 1, 21, "expected a column and its type", "id INTEGER"),
    ("REGISTER SOURCE s FROM port1", "TM101", 1, 19, "expected (", "columns"),
    ("REGISTER SOURCE s (a INT) FROM port99999", "TM111", 1, 32, "a port must be", "5501"),
    ("REGISTER SOURCE s (a INT) FROM FILES 'a\0b'", "TM101", 1, 38, "zero character", "FILES 'dir/*.csv'"),
    ("CREATE SINK k FROM v TO FILES 'a\0b'", "TM101", 1, 31, "zero character", "FILES 'dir'"),
    ("SELECT a,\n 'x\ud83d' FROM s", "TM101", 2, 4, "surrogate", "UTF-8"),
    ("REGISTER SOURCE s (a INT) FROM PORT 0", "TM111", 1, 37, "a port must be", "100"),
    ("REGISTER SOURCE s (a INT) FROM FILE 'x'", "TM101", 1, 32, "FILE", "did you mean FILES?"),
    ("REGISTER SOURCE s (a INT) FROM FILES ''", "TM101", 1, 38, "expected a path", "FILES 'dir/*.csv'"),
    ("REGISTER SOURCE s (abc INT) FROM GENERATE (rat = 1)", "TM110", 1, 44, '"rat"', "did you mean rate?"),
    ("REGISTER SOURCE s (abc INT) FROM GENERATE (abd = 1)", "TM110", 1, 44, '"abd"', "abc"),
    ("REGISTER TABLE s (a INT) FROM PORT 1", "TM106", 1, 31, "read from files", "FILES"),
    ("EXPLAIN INSERT INTO t", "TM101", 1, 9, "expected a query or a view", "names"),
    ("SET x 5", "TM101", 1, 7, "expected =", "SET x = value"),
    (f'DESCRIBE "{"x" * 200}"', "TM107", 1, 10, "at most 128", "shorter"),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "message", "hint"), REFUSALS)
def test_refusals_point_at_the_place(text, code, line, column, message, hint):
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    problem = caught.value
    assert (problem.code, problem.line, problem.column) == (code, line, column)
    assert message in problem.message
    assert problem.hint
    assert hint in problem.hint


@pytest.mark.parametrize("text", [text for text, *_ in REFUSALS])
def test_refusals_are_short_and_tell_nothing_of_the_parser(text):
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    shown = str(caught.value)
    assert "\x1b" not in shown
    assert "sqlglot" not in shown.lower()
    assert len(shown) < 400
    assert not caught.value.message.endswith(".")
    assert caught.value.__cause__ is None


def test_the_place_moves_with_what_stands_before_it():
    before = "SELECT 'a\nb' AS x; -- ;\r\nSHOW VIEWS;\n\t"
    with pytest.raises(SyntaxProblem) as caught:
        parse(before + "SELECT a FROM t WHERE")
    assert (caught.value.line, caught.value.column) == (4, 23)


@pytest.mark.parametrize(("text", "line", "column"), [("", 1, 1), ("SHOW VIEWS;\nSHOW ALL", 2, 1)])
def test_parse_one_wants_exactly_one(text, line, column):
    with pytest.raises(SyntaxProblem) as caught:
        parse_one(text)
    assert (caught.value.code, caught.value.line, caught.value.column) == ("TM105", line, column)


LONG = {
    "text": ("SELECT 1;" * 120_000, "TM103"),
    "statement": ("SELECT '" + "x" * 100_000 + "'", "TM103"),
    "tokens": ("SELECT " + "a," * 12_000 + "a", "TM103"),
    "parentheses": ("SELECT " + "(" * 41 + "1" + ")" * 41, "TM104"),
    "only opening": ("SELECT * FROM " + "(" * 5_000, "TM104"),
    "functions": ("SELECT " + "f(" * 5_000 + "1" + ")" * 5_000, "TM104"),
    "cases": ("SELECT " + "CASE WHEN a THEN " * 60 + "1" + " END" * 60, "TM104"),
    "lists": ("SELECT " + "[" * 60 + "1" + "]" * 60, "TM104"),
    "subscripts": ("SELECT a" + "[1]" * 3_000, "TM104"),
    "not": ("SELECT " + "NOT " * 5_000 + "a", "TM104"),
    "minus": ("SELECT " + "- " * 5_000 + "1", "TM104"),
    "abs": ("SELECT " + "@ " * 5_000 + "1", "TM104"),
    "sum": ("SELECT " + "1+" * 5_000 + "1", "TM104"),
    "sums and differences": ("SELECT " + "1+1-" * 2_500 + "1", "TM104"),
    "and": ("SELECT 1 WHERE " + "a AND " * 5_000 + "b", "TM104"),
    "or": ("SELECT 1 WHERE " + "a OR " * 5_000 + "b", "TM104"),
    "chain": ("SELECT 1 WHERE " + "a<" * 5_000 + "b", "TM104"),
    "chains in chains": ("SELECT " + "1<(" * 39 + "1" + ")<1" * 39, "TM104"),
    "union": ("SELECT 1 UNION ALL " * 3_000 + "SELECT 1", "TM104"),
    "difference": ("SELECT 1 FROM t" + " - t" * 5_000, "TM104"),
    "types in types": ("SELECT " + "DECIMAL(" * 30 + "1" + ")" * 30, "TM104"),
    "casts": ("SELECT a" + "::INT" * 5_000, "TM104"),
}


@pytest.mark.parametrize("name", LONG)
def test_what_is_too_long_or_too_deep_is_refused_quickly(name):
    text, code = LONG[name]
    began = time.monotonic()
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    assert caught.value.code == code
    assert caught.value.line == 1
    assert time.monotonic() - began < 10


DEEP = {
    "parentheses": "SELECT " + "(" * 40 + "1" + ")" * 40,
    "functions": "SELECT " + "f(" * 40 + "1" + ")" * 40,
    "cases": "SELECT " + "CASE WHEN a THEN " * 40 + "1" + " END" * 40,
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 40 + "t" + ") AS x" * 40,
    "exists": "SELECT 1 WHERE " + "EXISTS(SELECT 1 WHERE " * 40 + "a" + ")" * 40,
    "not": "SELECT " + "NOT " * 40 + "a",
    "conditions": "SELECT 1 WHERE " + "a < 1 AND " * 150 + "b",
    "list": "SELECT a IN (" + "1, " * 9_000 + "1)",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_within_the_limits_is_read_and_written(name):
    tree = parse_one(DEEP[name]).query
    assert parse_one(to_sql(tree)).query == tree


def test_the_recursion_limit_is_left_as_it_was():
    before = sys.getrecursionlimit()
    parse(DEEP["parentheses"])
    with pytest.raises(SyntaxProblem):
        parse("SELECT (")
    assert sys.getrecursionlimit() == before


def test_threads_do_not_disturb_each_other():
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                parse(DEEP["functions"])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_where_counts_all_kinds_of_line_breaks():
    assert tokens.where("a\r\nb\rc\nd", 7) == (4, 1)


VALID = [
    "REGISTER SOURCE s (a INT, int b, c DECIMAL(10,2)) FROM PORT 5501 HOST '::' WITH (format = 'csv', lateness = 5 s)",
    "REGISTER TABLE t (a INT) FROM FILES 'x/*.csv'; SHOW VIEWS",
    "REGISTER SOURCE g (a INT) FROM GENERATE (rate = 10, a = 'uniform(1,2)')",
    "CREATE OR REPLACE TAGGED STREAM t OVER s KEY (a, b)",
    "CREATE STREAMED VIEW v WITH (retain = '1 day') AS SELECT R1.a FROM R(S1) R1 − R(S2, Y) R2 WHERE NOW - 5 < a ≤ NOW",
    "SELECT STREAMED a, COUNT(*) FROM S SYNC EVERY 2 MINUTES AS x [RANGE 60 SLIDE 1], T y [ROWS 5] GROUP BY a mod 2",
    "WITH c AS (SELECT 1 AS a) SELECT CASE WHEN a > 1 THEN 'x' END FROM c LEFT JOIN d ON c.a = d.a",
    "SELECT RSTREAM a FROM s JOIN t USING (a) WHERE a IN (1, 2) WITH (unbounded_state = true)",
    "SELECT a FROM (SELECT * FROM t) x SYNC ON v UNION ALL SELECT CAST(b AS DOUBLE) FROM u -- end\n ORDER BY 1 LIMIT 2",
    "EXPLAIN CREATE VIEW v AS SELECT a FROM t; DROP VIEW IF EXISTS v CASCADE; SET x = 1.5; SUBSCRIBE v",
    "CREATE SINK s FROM v TO FILES 'd' WITH (format = json) /* end */",
]
SIGNS = "( ) [ ] { } , ; . ' \" - + * / < > = ≤ ≠ − $ @ : # % \\ ? -- /* */ :: -> := e' $$ {{ {% \x00"
WORDS = (
    "PIVOT VALUES LATERAL UNNEST INTERVAL OVER STRUCT MAP ARRAY DATE LAMBDA IF END QUALIFY TABLESAMPLE AT USING IN NOT"
)
PIECES = sorted({"\n", *SIGNS.split(), *WORDS.split(), *(piece for text in VALID for piece in text.split())})
BEGINNINGS = ["", "SELECT ", "SELECT a FROM ", "CREATE VIEW v AS "]


def only_our_errors(text: str) -> None:
    try:
        parse(text)
    except TidemillError as error:
        assert isinstance(error, SyntaxProblem)
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1
        assert error.column is not None
        assert error.column >= 1
        assert error.hint


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_any_text_gives_statements_or_a_refusal(text):
    only_our_errors(text)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(BEGINNINGS))
def test_any_words_give_statements_or_a_refusal(pieces, begin):
    only_our_errors(begin + " ".join(pieces))


@st.composite
def mutations(draw) -> str:
    """A valid statement with a few stretches cut out, doubled or replaced."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from(["", text[start:end] * 2, *PIECES]) | st.text(max_size=3))
        text = text[:start] + middle + text[end:]
    return text


@settings(max_examples=800, deadline=None)
@given(mutations())
def test_damaged_statements_give_statements_or_a_refusal(text):
    only_our_errors(text)


@pytest.mark.parametrize("text", VALID)
def test_the_undamaged_ones_are_valid(text):
    assert parse(text)
