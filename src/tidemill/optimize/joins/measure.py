"""From the counts of the shards to the statistics of each input that the cost functions need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.optimize.joins.stored_statistics import JoinStatistics
from tidemill.optimize.joins.streams import Stream
from tidemill.plan import relations as r
from tidemill.plan.aggregation_joins import JoinAnalysis, Side, partition
from tidemill.plan.measured.joins import JoinCounts, JoinInputCounts
from tidemill.plan.node import walk
from tidemill.plan.physical import FOREVER
from tidemill.plan.relations import JoinAggregate, Relation

SECOND = 1_000_000
# Assumed before the first batch: more rows than join values and more join values than groups.
RATE, WINDOW, VALUES, GROUPS = 1_000.0, 10_000.0, 500.0, 10.0
_FORGET = 0.5  # weight of the last batch


def streams_of(node: JoinAggregate, found: JoinAnalysis, known: JoinStatistics | None) -> list[Stream]:
    """The inputs as the cost model sees them: measured, or assumed before the first batch."""
    measured: Sequence[Mapping[str, float]] = (known or {}).get("inputs") or [{}] * len(node.inputs)
    return [
        _stream(relation, side, found, m) for relation, side, m in zip(node.inputs, found.sides, measured, strict=True)
    ]


def _stream(relation: Relation, side: Side, found: JoinAnalysis, known: Mapping[str, float]) -> Stream:
    names = {c.name for c in side.keys}
    linked = [min(c) for c in found.classes if c & names]
    joined = {c for equal in found.classes for c in equal}
    values = max(1.0, known.get("values", VALUES)) ** (1 / max(1, len(linked)))
    static = r.never_changes(relation)
    return Stream(
        rate=0.0 if static else known.get("rate", RATE),
        window=known.get("window", WINDOW),
        groups=GROUPS if names - joined - side.extremes.keys() else 1.0,
        values={name: max(1.0, values) for name in linked} or 1.0,
        decrement=0 if r.append_only(relation) else 1,
        alike=not side.folded,
        matches=known.get("matches"),
        set_matches=known.get("set_matches"),
        set_size=known.get("set_size"),
        late_width=_width(len(names) + len(side.folded)),
        early_width=_width(len(names) + len(side.parts)),
        refresh=_refresh(relation),
        shipped=known.get("shipped"),
    )


def _width(columns: int) -> float:
    """Bytes of a row: its columns, a hash and a count."""
    return 8.0 * (columns + 2)


def _refresh(relation: Relation) -> float | None:
    """Seconds between two synchronization points of the input; None if it may change at any time."""
    for node in walk(relation):
        if isinstance(node, r.Synchronize):
            return node.every_us / SECOND
        if isinstance(node, r.SynchronizePeriods):
            return 1 / sum(SECOND / period.every_us for period in node.periods)
        if isinstance(node, r.Temporal) and node.period:
            return node.period[0] / SECOND
    return None


def event_seconds(
    node: JoinAggregate, notes: Sequence[JoinCounts], before: JoinStatistics | None
) -> tuple[float, int | None]:
    """(seconds of event time of a batch, its end). A batch begins at the end of the last batch with changes.

    Rates are per second of event time, like windows and refreshes: a replay may be faster by any factor. The first
    batch begins one refresh before its first change.
    """
    times = [t for note in notes for t in note.times or ()]
    if not times:
        return 0.0, (before or {}).get("until")
    frontier = min(note.frontier for note in notes)
    until = frontier if frontier < FOREVER else max(times)
    since = (before or {}).get("until")
    refreshes = [x for x in map(_refresh, node.inputs) if x is not None]
    least = min(refreshes, default=1e-3)
    if since is not None:
        return max((until - since) / SECOND, 1e-3), max(until, since)
    return max((until - min(times)) / SECOND + least, 1e-3), until


def measure_batch(
    node: JoinAggregate,
    found: JoinAnalysis,
    notes: Sequence[JoinCounts],
    early: Sequence[bool],
    before: JoinStatistics | None,
) -> JoinStatistics:
    """Statistics of one batch alone; `blend_statistics` combines them with those before. `notes` has the counts of each
    shard (see the operator), `early` the plan that ran. An input that is copied to all shards was counted by all of
    them.
    """
    seconds, until = event_seconds(node, notes, before)
    split = partition(node, found)
    inputs, arrived = [], []
    for i, side in enumerate(found.sides):
        names = {c.name for c in side.keys}
        alone = i == node.spread if node.spread is not None else all(c & names for c in split)
        copies = 1 if alone else len(notes)
        each = [n.inputs[i] for n in notes]
        ever = sum(e.arrived for e in each)
        known = (before or {}).get("arrived", [0] * len(found.sides))[i]
        came = ever - known if ever >= known else ever
        arrived.append(ever)
        inputs.append(_measure_input(each, copies, seconds, came, node.inputs[i], early[i]))
    batches = (before or {}).get("batches", 0) + 1
    return {
        "inputs": inputs,
        "pairs": float(sum(n.pairs for n in notes)),
        "groups": max(1.0, float(sum(n.groups for n in notes))),
        "batches": batches,
        "seconds": seconds,
        "until": until,
        "arrived": arrived,
    }


def blend_statistics(before: JoinStatistics | None, fresh: JoinStatistics) -> JoinStatistics:
    """Statistics after a batch: the mean of its inputs and those before; pairs and groups are those of the batch."""
    if not before:
        return fresh.copy()
    lasted = _blend({"seconds": before["seconds"]}, {"seconds": fresh["seconds"]})["seconds"]
    inputs = [_blend(old, new) for old, new in zip(before["inputs"], fresh["inputs"], strict=True)]
    return {**fresh, "seconds": lasted, "inputs": inputs}


def _measure_input(
    each: Sequence[JoinInputCounts], copies: int, seconds: float, arrived: float, relation: Relation, early: bool
) -> dict[str, float]:
    taken = (1 if r.append_only(relation) else 2) * copies
    found = {
        "rate": arrived / taken / seconds,
        "window": sum(e.rows for e in each) / copies,
        "values": sum(e.values for e in each) / copies,
        "set_size": sum(e.sets for e in each) / copies,
        "bytes": float(sum(e.bytes for e in each)),
        "shipped": sum(e.changes if early else e.set_changes for e in each) / taken / seconds,
    }
    probes = sum(e.probes for e in each)
    if probes:
        found["matches"] = sum(e.late_met for e in each) / probes
        found["set_matches"] = sum(e.early_met for e in each) / probes
    return found


def _blend(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """The mean of the last batch and the statistics before it."""
    return {**old, **{k: v * _FORGET + old.get(k, v) * (1 - _FORGET) for k, v in new.items()}}
