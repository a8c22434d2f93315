"""Rows that the cost model predicts for the operators over a keyed stream, from what was counted of the stream.

The inputs of the model are the rows that reached an operator, the keys and the groups that there are:

    latest     at each point one record for each key that was updated (random updates)
    tagger     what `latest` passes on; how many records change a row depends on the data alone
    partial    the groups that the rows of a time fall into; rows come evenly
    group      what `partial` passes on; at each time the old and the new row of a group, one for a new group

A tagger with a predicate merged in is left out: how many keys fail the predicate is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tidemill.optimize.views.cost import Updates, groups_touched, synchronizer_output, union_gaps
from tidemill.plan import physical as p
from tidemill.plan.operator_rows import Flow
from tidemill.plan.physical import Op, Physical

_SECOND = 1_000_000


class Counted(NamedTuple):
    """What was counted of an operator: rows in, rows of its answer, seconds of event time."""

    rows_in: float
    size: float
    seconds: float


Lookup = Callable[[str], Counted | None]  # by the id of an operator; None: not counted


def predict_rows(plan: Physical, counted: Lookup) -> dict[str, Flow]:
    """Predictions by the id of the operator."""
    return _Prediction(plan, counted).predict()


def measure_streams(plan: Physical, counted: Lookup) -> dict[str, tuple[float, float]]:
    """(records in a second of event time, keys) of each keyed stream, by source and key."""
    work, found = _Prediction(plan, counted), {}
    for op in work.ops.values():
        chain = work.chain_below(op) if isinstance(op, p.Tagger) else []
        scan = work.ops.get(chain[-1].inputs[0]) if chain else None
        first, known = counted(chain[0].id) if chain else None, counted(op.id)
        if not isinstance(op, p.Tagger) or not isinstance(scan, p.Scan) or first is None or known is None:
            continue
        if min(first.rows_in, known.size, first.seconds) > 0 and not _selects(chain):
            found[" ".join([scan.source, *op.keys])] = first.rows_in / first.seconds, known.size
    return found


class _Prediction:
    def __init__(self, plan: Physical, counted: Lookup) -> None:
        self.counted = counted
        self.shards, self.looped = len(plan.shards), {e.source_op for e in plan.loops}
        self.ops: dict[str, Op] = {op.id: op for op in (*plan.reader, *plan.stage)}
        self.edges: Mapping[str, str] = {e.port: e.source_op for e in (*plan.exchanges, *plan.loops)}
        self.readers: dict[str, list[Op]] = {}
        for op in self.ops.values():
            for name in op.inputs:
                self.readers.setdefault(self.edges.get(name, name), []).append(op)
        self.found: dict[str, Flow] = {}

    def predict(self) -> dict[str, Flow]:
        for op in self.ops.values():
            if isinstance(op, p.Tagger):
                self._predict_tagger(op)
        return self.found

    def _predict_tagger(self, op: p.Tagger) -> None:
        chain = self.chain_below(op)
        first, known = self.counted(chain[0].id) if chain else None, self.counted(op.id)
        if first is None or known is None or min(first.rows_in, known.size, first.seconds) <= 0 or _selects(chain):
            return
        points = _periods(chain)
        keys, records = known.size, first.rows_in
        if points and isinstance(chain[0], p.Latest):
            gaps = union_gaps(points, first.seconds * _SECOND)
            each = Updates(keys, records / keys / (first.seconds * _SECOND), regular=False)
            records = min(records, synchronizer_output([each], gaps))
            self.found[chain[0].id] = Flow(first.rows_in, records)
        self.found[op.id] = Flow(records, None)
        times = sum(gap.times for gap in union_gaps(points, first.seconds * _SECOND)) if points else records
        for reader in self.readers.get(op.id, ()):
            self._predict_groups(reader, times)

    def _predict_groups(self, op: Op, times: float) -> None:
        """Follow projections up to a grouping. Behind a filter it is not known at how many times rows come."""
        if isinstance(op, p.Project):
            for reader in self.readers.get(op.id, ()):
                self._predict_groups(reader, times)
        elif isinstance(op, p.Partial):
            group = next((g for g in self.readers.get(op.id, ()) if isinstance(g, p.Group)), None)
            partial, known = self.counted(op.id), self.counted(group.id) if group is not None else None
            if group is not None and partial is not None and known is not None and known.size > 0:
                # Where rows change shards behind it, every shard has its own rows of a group.
                shards = self.shards if op.id in self.looped else 1
                touched = shards * times * groups_touched(known.size, partial.rows_in / times / shards)
                self.found[op.id] = Flow(partial.rows_in, touched)
                self.found[group.id] = Flow(touched, max(known.size, 2 * touched - known.size))

    def chain_below(self, op: Op) -> list[Op]:
        """The linear operators between an operator and a scan, from the top down."""
        return list(self._below(self.edges.get(op.inputs[0], op.inputs[0])))

    def _below(self, name: str) -> Iterator[Op]:
        while isinstance(op := self.ops.get(name), p.Linear):
            yield op
            name = op.inputs[0]


def _periods(chain: list[Op]) -> list[tuple[int, int]]:
    """The points at which records reach the tagger; none: at any time."""
    found = [(op.every, op.offset) for op in chain if isinstance(op, p.Synchronize)]
    several = [period for op in chain if isinstance(op, p.SynchronizePeriods) for period in op.periods]
    return found + [(period.every_us, period.offset_us) for period in several]


def _selects(chain: list[Op]) -> bool:
    """Whether some records do not reach the tagger, or delete their key."""
    gone = [sql for op in chain if isinstance(op, p.Project) for name, sql in op.items if name == "__gone"]
    return any(isinstance(op, p.Filter) for op in chain) or gone != ["FALSE"]
