"""The answer of a query by one plan, and from some time on by another one.

Let P(t) be the relation that the plan in force gives at time t, and Q(t) that of the plan to come. Both are the answer
of the query at all times that are not before `agreed`. With s the greater of `agreed` and how far this operator was
closed when it heard of it, the output is

    P(t) for t < s        Q(t) for t >= s

so at s everything of P leaves and everything of Q comes; what is in both cancels, and that is all of it. The frontier
is that of P up to s, and that of Q behind it. What is present is kept, by plan, because the next change needs it.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, key_hashes, net, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState


class Alternatives(Operator[p.Alternatives]):
    """Inputs: the changes of the plan in force, and of the one to come where there is one."""

    def __init__(self, op: p.Alternatives, first: bool = True) -> None:
        super().__init__(op, first)
        self.names = [c.name for c in self.schema]

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        value = state.value(self.id)
        used = value.setdefault("used", self.op.plans[0])
        assert used in self.op.plans, "the plan in force ends when the next one has taken over"
        batches = dict(zip(self.op.plans, inputs, strict=True))
        self._forget_others(state)
        coming = [number for number in self.op.plans if number > used]
        if coming:
            out = self._step_both(used, coming[0], batches, state)
        else:
            out = Batch(self._take(used, batches[used].rows, batches[used].frontier, state), batches[used].frontier)
        state.value(self.id)["closed"] = out.frontier
        return out

    def _step_both(self, used: int, coming: int, batches: dict[int, Batch], state: ShardState) -> Batch:
        old, new, value = batches[used], batches[coming], state.value(self.id)
        if self.op.agreed is not None and "at" not in value:
            value["at"] = max(self.op.agreed, value.get("closed", BEGINNING))
        at = value.get("at")
        if at is None:
            self._take(coming, new.rows, min(old.frontier, new.frontier), state)
            return Batch(self._take(used, old.rows, old.frontier, state), old.frontier)
        rows = self._take(used, old.rows, min(old.frontier, at), state)
        self._take(coming, new.rows, min(new.frontier, at + 1), state)
        if old.frontier < at or new.frontier <= at:
            return Batch(rows, min(old.frontier, at))
        parts = [rows, self._difference(used, coming, at, state), self._take(coming, None, new.frontier, state)]
        value["used"] = coming
        del value["at"]
        self._forget(used, state)
        return Batch(_concatenate([part for part in parts if part is not None]), new.frontier)

    def _take(self, number: int, rows: pa.Table | None, frontier: int, state: ShardState) -> pa.Table | None:
        """The closed changes of a plan, which are added to what it holds; the others wait."""
        pending = self.arrangement(state, f"{number} {PENDING}", pending_layout(self.schema))
        closed = take_closed(pending, rows, frontier)
        if not closed.num_rows:
            return None
        closed = closed.select([*self.names, "__time", "__diff"])
        hashes = pa.array(key_hashes(closed, self.schema, self.names))
        counted = closed.drop_columns(["__time"]).rename_columns([*self.names, "__n"])
        held = self._contents(number, state)
        held.append(counted.add_column(0, "__h", hashes))
        held.compact()
        return closed

    def _difference(self, used: int, coming: int, at: int, state: ShardState) -> pa.Table:
        """What leaves and what comes where the plans change."""
        found = []
        for number, sign in ((used, -1), (coming, 1)):
            rows = self._contents(number, state).scan()
            counts = pa.array(sign * rows.column("__n").to_numpy(), pa.int64())
            columns = [rows.column(n) for n in self.names]
            found.append(pa.table([*columns, pa.array([at] * rows.num_rows, pa.int64()), counts], self._change_names))
        return net(pa.concat_tables(found), self.schema).select(self._change_names)

    @property
    def _change_names(self) -> list[str]:
        return [*self.names, "__time", "__diff"]

    def _contents(self, number: int, state: ShardState) -> Arrangement:
        return self.arrangement(state, f"{number} rows", contents_layout(self.schema))

    def _forget_others(self, state: ShardState) -> None:
        """A plan that was given up leaves nothing."""
        kept = {str(number) for number in self.op.plans}
        for name in list(state.stored.get(self.id, {})):
            if name.partition(" ")[0] not in kept:
                self._forget(int(name.partition(" ")[0]), state)

    def _forget(self, number: int, state: ShardState) -> None:
        parts = state.stored.get(self.id, {})
        for name in [n for n in parts if n.partition(" ")[0] == str(number)]:
            for segment in parts.pop(name):
                state.store.discard(segment)


def _concatenate(tables: list[pa.Table]) -> pa.Table | None:
    """Changes of several origins in one table."""
    found = [t for t in tables if t.num_rows]
    if not found:
        return None
    return pa.concat_tables([found[0], *(t.cast(found[0].schema) for t in found[1:])])
