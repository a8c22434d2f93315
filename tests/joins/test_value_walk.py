"""MIN, MAX and COUNT(DISTINCT) of a GROUP BY by arrays against the same by SQL and against all rows, for any cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.dataflow.value_codes import number_column
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import changed, mixed

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "INTEGER": (pa.int32(), [-3, 0, 1, 7]),
    "VARCHAR": (pa.string(), ["", "a", "B", "é"]),
    "DOUBLE": (pa.float64(), [-0.0, 0.0, 2.5, float("nan"), float("-inf")]),
}
# (key, value numbers, first time, last time, copies): a list that comes and goes again
numbers_drawn = st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=3)
stays = st.lists(
    st.tuples(st.none() | st.integers(0, 1), numbers_drawn, st.integers(0, 20), st.integers(1, 9), st.integers(1, 2)),
    max_size=10,
)
frontiers = st.lists(st.integers(0, 31), max_size=3).map(lambda cuts: [*sorted(cuts), 32])


def grouping(kind: str, sets: bool) -> p.Group:
    """COUNT(*), COUNT(DISTINCT v), MIN(v) and MAX(v) by k; the values that are counted come in lists with `sets`."""
    schema = (
        Column("k", "INTEGER"),
        Column("n", "BIGINT"),
        Column("d", "BIGINT"),
        Column("l", kind),
        Column("h", kind),
    )
    ends = p.KeptValues("v", kind, low=True, high=True)
    once = p.KeptValues("w", f"{kind}[]" if sets else kind, once="v__k", sets=sets)
    return p.Group(
        "g",
        (),
        schema,
        (Column("k", "INTEGER"),),
        (p.Part("v__k", "BIGINT", "sum"),),
        (ends, once),
        "first row",
        (
            p.Item("n", "CAST(__n AS BIGINT)"),
            p.Item("d", 'CAST("v__k" AS BIGINT)'),
            p.Item("l", f"CAST(__least0 AS {kind})"),
            p.Item("h", f"CAST(__most0 AS {kind})"),
        ),
    )


class Stated(GroupBy):
    """By SQL alone."""

    def __init__(self, op: p.Group) -> None:
        super().__init__(op)
        assert self.walk is not None
        self.walk = None


def changes(drawn: list[Any], kind: str, sets: bool) -> list[tuple[int, list[list[Any]]]]:
    """(time, rows of the three inputs) for everything that comes or goes."""
    choice = TYPES[kind][1]
    found = []
    for key, numbers, begin, length, copies in drawn:
        values = [None if x is None else choice[x] for x in numbers]
        known = [v for v in values if v is not None]
        for time, n in ((begin, copies), (begin + length, -copies)):
            lists = [[key, values, n, time]] if sets else [[key, v, n, time] for v in known]
            found.append((time, [[[key, n * len(values), 0, time]], [[key, v, n, time] for v in known], lists]))
    return found


def tables(rows: list[tuple[int, list[list[Any]]]], kind: str, sets: bool, closing: list[int]) -> list[list[pa.Table]]:
    """The inputs of each batch: a change comes in any batch before its time is closed."""
    value = TYPES[kind][0]
    base = [("k", pa.int32()), ("__v", value), ("__n", pa.int64()), ("__time", pa.int64())]
    schemas = [
        pa.schema([("k", pa.int32()), ("__n", pa.int64()), ("v__k", pa.int64()), ("__time", pa.int64())]),
        pa.schema(base),
        pa.schema([base[0], ("__v", pa.list_(value) if sets else value), *base[2:]]),
    ]
    batches: list[list[list[Any]]] = [[[], [], []] for _ in closing]
    for x, (time, parts) in enumerate(rows):
        may = [b for b in range(len(closing)) if b == 0 or time >= closing[b - 1]]
        for into, part in zip(batches[may[x % len(may)]], parts, strict=True):
            into += part
    return [
        [
            pa.Table.from_pylist([dict(zip(s.names, row, strict=True)) for row in part], s)
            for part, s in zip(batch, schemas, strict=True)
        ]
        for batch in batches
    ]


def run(kind: type[GroupBy], op: p.Group, batches: list[list[pa.Table]], closing: list[int]) -> list[Counter[Any]]:
    """What comes out of each batch, added up."""
    state, found = ShardState.empty("nowhere"), []
    for inputs, frontier in zip(batches, closing, strict=True):
        state = ShardState.load(state.dump(), "nowhere")
        out = kind(op).step([Batch(t, frontier) for t in inputs], state).rows
        total: Counter[Any] = Counter()
        for row in out.to_pylist() if out is not None else []:
            diff = row.pop("__diff")
            total[tuple((n, str(v).replace("-0.0", "0.0")) for n, v in row.items())] += diff
        found.append(Counter({r: n for r, n in total.items() if n}))
    return found


def expected(drawn: list[Any], kind: str) -> Counter[Any]:
    """The rows of every moment by what is there then."""
    found: Counter[Any] = Counter()
    choice, shown = TYPES[kind][1], dict[Any, Any]()
    for time in range(32):
        for key in (None, 0, 1):
            live = [
                (numbers, copies)
                for k, numbers, begin, length, copies in drawn
                if k == key and begin <= time < begin + length
            ]
            values = [choice[x] for numbers, _ in live for x in numbers if x is not None]
            order = sorted(values, key=lambda v: (v != v, v))
            ends = (order[0], order[-1]) if values else (None, None)
            different = len({str(v).replace("-0.0", "0.0") for v in values})
            now = (sum(len(numbers) * c for numbers, c in live), different, *ends) if live else None
            texts = now and tuple(str(v).replace("-0.0", "0.0") for v in now)
            if texts != shown.get(key):
                names = ("k", "n", "d", "l", "h", "__time")
                for row, diff in ((texts, 1), (shown.get(key), -1)):
                    if row:
                        found[tuple(zip(names, (str(key), *row, str(time)), strict=True))] += diff
                shown[key] = texts
    return found


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@effort(16)
@given(drawn=stays, closing=frontiers, seed=st.integers(0, 3))
def test_values_walked_in_arrays_change_as_sql_says(
    kind: str, sets: bool, drawn: list[Any], closing: list[int], seed: int
) -> None:
    op = grouping(kind, sets)
    batches = tables(changes(drawn, kind, sets), kind, sets, closing)
    with mixed(seed), changed(inline_bytes=1 << 20):  # segments stay in the blob: there is no directory
        walked = run(GroupBy, op, batches, closing)
        assert walked == run(Stated, op, batches, closing)
    total: Counter[Any] = Counter()
    for part in walked:
        total.update(part)
    assert total == expected(drawn, kind)


@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(0, 2), max_size=3), max_size=8),
    st.booleans(),
    st.integers(0, 3),
)
def test_lists_have_one_number_where_they_are_equal(lists: list[Any], texts: bool, skip: int) -> None:
    made = [one if one is None or not texts else [None if x is None else "ab"[:x] for x in one] for one in lists]
    column = pa.array(made, pa.list_(pa.string() if texts else pa.int32())).slice(skip)
    ids, count = number_column(column)
    keys = [None if one is None else tuple(one) for one in made[skip:]]
    assert count >= len(set(keys))
    for i, a in enumerate(keys):
        assert [a == b for b in keys] == (ids[i] == ids).tolist()
