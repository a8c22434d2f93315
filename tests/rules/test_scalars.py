"""Scalars are trees; a twin works on their text alone, as plans are fingerprinted by it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one
from sqlglot.dialects.duckdb import DuckDB

from tests.properties.effort import effort
from tidemill.plan.scalars import (
    Between,
    Cast,
    Ceiling,
    Chain,
    ColumnRef,
    Epoch,
    Extreme,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Operation,
    Paren,
    Scalar,
    Shift,
    Timestamp,
    When,
    WhereCounted,
    flatten,
    shift_of,
    template,
)
from tidemill.sql.bind.trees import scalar_of

TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^'"]+""")
names = st.text("ab\"' ", min_size=1, max_size=3)
numbers = st.integers(0, 99)


def compound(inner: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
    some = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Paren, inner),
        st.builds(Not, inner),
        st.builds(Negative, inner),
        st.builds(Operation, st.sampled_from(["=", "<", "*", "%"]), inner, inner),
        st.builds(Chain, st.sampled_from(["AND", "OR"]), some),
        st.builds(In, inner, some),
        st.builds(Between, inner, inner, inner),
        st.builds(IsNull, inner),
        st.builds(When, inner, inner),
        st.builds(Cast, inner, st.just("BIGINT")),
        st.builds(WhereCounted, inner, inner),
        st.builds(Shift, inner, st.sampled_from("+-"), numbers),
        st.builds(Extreme, st.sampled_from(["least", "greatest"]), some),
        st.builds(Ceiling, inner, numbers, numbers),
        st.builds(Epoch, inner, numbers, st.just("INTEGER")),
        st.builds(Timestamp, inner),
        st.builds(lambda a, b: template("coalesce({0}, {1}, {0}, '\"')", a, b), inner, inner),
    )


leaves = st.builds(ColumnRef, names) | st.builds(Literal, numbers.map(str))
scalars = st.recursive(leaves, compound, max_leaves=8)


def named(token: str) -> str | None:
    return token[1:-1].replace('""', '"') if token.startswith('"') else None


def swapped(token: str, columns: dict[str, Scalar]) -> str:
    name = named(token)
    if name is None or name not in columns:
        return token
    new = columns[name]
    return new.sql if isinstance(new, ColumnRef) else f"({new.sql})"


@effort(300)
@given(scalar=scalars, columns=st.dictionaries(names, scalars, max_size=3))
def test_columns_and_substitution_are_those_of_the_text(scalar: Scalar, columns: dict[str, Scalar]) -> None:
    tokens = TOKEN.findall(scalar.sql)
    assert scalar.columns == {named(t) for t in tokens} - {None}
    assert scalar.substitute(columns).sql == "".join(swapped(t, columns) for t in tokens)


@effort(100)
@given(scalar=scalars, name=names)
def test_a_whole_column_is_replaced_as_it_is(scalar: Scalar, name: str) -> None:
    assert ColumnRef(name).over({name: scalar}) is scalar


@pytest.mark.parametrize(
    "text",
    [
        '"a" > 3 AND ("b" = 1 OR NOT "a" IN (5, -6)) AND "c" <> \'x\'',
        '"a" = 1 OR "b" = 2 OR "a" BETWEEN 1 AND 2 OR "b" IS NULL',
        '- -"a" * ("b" % 7) + 2.5 // "c" - 1e3',
        'CAST("a" AS DECIMAL(10, 2)) = CAST("b" AS TEXT) AND TRY_CAST("c" AS INT) > 0',
        'CASE WHEN "a" THEN \'"b"\' ELSE upper("c""d") END LIKE \'%x%\'',
        'date_trunc(\'day\', "a") + INTERVAL 1 DAY < make_timestamp("b")',
        '"a" IS DISTINCT FROM "b" AND NOT ("a" IN (1, 2)) AND "c" IN (\'x\')',
        '[1, "a"][1] = 1 AND {\'x\': "b"}.x = 2 AND list_contains(["c"], 3)',
    ],
)
def test_a_tree_is_written_as_sqlglot_writes_it(text: str) -> None:
    tree = parse_one(text, dialect="duckdb")
    assert scalar_of(tree).sql == DuckDB().generate(tree)


@effort(100)
@given(name=names, shifts=st.lists(st.tuples(st.sampled_from("+-"), numbers), max_size=4))
def test_shifts_add_up(name: str, shifts: list[tuple[str, int]]) -> None:
    time: Scalar = ColumnRef(name)
    for sign, us in shifts:
        time = Paren(Shift(time, sign, us))  # type: ignore[arg-type]
    assert shift_of(time) == (name, sum(us if sign == "+" else -us for sign, us in shifts))


def test_what_is_no_shift_is_not_read_as_one() -> None:
    a, b = ColumnRef("a"), ColumnRef("b")
    for time in (Operation("*", a, Literal("2")), Extreme("least", (a, b)), Shift(Cast(a, "BIGINT"), "+", 1)):
        assert shift_of(time) is None


@effort(200)
@given(scalar=scalars)
def test_a_flat_scalar_has_the_same_text_around_its_columns(scalar: Scalar) -> None:
    flat = flatten(scalar)
    assert flat == scalar and flat.columns == scalar.columns
    assert all(isinstance(hole, ColumnRef) for hole in flat.holes)
