"""Rows that the cost model predicts for the operators over a keyed stream, from what was counted of the stream.

The inputs of the model are the rows that reached an operator, the keys and the groups that there are:

    latest     at each point one record for each key that was updated, as regularly as all synchronizers of the stream
               say together
    tagger     what `latest` passes on; how many records change a row depends on the data alone
    partial    the groups that the rows of a time fall into; rows come evenly
    group      what `partial` passes on; at each time the old and the new row of a group, one for a new group

A tagger with a predicate merged in is left out: how many keys fail the predicate is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.optimize.views.cost import Gap, fit_regularity, groups_touched, synchronizer_output, union_gaps
from tidemill.optimize.views.streams import SECOND, Counted, Lookup, StreamRate
from tidemill.plan import physical as p
from tidemill.plan.operator_rows import Flow
from tidemill.plan.physical import Op, Physical


def predict_rows(plan: Physical, counted: Lookup) -> dict[str, Flow]:
    """Predictions by the id of the operator."""
    return _Prediction(plan, counted).predict(measure_streams(plan, counted))


def measure_streams(plan: Physical, counted: Lookup) -> dict[str, StreamRate]:
    """What was counted of each keyed stream, by source and key: of the taggers that keep all rows of it."""
    work = _Prediction(plan, counted)
    found: dict[str, list[_Tagged]] = {}
    for op in work.ops.values():
        tagged = work.find_tagger(op) if isinstance(op, p.Tagger) else None
        if tagged is not None:
            found.setdefault(tagged.stream, []).append(tagged)
    return {stream: _rate_of(taggers) for stream, taggers in found.items()}


@dataclass(frozen=True)
class _Tagged:
    """A tagger that was counted: its stream, the points of its records, what it and the lowest operator below it did,
    and whether that is one that keeps the latest record of each key.
    """

    stream: str
    periods: tuple[tuple[int, int], ...]
    tagger: Counted
    below: Counted
    is_latest: bool

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Between the points while it was counted; none where records come at any time."""
        return union_gaps(self.periods, self.below.seconds * SECOND) if self.periods and self.is_latest else ()


def _rate_of(taggers: Sequence[_Tagged]) -> StreamRate:
    """The longest count has records and keys; all synchronizers say how regular the updates are."""
    longest = max(taggers, key=lambda t: t.below.seconds)
    keys, records = longest.tagger.size, longest.below.rows_in / longest.below.seconds
    emitted = [(t.gaps, t.below.rows_out) for t in taggers if t.gaps]
    reached = sum(t.tagger.rows_in for t in taggers)
    changes = sum(t.tagger.rows_out for t in taggers) / reached if reached else 2.0
    return StreamRate(records, keys, fit_regularity(keys, records / keys / SECOND, emitted), changes)


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

    def predict(self, rates: Mapping[str, StreamRate]) -> dict[str, Flow]:
        for op in self.ops.values():
            if isinstance(op, p.Tagger):
                self._predict_tagger(op, rates)
        return self.found

    def find_tagger(self, op: p.Tagger) -> _Tagged | None:
        """A tagger of all rows of a stream; None where it was not counted or selects some of them."""
        chain = self.chain_below(op)
        scan = self.ops.get(chain[-1].inputs[0]) if chain else None
        first, known = self.counted(chain[0].id) if chain else None, self.counted(op.id)
        if not isinstance(scan, p.Scan) or first is None or known is None or _selects(chain):
            return None
        if min(first.rows_in, known.size, first.seconds) <= 0:
            return None
        stream = " ".join([scan.source, *op.keys])
        return _Tagged(stream, tuple(_periods(chain)), known, first, isinstance(chain[0], p.Latest))

    def _predict_tagger(self, op: p.Tagger, rates: Mapping[str, StreamRate]) -> None:
        tagged = self.find_tagger(op)
        if tagged is None:
            return
        records = times = tagged.below.rows_in
        if tagged.gaps:
            each = replace(rates[tagged.stream].updates, keys=tagged.tagger.size)
            records = min(records, synchronizer_output([each], tagged.gaps))
            times = sum(gap.times for gap in tagged.gaps)
            self.found[self.chain_below(op)[0].id] = Flow(tagged.below.rows_in, records)
        self.found[op.id] = Flow(records, None)
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
