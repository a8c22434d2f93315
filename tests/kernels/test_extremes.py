"""Least and greatest values by arrays are those by SQL."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.sources import Column
from tidemill.runtime.operators.grouping.value_walk import walk_values, walk_values_in_sql

VALUES = {
    "INTEGER": (pa.int32(), st.integers(-5, 5)),
    "VARCHAR": (pa.string(), st.sampled_from(["", "a", "B", "é", "ab"])),
    "DATE": (pa.date32(), st.integers(0, 4).map(lambda d: dt.date(2026, 1, 1) + dt.timedelta(d))),
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "DOUBLE": (pa.float64(), st.sampled_from([0.5, -1.0, float("nan")])),
}
KEYS = (Column("k", "INTEGER"), Column("s", "VARCHAR"))


def table(kind: str, rows: list[tuple], timed: bool) -> pa.Table:
    columns = {
        "k": pa.array([r[0] for r in rows], pa.int32()),
        "s": pa.array([r[1] for r in rows], pa.string()),
        "__v": pa.array([r[2] for r in rows], VALUES[kind][0]),
        "__n": pa.array([r[3] for r in rows], pa.int64()),
    }
    return pa.table(columns | ({"__time": pa.array([r[4] for r in rows], pa.int64())} if timed else {}))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("keys", [0, 1, 2])
@effort(15)
@given(data=st.data())
def test_arrays_and_sql_agree(kind, keys, data):
    value = VALUES[kind][1]
    row = st.tuples(
        st.sampled_from([None, 1, 2]), st.sampled_from([None, "x"]), value, st.integers(1, 3), st.integers(0, 4)
    )
    came = data.draw(st.lists(row, max_size=12))
    went = [(k, s, v, -n, t + data.draw(st.integers(0, 3))) for k, s, v, n, t in came if data.draw(st.booleans())]
    stored = data.draw(st.lists(row, max_size=6))
    told = KEYS[:keys]
    tables = table(kind, stored, False), table(kind, came + went, True)
    found, expected = (
        sorted(
            walk(told, Column("__v", kind), *tables)
            .select([*(c.name for c in told), "__time", "__least", "__most"])
            .to_pylist(),
            key=str,
        )
        for walk in (walk_values, walk_values_in_sql)
    )
    assert str(found) == str(expected)
