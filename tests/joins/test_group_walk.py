"""GROUP BY and RSTREAM by arrays against the same by SQL: equal changes and equal state, for any cut into batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.operators.rstream import Rstream
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.shard_state import ShardState

HUGE = pa.decimal128(38, 0)
KEYS = {"k": "INTEGER", "g": "VARCHAR"}
PARTS = pa.schema(
    [("k", pa.int32()), ("g", pa.string()), ("__n", pa.int64()), ("c", pa.int64()), ("s", HUGE), ("__time", pa.int64())]
)
MORE = pa.schema([("d", pa.float64()), ("lo", pa.string()), ("hi", pa.float64()), ("at", pa.int64())])
ROWS = pa.schema([("k", pa.int32()), ("s", HUGE), ("b", pa.bool_()), ("__time", pa.int64()), ("__diff", pa.int64())])
ANSWERS = [
    ["a0", 'CAST(CASE WHEN "c" > 0 THEN "s" END AS HUGEINT)'],
    ["a1", "CAST(__n AS BIGINT)"],
    ["a2", 'CAST("s" AS DOUBLE) / "c"'],
]

keys = st.tuples(st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["", "a", "aa"]))
sums = st.integers(-3, 3) | st.sampled_from([1 << 63, -(1 << 63), (1 << 64) - 1, -(1 << 70), 1 << 99])
partials = st.lists(st.tuples(keys, st.integers(-2, 2), st.integers(-1, 2), sums, st.integers(0, 9)), max_size=14)
doubles = st.sampled_from([0.0, -0.5, 1.25, 3e9, -(2.0**40)])  # which add up exactly in any order
more = st.tuples(
    doubles,
    st.none() | st.sampled_from(["", "b", "ab", "ä"]),
    st.none() | doubles | st.just(float("nan")) | st.just(float("inf")),
    st.none() | st.sampled_from([0, -1, 1, 1 << 62, -(1 << 62)]),
)
growing = st.lists(st.tuples(keys, st.integers(1, 2), st.integers(-1, 2), sums, more, st.integers(0, 9)), max_size=14)
rows = st.lists(
    st.tuples(
        st.none() | st.integers(-1, 1),
        st.none() | sums,
        st.none() | st.booleans(),
        st.integers(0, 30),
        st.integers(-2, 2).filter(bool),
    ),
    max_size=14,
)
frontiers = st.lists(st.integers(0, 31), max_size=3).map(lambda cuts: [*sorted(cuts), 32])


def grouping() -> p.Group:
    """SUM, COUNT and AVG by a nullable number and a nullable text."""
    schema = (
        *(Column(*k) for k in KEYS.items()),
        Column("a0", "HUGEINT"),
        Column("a1", "BIGINT"),
        Column("a2", "DOUBLE"),
    )
    return p.Group(
        "g",
        (),
        schema,
        tuple(Column(*k) for k in KEYS.items()),
        (p.Part("c", "BIGINT", "sum"), p.Part("s", "HUGEINT", "sum")),
        (),
        "first row",
        tuple(p.Item(name, sql) for name, sql in ANSWERS),
    )


def grouping_with_extremes() -> p.Group:
    """The same, and a sum of doubles, the least text, the greatest double and number, of rows that only come."""
    op, kinds = grouping(), ("DOUBLE", "VARCHAR", "DOUBLE", "BIGINT")
    calls: tuple[Literal["sum", "min", "max"], ...] = ("sum", "min", "max", "max")
    found = list(zip(MORE.names, kinds, calls, strict=True))
    return replace(
        op,
        schema=(*op.schema, *(Column(f"b{name}", kind) for name, kind, _ in found)),
        parts=(*op.parts, *(p.Part(name, kind, call) for name, kind, call in found)),
        answers=(*op.answers, *(p.Item(f"b{name}", f'"{name}"') for name in MORE.names)),
    )


def whole_answers(period: tuple[int, int] | None) -> p.Rstream:
    schema = (Column("TS", "BIGINT"), Column("k", "INTEGER"), Column("s", "HUGEINT"), Column("b", "BOOLEAN"))
    return p.Rstream("r", (), schema, period, "__time")


def run(
    kind: type[Operator[Any]], op: p.Op, batches: list[pa.Table], closing: list[int]
) -> tuple[list[Counter[Any]], ShardState]:
    """What comes out of each batch, added up; the state afterwards."""
    state, found = ShardState.empty("nowhere"), []
    for table, frontier in zip(batches, closing, strict=True):
        out = kind(op).step([Batch(table, frontier)], state).rows
        total: Counter[Any] = Counter()
        for row in out.to_pylist() if out is not None else []:
            diff = row.pop("__diff")
            total[tuple((n, str(v)) for n, v in row.items())] += diff
        found.append(+total + Counter({r: n for r, n in total.items() if n < 0}))
    return found, state


def cut(drawn: list[Any], schema: pa.Schema, at: int, closing: list[int]) -> list[pa.Table]:
    """Each row in the last batch whose frontier does not pass its time: as early rows as possible wait."""
    batches: list[list[Any]] = [[] for _ in closing]
    for x, row in enumerate(drawn):
        may = [b for b in range(len(closing)) if b == 0 or row[at] >= closing[b - 1]]
        batches[may[x % len(may)]].append(row)
    names = schema.names
    return [pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in b], schema) for b in batches]


def stored(state: ShardState, op: p.Op, name: str, layout: Layout) -> list[str]:
    return sorted(map(str, state.arrangement(op.id, name, layout).scan().to_pylist()))


class StatedGroupBy(GroupBy):
    """By SQL alone."""

    def __init__(self, op: p.Group) -> None:
        super().__init__(op)
        assert self.walk is not None
        self.walk = None


class StatedRstream(Rstream):
    """By SQL alone."""

    def __init__(self, op: p.Rstream) -> None:
        super().__init__(op)
        assert self.numbered is not None
        self.numbered = None


def check_walk(op: p.Group, batches: list[Any], closing: list[int]) -> None:
    """The walk in arrays and SQL give the same changes and leave the same state."""
    layout = GroupBy(op).layout
    walked, state = run(GroupBy, op, batches, closing)
    stated, twin = run(StatedGroupBy, op, batches, closing)
    assert walked == stated
    assert stored(state, op, "parts", layout) == stored(twin, op, "parts", layout)


@effort(80, thorough_cases=3_000)
@given(drawn=partials, closing=frontiers)
def test_groups_walked_in_arrays_change_as_sql_says(drawn: list[Any], closing: list[int]) -> None:
    flat = [(k, g, n, c, s, t) for (k, g), n, c, s, t in drawn]
    op, batches = grouping(), cut(flat, PARTS, 5, closing)
    check_walk(op, batches, closing)


@effort(80, thorough_cases=3_000)
@given(drawn=growing, closing=frontiers)
def test_extremes_and_doubles_walked_in_arrays_change_as_sql_says(drawn: list[Any], closing: list[int]) -> None:
    flat = [(k, g, n, c, s, t, *rest) for (k, g), n, c, s, rest, t in drawn]
    schema = pa.schema([*PARTS, *MORE])
    op, batches = grouping_with_extremes(), cut(flat, schema, 5, closing)
    check_walk(op, batches, closing)


@effort(80, thorough_cases=3_000)
@given(drawn=rows, closing=frontiers, period=st.sampled_from([None, (10, 0), (4, 3)]))
def test_whole_answers_by_runs_are_those_of_sql(
    drawn: list[Any], closing: list[int], period: tuple[int, int] | None
) -> None:
    op, batches = whole_answers(period), cut(drawn, ROWS, 3, closing)
    layout = Rstream(op).contents
    by_runs, state = run(Rstream, op, batches, closing)
    by_sql, twin = run(StatedRstream, op, batches, closing)
    assert by_runs == by_sql
    assert stored(state, op, "rows", layout) == stored(twin, op, "rows", layout)


def test_the_walk_serves_keys_and_values_that_kernels_compare() -> None:
    op = grouping()
    assert GroupBy(op).walk is not None and GroupBy(grouping_with_extremes()).walk is not None
    for part in (p.Part("c", "HUGEINT", "max"), p.Part("c", "DECIMAL(20,2)", "min")):
        assert GroupBy(replace(op, parts=(part,))).walk is None
    keyless = replace(op, schema=op.schema[2:], keys=())
    assert GroupBy(keyless).walk is None


def test_sums_at_the_end_of_128_bits_are_left_to_sql() -> None:
    op = grouping()
    table = pa.Table.from_pylist([{"k": 1, "g": "", "__n": 1, "c": 1, "s": 10**37, "__time": 1}], PARTS)
    found, _ = run(GroupBy, op, [table], [2])
    walk = GroupBy(op).walk
    assert walk is not None
    with pytest.raises(OverflowError):
        state = ShardState.empty("nowhere")
        walk.walk(table, [], state.arrangement("g", "parts", GroupBy(op).layout), state)
    assert sum(found[0].values()) == 1
