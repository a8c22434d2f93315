"""Copies and walks of trees do what sqlglot's own do; scalars render the text that sqlglot writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot import parse_one as parse_expression
from sqlglot.errors import ParseError

from tests.properties.effort import effort
from tests.statements import parse_one
from tidemill.plan import scalars as s
from tidemill.plan.relations import quoted
from tidemill.sql.bind.functions import ALLOWED
from tidemill.sql.bind.trees import scalar_of
from tidemill.sql.dialect.nodes import all_nodes, copy_tree
from tidemill.sql.parse.statements import position

QUERIES = (
    "SELECT a, count(*) AS n FROM S [RANGE 10 SLIDE 5] WHERE a > 5 AND b IN (1, 2) GROUP BY a HAVING count(*) > 1",
    "SELECT x.a, sum(b) FILTER (WHERE c) FROM S SYNC EVERY 2 MINUTES AS x JOIN T ON x.a = T.a GROUP BY 1",
    "WITH w AS (SELECT * FROM R(S)) SELECT CASE WHEN a < b < c THEN 'x' ELSE f(a, b) END FROM w",
    "SELECT a FROM S WHERE NOW - 5 MINUTES < TS UNION ALL SELECT b FROM R(S) - R(T)",
)


@pytest.mark.parametrize("text", QUERIES)
def test_a_copy_is_the_same_tree_and_another_one(text: str) -> None:
    tree = parse_one(text).query
    fresh, plain = copy_tree(tree), tree.copy()
    assert fresh == tree
    assert repr(fresh) == repr(plain)
    assert not {id(n) for n in fresh.walk()} & {id(n) for n in tree.walk()}
    for mine, theirs in zip(fresh.walk(), plain.walk(), strict=True):
        assert (mine.arg_key, mine.index, mine.meta) == (theirs.arg_key, theirs.index, theirs.meta)
        assert position(mine) == position(theirs)
        assert mine is fresh or any(mine is child for child in mine.parent.iter_expressions())
    places = [n for n in fresh.walk() if n.meta]
    places[0].meta["line"] = 99
    assert all(n.meta.get("line") != 99 for n in tree.walk())


@pytest.mark.parametrize("text", QUERIES)
def test_everything_within_a_tree_comes_in_the_order_of_a_walk(text: str) -> None:
    tree = parse_one(text).query
    assert [id(n) for n in all_nodes(tree)] == [id(n) for n in tree.walk()]


@effort(200)
@given(st.text(min_size=1))
def test_a_quoted_name_is_what_sqlglot_writes(name: str) -> None:
    assert exp.Column(this=exp.Identifier(this=name, quoted=True)).sql(dialect="duckdb") == quoted(name)


NODES = {
    '"a" BETWEEN 1 AND "b"': s.Between,
    'NOT "a" BETWEEN 1 AND 3': s.Not,
    '"a" IS NULL': s.IsNull,
    '"a" IS TRUE': s.Template,
    '"a" - 5': s.Operation,
    '("a" + 1) // 5': s.Operation,
    '"a" + 1 + 2': s.Template,
    '"a" // 1.5': s.Template,
    'MAKE_TIMESTAMP("__ts")': s.Timestamp,
    'ABS("__ts" // 5)': s.Template,
}


@pytest.mark.parametrize("text", NODES)
def test_what_rules_look_into_is_a_node_with_the_text_of_sqlglot(text: str) -> None:
    tree = parse_expression(text, dialect="duckdb")
    scalar = scalar_of(tree.copy())
    assert (type(scalar), scalar.sql) == (NODES[text], tree.sql("duckdb")) and scalar.sql == text


def test_a_stamp_within_a_function_is_a_part_of_it() -> None:
    scalar = scalar_of(parse_expression('strftime(make_timestamp("__ts"), \'%Y\') = "a"', dialect="duckdb"))
    assert s.Timestamp(s.ColumnRef("__ts"), "MAKE_TIMESTAMP") in scalar.parts[0].parts


def test_a_long_sum_is_no_deep_tree() -> None:
    scalar = scalar_of(parse_expression(" + ".join(['"a"'] * 3000), dialect="duckdb"))
    assert scalar.sql.count("+") == 2999 and scalar.substitute({"a": s.ColumnRef("b")}).columns == {"b"}


@pytest.mark.parametrize("function", sorted(ALLOWED))
def test_a_scalar_has_its_columns_where_sqlglot_writes_them(function: str) -> None:
    """Of lpad and strftime, for example, sqlglot generates the last argument first."""
    for count in range(1, 5):
        call = f"{function}({', '.join(map(quoted, 'abcd'[:count]))})"
        try:
            tree = parse_expression(call, dialect="duckdb")
        except ParseError:
            continue
        assert scalar_of(tree.copy()).sql == tree.sql("duckdb")
