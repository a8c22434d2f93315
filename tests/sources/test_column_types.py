"""Declared types in Arrow, and event times in microseconds."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import convert
from tidemill.runtime.sources.connector import arrow_schema, event_time_us


def micros(values, declared, unit=1_000_000):
    kind = arrow_schema([Column("t", declared)]).field(0).type
    return event_time_us(pa.chunked_array([pa.array(values, kind)]), declared, unit).to_pylist()


def test_types_have_the_promised_arrow_twins():
    names = {
        "HUGEINT": pa.decimal128(38, 0),
        "decimal(10, 2)": pa.decimal128(10, 2),
        "TIME": pa.time64("us"),
        "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
        "UBIGINT": pa.uint64(),
        "text": pa.string(),
    }
    schema = arrow_schema([Column(f"c{i}", name) for i, name in enumerate(names)])
    assert schema.types == list(names.values())


def test_an_unknown_type_is_refused():
    with pytest.raises(SourceProblem, match="TM404"):
        arrow_schema([Column("x", "INTEGER); DROP TABLE t")])


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        ([3, None], "BIGINT", [3_000_000, None]),
        ([3], "UBIGINT", [3_000_000]),
        ([2**63], "UBIGINT", [None]),
        ([2**62], "BIGINT", [None]),
        ([1.25, float("nan"), None], "DOUBLE", [1_250_000, None, None]),
        ([Decimal("1.0000015")], "DECIMAL(18,7)", [1_000_002]),
        ([Decimal(7)], "HUGEINT", [7_000_000]),
        ([datetime.date(1970, 1, 2)], "DATE", [86_400_000_000]),
        ([datetime.datetime(1970, 1, 1, 0, 0, 1)], "TIMESTAMP", [1_000_000]),
        ([datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)], "TIMESTAMPTZ", [1_000_000]),
    ],
)
def test_event_times_are_microseconds(values, declared, expected):
    assert micros(values, declared) == expected


def test_integer_times_count_clock_units():
    assert micros([5], "INTEGER", unit=1000) == [5000]


def test_text_cannot_be_an_event_time():
    with pytest.raises(SourceProblem, match="TM404"):
        micros(["x"], "VARCHAR")


def test_conversion_names_the_column_the_value_and_the_type():
    rows, reasons = convert([pa.chunked_array([["1", "abc", None]])], [Column("x", "INTEGER")])
    assert rows.column("x").to_pylist() == [1, None, None]
    assert reasons == {1: 'column "x": cannot read "abc" as INTEGER'}
