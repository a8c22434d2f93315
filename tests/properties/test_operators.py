"""Small steps equal one big step, for each stateful operator alone with an in-memory state.

changes by time   1 1 2 | 3 3 5 | 5 8        the same changes in one batch
frontiers               3       5      9     frontier 9
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sort_keys import SortKey
from tidemill.plan.sources import Column, Schema
from tidemill.plan.window_calls import WindowCall
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import STATEFUL
from tidemill.runtime.state.shard_state import ShardState

A, B = Column("a", "INTEGER"), Column("b", "INTEGER")
SIDES = {"left": p.JoinSide((A,), ("a",)), "right": p.JoinSide((B,), ("b",))}
CASES: dict[str, tuple[Any, tuple[str, ...], Schema, dict[str, Any]]] = {
    "gate": (p.ViewOutput, ("a",), (A,), {}),
    "stamp": (p.Stamp, ("a",), (A, Column("__ts", "BIGINT")), {}),
    "rows_window": (p.RowsWindow, ("a",), (A,), {"rows": 3, "slide": 2}),
    "row_points": (p.RowPoints, ("a",), (Column("TimePoint", "BIGINT"),), {"rows": 3, "columns": (A,)}),
    "rstream": (p.Rstream, ("a",), (Column("TS", "BIGINT"), A), {"period": None, "stamp": "__time"}),
    "rstream every 3": (p.Rstream, ("a",), (Column("TS", "BIGINT"), A), {"period": (3, 0), "stamp": "__time"}),
    "synchronize_on": (p.SynchronizeOn, ("a", "p"), (A,), {}),
    "join": (p.Join, ("a", "b"), (A, B), SIDES),
    **{
        f"combine {kind}": (p.SetCombine, ("a l", "a r"), (A,), {"operation": kind})
        for kind in ("distinct", "except", "except_all", "intersect", "intersect_all", "anti")
    },
    **{
        f"ranked {function}{' from 2 to 3' if after else ' bounded' if bounded else ''}": (
            p.Ranked,
            ("a",),
            (A, Column("n", "BIGINT")),
            {
                "columns": (A,),
                "partition": (),
                "order": (SortKey("a", descending=True),),
                "function": function,
                "after": after,
                "last": 3,
                "name": "n",
                "bounded": bounded,
            },
        )
        for function, after, bounded in (("row_number", 1, False), ("rank", 0, False), ("dense_rank", 0, True))
    },
    "window_functions": (
        p.WindowFunctions,
        ("a",),
        (A, Column("n", "BIGINT"), Column("l", "INTEGER")),
        {
            "columns": (A,),
            "partition": (),
            "order": (SortKey("a"),),
            "calls": (
                WindowCall("n", "BIGINT", "count", backward=True),
                WindowCall("l", "INTEGER", "lag", ('"a"',), backward=True),
            ),
        },
    ),
    "recursive": (
        p.Recursive,
        ("a", "b"),
        (A,),
        {
            "sides": (p.RecursiveInput((A,)), p.RecursiveInput((B,))),
            "step": "SELECT a + 1 AS a FROM __previous JOIN __input1 ON a = b",
            "distinct": True,
        },
    ),
    "tagger": (p.Tagger, ("record",), (A, B), {"keys": ("a",)}),
}
GROWING = {"rows_window", "tagger", "ranked dense_rank bounded"}


@st.composite
def changes(draw, kind):
    """(value, time, diff) such that no row is taken away before it came, by time."""
    found, held = [], Counter()
    for time in sorted(draw(st.lists(st.integers(0, 12), max_size=25))):
        value = draw(st.integers(0, 3))
        gone = held[value] > 0 and kind not in GROWING and draw(st.booleans())
        held[value] += -1 if gone else 1
        found.append((value, time, -1 if gone else 1))
    return found


def table(port, rows):
    """Changes as the port's Arrow table."""
    if port == "record":
        # A record: key, value, event time, arrival order, whether it deletes its key.
        names = {"a": [v % 2 for v, *_ in rows], "b": [v for v, *_ in rows]}
        columns = {n: pa.array(c, pa.int32()) for n, c in names.items()}
        hidden = {"__at": [t for _, t, *_ in rows], "__seq": [s for *_, s in rows]}
        hidden["__gone"] = [v == 3 for v, *_ in rows]
        types = {"__at": pa.int64(), "__seq": pa.int64(), "__gone": pa.bool_()}
        columns |= {n: pa.array(c, types[n]) for n, c in hidden.items()}
    else:
        name = port.split()[0]
        values = [t for _, t, *_ in rows] if name == "p" else [v for v, *_ in rows]
        columns = {name: pa.array(values, pa.int64() if name == "p" else pa.int32())}
    times, diffs = (pa.array([r[i] for r in rows], pa.int64()) for i in (1, 2))
    if port.endswith((" l", " r")):
        nothing = pa.array([0] * len(rows), pa.int64())
        return pa.table(
            {
                **columns,
                "__time": times,
                "__l": diffs if port[-1] == "l" else nothing,
                "__r": diffs if port[-1] == "r" else nothing,
            }
        )
    return pa.table({**columns, "__time": times, "__diff": diffs})


def walk(name, feeds, frontiers):
    """Net output of the operator when it sees the feeds cut at the frontiers."""
    kind = name.split()[0]
    spec, ports, schema, own = CASES[name]
    op = spec("x", ports, schema, **own)
    state, out = ShardState.empty("nowhere"), Counter()
    before = BEGINNING
    for frontier, cut in frontiers:
        inputs = []
        for port, rows in zip(ports, feeds, strict=True):
            piece = [r for r in rows if cut(r) == frontier]
            assert all(r[1] >= before for r in piece)
            inputs.append(Batch(table(port, piece) if piece else None, frontier))
        result = STATEFUL[spec](op).step(inputs, state)
        state = ShardState.load(state.dump(), "nowhere")
        for row in result.rows.to_pylist() if result.rows is not None else []:
            diff = row.pop("__diff")
            assert row["__time"] >= before or kind == "synchronize_on"
            out[tuple(row[c] for c in sorted(row))] += diff
        before = frontier
    return {k: n for k, n in out.items() if n}


@pytest.mark.parametrize("name", sorted(CASES))
@effort(25)
@given(data=st.data())
def test_small_steps_equal_one_big_step(name, data):
    feeds = [
        [(*change, seq) for seq, change in enumerate(data.draw(changes(name if name in GROWING else name.split()[0])))]
        for _ in CASES[name][1]
    ]
    cuts = sorted(data.draw(st.sets(st.integers(1, 12), max_size=4)) | {13})
    ahead = data.draw(st.integers(0, 3))  # rows may come before their time is closed

    def arrives(row):
        closed = next(f for f in cuts if row[1] < f)
        return cuts[max(0, cuts.index(closed) - (row[0] + ahead) % 2)]

    # A time is never earlier than the frontier before it, however far ahead its row comes.
    small = walk(name, feeds, [(f, arrives) for f in cuts])
    big = walk(name, feeds, [(13, lambda row: 13)])
    assert small == big
