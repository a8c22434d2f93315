"""What one row costs the operators over a keyed stream on this machine: c of section 9 of paper 004.

Each constant is the slope of an operator's own time over the rows that reach it, from micro-batches of two sizes, so
that what a statement costs before it reads a row does not count. The least time of several rounds counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import Physical
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import Evaluation
from tidemill.runtime.messages.operator_counts import Counts
from tidemill.runtime.state.shard_state import ShardState

# A round takes some 0.2 s, much more than the clock is off; of nine the median is taken.
ROUNDS, ROWS, KEYS, GROUPS = 9, 200_000, 100_000, 200
UNIT = 1_000_000  # the period of the synchronizer


class PipelineCosts(NamedTuple):
    """Seconds for a row that reaches the operator. A synchronizer rounds the time of a record and keeps the last record
    of each key; a grouping adds changes up by group. What it costs to move the answer depends on the groups alone. A
    finer grouping has more keys; a joint one walks changes whose groups are numbered.
    """

    filter: float
    synchronizer: float
    tagger: float
    grouping: float
    finer: float
    joint: float

    def nanoseconds(self) -> dict[str, float]:
        """As the cost model wants them.

        >>> PipelineCosts(1e-8, 2e-8, 8e-7, 6e-8, 9e-8, 2e-8).nanoseconds()
        {'filter': 10.0, 'synchronizer': 20.0, 'tagger': 800.0, 'grouping': 60.0, 'finer': 90.0, 'joint': 20.0}
        """
        return {name: round(s * 1e9, 3) for name, s in self._asdict().items()}


def pipeline_costs(plan: Physical, rounds: int = ROUNDS, rows: int = ROWS) -> PipelineCosts:
    """All constants, of a plan that groups one synchronized keyed stream with the columns k (its key), b and v."""
    few = rows // 5
    low, high = (SteadyPipeline(plan, size) for size in (few, rows))
    best: list[dict[str, tuple[float, int]]] = [{}, {}]
    for turn in range(rounds + 1):
        for found, pipeline in zip(best, (low, high), strict=True):
            for kind, (seconds, reached) in pipeline.run_batch().items():
                if turn:  # the first turn fills the state
                    found[kind] = min(found.get(kind, (seconds, reached)), (seconds, reached))

    def slope(kind: str) -> float:
        (one, less), (other, more) = best[0][kind], best[1][kind]
        return (other - one) / (more - less)

    return PipelineCosts(*(slope(kind) for kind in PipelineCosts._fields))


class SteadyPipeline:
    """A tagger that knows all its keys, and a grouping above it; every batch updates `rows` keys drawn at random."""

    def __init__(self, plan: Physical, rows: int) -> None:
        self.rows, self.random, self.at = rows, np.random.default_rng(1), 0
        self.reader = {op.id: op for op in plan.reader}
        self.stage = {op.id: op for op in plan.stage}
        self.loops = plan.loops
        (self.port,) = (e for e in plan.exchanges if isinstance(self.reader[e.source_op], p.Latest))
        (self.scan,) = (op.id for op in plan.reader if isinstance(op, p.Scan))
        self.state = ShardState.empty("")
        self.looped: dict[str, pa.Table | None] = {}

    def run_batch(self) -> dict[str, tuple[float, int]]:
        """(seconds, rows in) of each kind of operator, for one micro-batch."""
        rows, counts = self._draw(), Counts()
        closed = self.at + 1
        Evaluation({"filter": _FILTER}, {"rows": Batch(rows, closed)}, counts=counts).batch("filter")
        sent = Evaluation(self.reader, {self.scan: Batch(rows, closed)}, counts=counts).batch(self.port.source_op)
        feeds = {e.port: Batch(self.looped.get(e.port), closed) for e in self.loops}
        stage = Evaluation(self.stage, {self.port.port: Batch(sent.rows, closed), **feeds}, self.state, counts=counts)
        stage.readers.update(e.source_op for e in self.loops)
        self.looped = {e.port: stage.batch(e.source_op).rows for e in self.loops}
        stage.run()
        self._group_together(stage, closed, counts)
        return self._by_kind(counts)

    def _group_together(self, stage: Evaluation, closed: int, counts: Counts) -> None:
        """What groupings do that share work: the changes of the tagger by finer keys, and walked with their numbers."""
        (tagger,) = (op.id for op in self.stage.values() if isinstance(op, p.Tagger))
        changes = stage.batch(tagger).rows
        assert changes is not None
        keyed = changes.append_column("__key0", changes.column("b"))
        Evaluation({"finer": _FINER}, {"rows": Batch(changes, closed)}, counts=counts).batch("finer")
        ops: dict[str, p.Op] = {"numbered": _NUMBERED, "joint": _JOINT}
        Evaluation(ops, {"rows": Batch(keyed, closed)}, self.state, counts=counts).batch("joint")

    def _by_kind(self, counts: Mapping[str, tuple[int, int, float, int]]) -> dict[str, tuple[float, int]]:
        ops = {**self.reader, **self.stage, "filter": _FILTER, "finer": _FINER, "joint": _JOINT}
        of = {type(op): counts[name] for name, op in ops.items() if name in counts}
        return {
            "filter": (of[p.Filter][2], of[p.Filter][0]),
            "synchronizer": (of[p.Latest][2], of[p.Latest][0]),
            "tagger": (of[p.Tagger][2], of[p.Tagger][0]),
            "grouping": (of[p.Partial][2], of[p.Partial][0]),
            "finer": (of[p.Finer][2], of[p.Finer][0]),
            "joint": (of[p.JointGroup][2], of[p.JointGroup][0]),
        }

    def _draw(self) -> pa.Table:
        """Records of one period."""
        begin, self.at = self.at, self.at + UNIT
        keys = self.random.integers(0, KEYS, self.rows)
        times = np.sort(self.random.integers(begin + 1, self.at, self.rows))
        columns = {
            "k": pa.array(keys.astype(np.int32)),
            "b": pa.array((keys % GROUPS).astype(np.int32)),
            "v": pa.array(self.random.integers(0, 1_000, self.rows).astype(np.int32)),
            "__ts": pa.array(times),
            "__seq": pa.array(np.arange(self.rows)),
            "__time": pa.array(times),
            "__diff": pa.array(np.ones(self.rows, np.int64)),
        }
        return pa.table(columns)


_FILTER = p.Filter("filter", ("rows",), (), '"v" > 500')
_KEYED = (Column("__key0", "INTEGER"), Column("b", "INTEGER"), Column("v", "INTEGER"))
_ANSWER = (Column("b", "INTEGER"), Column("n", "BIGINT"), Column("s", "HUGEINT"))
_SUMS = (
    p.Item("v__c", "CAST(sum(CASE WHEN v IS NOT NULL THEN __diff ELSE 0 END) AS BIGINT)"),
    p.Item("v__s", "CAST(coalesce(sum(CAST(v AS HUGEINT) * __diff), 0) AS HUGEINT)"),
)
_FINER = p.Finer("finer", ("rows",), (), ("b", "v"), "CAST(sum(__diff) AS BIGINT)", _SUMS)
_NUMBERED = p.NumberedRows("numbered", ("rows",), _KEYED, ("__key0",))
_JOINT = p.JointGroup(
    "joint",
    ("numbered",),
    _ANSWER,
    _ANSWER[:1],
    (p.Part("v__c", "BIGINT", "sum"), p.Part("v__s", "HUGEINT", "sum")),
    (),
    "first row",
    (p.Item("n", "__n"), p.Item("s", "v__s")),
    rows=_KEYED,
    read=("__key0",),
    predicate='"v" > 500',
    sums=_SUMS,
    addends=(p.Addend("v__c", "v", True), p.Addend("v__s", "v", False)),
    plain=(p.PlainAnswer("", ""), p.PlainAnswer("v__s", "v__c")),
)
