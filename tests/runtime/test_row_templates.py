"""Select lists over Arrow arrays give what DuckDB gives: the same names, types and values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.row_programs import compile_row_program
from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Literal, Operation, Scalar, Timestamp, WhereCounted, quoted
from tidemill.plan.scalars import template as sql
from tidemill.runtime.duckdb import duck
from tidemill.runtime.share.stage.row_templates import WIDE, RowTemplate

Layer = dict[str, Scalar]
A, C, N, TIME = ColumnRef("a"), ColumnRef("c"), ColumnRef("n"), Hidden("__time")
LIST: Layer = {
    "key": ColumnRef("k"),
    "s": ColumnRef("s"),
    "__n": Hidden("__n"),
    "wide": Cast(ColumnRef("i"), "BIGINT"),
    "huge": Cast(N, "HUGEINT"),
    "total": Cast(WhereCounted(C, N), "HUGEINT"),
    "TS": Timestamp(Cast(TIME, "BIGINT")),
}
NEXT: Layer = {
    "TS": ColumnRef("TS"),
    "when": Timestamp(TIME),
    "sum of it": ColumnRef("total"),
    "again": WhereCounted(Hidden("__n"), ColumnRef("huge")),
    "key": ColumnRef("key"),
    "s": ColumnRef("s"),
}
WIDER: Layer = {"a": Cast(A, "HUGEINT")}


def template(*layers: Layer, hidden: tuple[str, ...] = ()) -> RowTemplate | None:
    return RowTemplate.of(tuple(compile_row_program(layer.items()) for layer in layers), hidden)


def by_duck(layers: tuple[Layer, ...], hidden: tuple[str, ...], rows: pa.Table) -> pa.Table:
    text = "feed"
    for layer in layers:
        items = [f"{value.sql} AS {quoted(name)}" for name, value in layer.items()]
        text = f"(SELECT {', '.join([*items, *hidden])} FROM {text})"
    return duck.run(f"FROM {text}", feed=rows)


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
lines = st.tuples(
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.text(max_size=3)),
    st.integers(1, 9),
    st.integers(-(1 << 31), (1 << 31) - 1),
    numbers,
    st.sampled_from([1, 1, 1, 1, 7, 0]),
    st.integers(-(1 << 61), 1 << 61),
)


@effort(150)
@given(rows=st.lists(lines, max_size=12), second=st.booleans())
def test_simple_lists_equal_duckdb(rows, second):
    columns = list(zip(*rows, strict=True)) or [()] * 7
    kinds = [pa.int16(), pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.int64()]
    names = ["k", "s", "__n", "i", "n", "c", "__time"]
    table = pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})
    layers = (LIST, NEXT) if second else (LIST,)
    hidden = ("__time", "c")
    made = template(*layers, hidden=hidden)
    assert made is not None
    found = made.table(table)
    if found is None:
        assert any(row[5] == 0 for row in rows)  # a sum of nothing is DuckDB's
    else:
        expected = by_duck(layers, hidden, table)
        assert found.schema.equals(expected.schema) and found.equals(expected)


@pytest.mark.parametrize(
    "value",
    [
        Operation("+", A, Literal("1")),
        sql("upper({0})", A),
        Cast(A, "DATE"),
        sql("CASE WHEN {0} > 1 THEN {1} END", A, C),
        WhereCounted(Cast(C, "BIGINT"), A),
        Cast(sql("upper({0})", A), "BIGINT"),
        Literal("1"),
    ],
)
def test_other_lists_are_left_to_duckdb(value: Scalar) -> None:
    assert compile_row_program([("a", A), ("b", value)]) is None


def test_a_condition_and_an_unknown_column_are_left_to_duckdb() -> None:
    assert RowTemplate.of((compile_row_program([("a", A)]), None)) is None
    assert template({"a": A}, {"b": ColumnRef("b")}) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.int64()),
        pa.array([1, 2], pa.uint64()),
        pa.array([1.5, 2.0]),
        pa.array([Decimal(1), Decimal(2)], pa.decimal128(9, 2)),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
)
def test_values_that_need_a_closer_look_are_left_to_duckdb(column):
    assert template(WIDER).table(pa.table({"a": column})) is None


@pytest.mark.parametrize("moment", [(1 << 63) - 1, -(1 << 63)])
def test_times_that_are_no_timestamps_are_left_to_duckdb(moment):
    rows = pa.table({"__time": pa.array([0, moment], pa.int64())})
    assert template({"TS": Timestamp(Cast(TIME, "BIGINT"))}).table(rows) is None


def test_wide_numbers_keep_their_sign():
    rows = pa.table({"a": np.array([0, -1, (1 << 63) - 1, -(1 << 63)])})
    found = template(WIDER).table(rows)
    assert found.schema.field("a").type == WIDE
    assert [int(v) for v in found.column("a").to_pylist()] == rows.column("a").to_pylist()


@pytest.mark.parametrize(
    ("kind", "values"),
    [("TINYINT", [-128, 127]), ("SMALLINT", [-(1 << 15)]), ("INTEGER", [(1 << 31) - 1, -(1 << 31)]), ("INTEGER", [])],
)
def test_least_and_greatest_values_get_their_own_width(kind, values):
    layers: tuple[Layer, ...] = {"c": C, "a": WhereCounted(C, Cast(A, kind))}, {"b": A}
    rows = pa.table({"a": pa.array(values, pa.int64()), "c": pa.array([1] * len(values), pa.int64())})
    assert template(*layers).table(rows).equals(by_duck(layers, ("1 AS __x",), rows).select(["b"]))
    beyond = pa.table({"a": pa.array([1 << 40], pa.int64()), "c": pa.array([1], pa.int64())})
    assert template(*layers).table(beyond) is None
