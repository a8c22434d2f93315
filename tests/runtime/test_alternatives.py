"""Two plans of one query: what comes out is the answer, whichever of them gives it and however time is cut."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.operators.alternatives import Alternatives
from tidemill.runtime.state.shard_state import ShardState

SCHEMA = (Column("k", "INTEGER"),)
END = 12
keys = st.one_of(st.none(), st.integers(0, 2))
changes = st.lists(st.tuples(st.integers(0, END - 1), keys, st.sampled_from([1, 1, -1])), max_size=12)


def table(found):
    times, rows, diffs = zip(*found, strict=True) if found else ((), (), ())
    return pa.table(
        {"k": pa.array(rows, pa.int32()), "__time": pa.array(times, pa.int64()), "__diff": pa.array(diffs, pa.int64())}
    )


def net(found):
    total = Counter()
    for time, key, diff in found:
        total[time, key] += diff
    return {change: n for change, n in total.items() if n}


def alike_from(answer, other, agreed):
    """The changes of a plan that is right from `agreed` on, and shows something else before."""
    before = [c for c in other if c[0] < agreed]
    mended = Counter()
    for _, key, diff in [c for c in answer if c[0] <= agreed]:
        mended[key] += diff
    for _, key, diff in before:
        mended[key] -= diff
    return [*before, *((agreed, key, n) for key, n in mended.items() if n), *(c for c in answer if c[0] > agreed)]


class Plan:
    """The input by one plan: rows may come before their time is closed."""

    def __init__(self, found, since):
        self.left, self.frontier = [c for c in found if c[0] >= since], since

    def batch(self, step, early):
        self.frontier = min(self.frontier + step, END)
        ready = [c for c in self.left if c[0] < self.frontier + early]
        self.left = [c for c in self.left if c[0] >= self.frontier + early]
        return Batch(table(ready) if ready else None, self.frontier)


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=4, max_size=14)


@effort(60, thorough_cases=5_000)
@given(answer=changes, others=st.lists(changes, min_size=2, max_size=2), cuts=steps, told=st.integers(0, 4))
def test_the_answer_stays_as_it_is_when_plans_change(answer, others, cuts, told):
    agreed = [4, 8]
    plans = [Plan(answer, BEGINNING), *(Plan(alike_from(answer, o, a), 0) for o, a in zip(others, agreed, strict=True))]
    plans[0].frontier = 0
    state, out, closed, used, known = ShardState.empty(""), [], BEGINNING, 0, None
    for number, (old, new, early) in enumerate([*cuts, *[(END, END, 0)] * 6]):
        if known is not None and closed > known:
            used, known = used + 1, None  # the operator has taken over: the plan before it ends
        both = (used, used + 1) if used < 2 else (used,)
        inputs = [
            plan.batch(step, early) for plan, step in zip(plans[used : used + len(both)], (old, new), strict=False)
        ]
        for other in plans[used + len(both) :]:
            other.frontier = 0
        if used < 2 and number >= told and known is None:
            known = max(agreed[used], closed)
        op = p.Alternatives("alternatives.x", ("a", "b")[: len(both)], SCHEMA, both, known)
        found = Alternatives(op).step(inputs, state)
        rows = found.rows.to_pylist() if found.rows is not None else []
        assert all(closed <= row["__time"] < found.frontier for row in rows) and found.frontier >= closed
        out += [(row["__time"], row["k"], row["__diff"]) for row in rows]
        closed = found.frontier
    assert closed == END and net(out) == net(answer)
    assert set(state.stored["alternatives.x"]) <= {
        f"{used} rows",
        f"{used} agenda",
        f"{used + 1} rows",
        f"{used + 1} agenda",
    }


def test_a_plan_that_is_given_up_leaves_nothing():
    state = ShardState.empty("")
    op = p.Alternatives("alternatives.x", ("a", "b"), SCHEMA, (0, 1), None)
    Alternatives(op).step([Batch(table([(1, 7, 1)]), 2), Batch(table([(1, 9, 1), (5, 9, 1)]), 2)], state)
    alone = p.Alternatives("alternatives.x", ("a",), SCHEMA, (0,), None)
    found = Alternatives(alone).step([Batch(table([(3, 7, -1)]), 9)], state)
    assert found.frontier == 9 and found.rows.to_pylist() == [{"k": 7, "__time": 3, "__diff": -1}]
    assert all(name.startswith("0 ") for name in state.stored["alternatives.x"])
