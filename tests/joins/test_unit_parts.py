"""Parts that are read off their arguments are those that SQL computes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.aggregates import Aggregate, parts
from tidemill.plan.physical import InputPart, JoinInput
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.annotations import PartSpec
from tidemill.runtime.joins.aggregation_sets import AggregationSets
from tidemill.runtime.joins.unit_parts import plain_parts

TYPES = {"TINYINT": pa.int8(), "UINTEGER": pa.uint32(), "BIGINT": pa.int64()}
LIMITS = {"TINYINT": (-128, 127), "UINTEGER": (0, (1 << 32) - 1), "BIGINT": (-(1 << 63), (1 << 63) - 1)}


def specs(function: str, type_name: str) -> list[PartSpec]:
    found = parts(Aggregate(function, "a", type_name, "x", "HUGEINT"), False)
    return [PartSpec(p.name, p.type, p.combine, p.sql) for p in found]


def window(type_name: str, function: str = "sum") -> AggregationSets:
    """A late input with one key and one argument."""
    given = parts(Aggregate(function, "a", type_name, "x", "HUGEINT"), False)
    own = tuple(InputPart(p.name, p.type, p.combine, p.sql) for p in given)
    return AggregationSets(
        "x",
        0,
        JoinInput((Column("k", "INTEGER"),), (Column("a", type_name),), own, early=False, order=(), stored=True),
        ["k"],
        [],
        [("k",)],
    )


@st.composite
def late_rows(draw: Any) -> tuple[str, pa.Table]:
    kind = draw(st.sampled_from(sorted(TYPES)))
    low, high = LIMITS[kind]
    value = st.none() | st.sampled_from([low, high]) | st.integers(max(low, -3), 3)
    rows = draw(st.lists(st.tuples(value, st.integers(-3, 3)), min_size=1, max_size=8))
    return kind, pa.table(
        {
            "k": pa.array([1] * len(rows), pa.int32()),
            "a": pa.array([a for a, _ in rows], TYPES[kind]),
            "__n": pa.array([n for _, n in rows], pa.int64()),
        }
    )


@effort(100)
@given(late_rows(), st.sampled_from(["sum", "count", "avg"]))
def test_parts_read_off_are_those_of_sql(drawn: tuple[str, pa.Table], function: str) -> None:
    kind, rows = drawn
    sets, twin = window(kind, function), window(kind, function)
    assert sets.plain is not None
    twin.plain = None
    found, stated = sets.annotations([], [rows]), twin.annotations([], [rows])
    for part in range(len(sets.parts)):
        assert found.column(part).to_pylist() == stated.column(part).to_pylist()


@pytest.mark.parametrize("kind", ["DOUBLE", "HUGEINT", "DECIMAL(10,2)", "BOOLEAN"])
def test_other_types_are_left_to_sql(kind: str) -> None:
    assert plain_parts([Column("a", kind)], specs("sum", kind)) is None


def test_parts_of_an_expression_are_left_to_sql() -> None:
    doubled = [PartSpec(p.name, p.type, p.how, p.sql.replace('"a"', '("a" * 2)')) for p in specs("sum", "INTEGER")]
    assert plain_parts([Column("a", "INTEGER")], doubled) is None
    assert plain_parts([Column("a", "INTEGER")], specs("variance", "INTEGER")) is None
