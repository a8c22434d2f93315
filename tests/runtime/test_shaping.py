"""Select lists over Arrow arrays give what DuckDB gives: the same names, types and values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime import duck
from tidemill.runtime.shaping import WIDE, Shape

LIST = ('"k" AS "key", "s", __n, CAST("i" AS BIGINT) AS "wide", CAST("n" AS HUGEINT) AS "huge",'
        ' CAST(CASE WHEN "c" > 0 THEN "n" END AS HUGEINT) AS "total", make_timestamp(CAST(__time AS BIGINT)) AS "TS"')
NEXT = ('"TS" AS "TS", make_timestamp(__time) AS "when", "total" AS "sum of it",'
        ' CASE WHEN __n > 0 THEN "huge" END AS "again", "key", "s" AS "s"')


def by_duck(layers, hidden, rows: pa.Table) -> pa.Table:
    sql = "feed"
    for _, text in layers:
        sql = f"(SELECT {text}, {', '.join(hidden)} FROM {sql})"
    return duck.run(f"FROM {sql}", feed=rows)


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
lines = st.tuples(st.one_of(st.none(), st.integers(-9, 9)), st.one_of(st.none(), st.text(max_size=3)),
                  st.integers(1, 9), st.integers(-(1 << 31), (1 << 31) - 1), numbers,
                  st.sampled_from([1, 1, 1, 1, 7, 0]), st.integers(-(1 << 61), 1 << 61))


@effort(150)
@given(rows=st.lists(lines, max_size=12), second=st.booleans())
def test_simple_lists_equal_duckdb(rows, second):
    columns = list(zip(*rows, strict=True)) or [()] * 7
    kinds = [pa.int16(), pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64()]
    names = ["k", "s", "__n", "i", "n", "c", "__time"]
    table = pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})
    layers = (("select", LIST), ("select", NEXT)) if second else (("select", LIST),)
    hidden = ("__time", "c")
    shape = Shape.of(layers, hidden)
    assert shape is not None
    found = shape.table(table)
    if found is None:
        assert any(row[5] == 0 for row in rows)  # a sum of nothing is DuckDB's
    else:
        expected = by_duck(layers, hidden, table)
        assert found.schema.equals(expected.schema) and found.equals(expected)


@pytest.mark.parametrize("text", [
    '"a" + 1 AS "b"', 'upper("a") AS "a"', 'CAST("a" AS DATE) AS "a"', 'CASE WHEN "a" > 1 THEN "b" END AS "b"',
    'CASE WHEN "a" > 0 THEN "b" ELSE "c" END AS "b"', "'text' AS \"a\"", "a", "1 AS \"one\"", '"a" AS "b" "c"',
    'CAST("a" AS BIGINT)', '"a",', "",
])
def test_other_lists_are_left_to_duckdb(text):
    assert Shape.of((("select", text),)) is None


def test_a_condition_and_an_unknown_column_are_left_to_duckdb():
    assert Shape.of((("select", '"a"'), ("where", '"a" > 3'))) is None
    assert Shape.of((("select", '"a"'), ("select", '"b"'))) is None


@pytest.mark.parametrize("column", [
    pa.array([1, None], pa.int64()), pa.array([1, 2], pa.uint64()), pa.array([1.5, 2.0]),
    pa.array([Decimal(1), Decimal(2)], pa.decimal128(9, 2)), pa.array(["a", "b"]).dictionary_encode(),
])
def test_values_that_need_a_closer_look_are_left_to_duckdb(column):
    assert Shape.of((("select", 'CAST("a" AS HUGEINT) AS "a"'),)).table(pa.table({"a": column})) is None


@pytest.mark.parametrize("moment", [(1 << 63) - 1, -(1 << 63)])
def test_times_that_are_no_timestamps_are_left_to_duckdb(moment):
    rows = pa.table({"__time": pa.array([0, moment], pa.int64())})
    assert Shape.of((("select", 'make_timestamp(CAST(__time AS BIGINT)) AS "TS"'),)).table(rows) is None


def test_wide_numbers_keep_their_sign():
    rows = pa.table({"a": np.array([0, -1, (1 << 63) - 1, -(1 << 63)])})
    found = Shape.of((("select", 'CAST("a" AS HUGEINT) AS "a"'),)).table(rows)
    assert found.schema.field("a").type == WIDE
    assert [int(v) for v in found.column("a").to_pylist()] == rows.column("a").to_pylist()


@pytest.mark.parametrize(("kind", "values"), [
    ("TINYINT", [-128, 127]), ("SMALLINT", [-(1 << 15)]), ("INTEGER", [(1 << 31) - 1, -(1 << 31)]), ("INTEGER", []),
])
def test_least_and_greatest_values_get_their_own_width(kind, values):
    layers = (("select", f'"c", CASE WHEN "c" > 0 THEN CAST("a" AS {kind}) END AS "a"'), ("select", '"a" AS "b"'))
    rows = pa.table({"a": pa.array(values, pa.int64()), "c": pa.array([1] * len(values), pa.int64())})
    assert Shape.of(layers).table(rows).equals(by_duck(layers, ("1 AS __x",), rows).select(["b"]))
    beyond = pa.table({"a": pa.array([1 << 40], pa.int64()), "c": pa.array([1], pa.int64())})
    assert Shape.of(layers).table(beyond) is None
