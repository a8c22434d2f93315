"""From the readers' counts to the statistics of the next plan (paper 002, sections 4.1 and 5.3).

All statistics describe an average share, a reader's part of a micro-batch: group counts come from sketches over a block
of its rows, keys from the patterns of its rows, the flow length of each depth from the entries that its tables made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidemill.optimize.share.costs import plan_costs
from tidemill.optimize.share.flows import observed_flow, significant_flow
from tidemill.optimize.share.phantoms.share_model import REFUSED
from tidemill.optimize.share.reader_plan import ReaderPlan, Settings, current_cost, plan_reader
from tidemill.optimize.share.stored_statistics import FlowLength, WindowStatistics
from tidemill.optimize.share.stream_statistics import SECOND, StreamStatistics, Wants, read_statistics
from tidemill.optimize.share.weaving.edges import edge_rate, edge_times, union
from tidemill.plan.measured.windows import SourceCounts
from tidemill.plan.physical import HashTables, LftaRelation

MARGIN = 0.05  # a new plan must be cheaper by this share to replace the plan in force
_HELD_BACK = 0.25  # eviction rate below which other tables could save little
_REMEMBERED, _DEPTHS = 64, 8  # tables, and depths, of which flow lengths are kept
_COUNTED = 10_000  # edges of a share from which one more or less makes no difference
_AVERAGED = 16.0  # the weight of a batch in an average is at least one over this
_SEEN = 1_000  # probes below which counts are not significant


def update_statistics(tables: HashTables, counts: SourceCounts, before: WindowStatistics) -> WindowStatistics:
    """Statistics of a source after a batch. `tables` are those of that batch, `counts` are
    those of its readers, `before` the statistics so far.
    """
    if not counts.rows:
        return before.copy()
    relations = tables.relations
    span = max(1, counts.last - counts.first)
    rows, micros = counts.share
    found: WindowStatistics = {
        "groups": _by_attributes(tables, counts.block.groups),
        "tuples": max(1.0, float(counts.block.rows)),
        "rows": counts.rows,
        "rate": counts.rows * SECOND / span,
        "seconds": span / SECOND,
        "share": [float(rows), micros / SECOND],
        "shares": counts.flushes,
        "loose": _average_loose(tables, counts, before),
        "first": (float(counts.early.rows), _by_attributes(tables, counts.early.groups)),
        "tried": (float(counts.tables.rows), list(counts.sizes), _by_attributes(tables, counts.tables.entries)),
        **_pattern_counts(tables, counts, before),
        "idle": dict(before.get("idle", {})),
        "relations": {
            r.label: {
                "probes": did.probes,
                "collisions": did.collisions,
                "turnovers": did.turnovers,
                "flushed": did.flushed,
                "buckets": r.buckets,
                "feeder": relations[r.parent].label if r.parent >= 0 else None,
            }
            for r, did in zip(relations, counts.relations, strict=True)
        },
    }
    known = read_statistics(found)
    found["flows"], found["lengths"] = _measure_flows(tables, counts, known, before)
    found["fed"] = _note_idle(tables, counts, known, found["idle"], before.get("fed", {}))
    return found


def _average_loose(tables: HashTables, counts: SourceCounts, before: WindowStatistics) -> list[float]:
    """Fragments of a share minus the expected edges in its time, and the batches of this average. It is 1 if shares
    begin anywhere, which is the first assumption, and 0 if they begin and end at edges. One share alone is no evidence.
    """
    edges = union(*(tuple((slide, phase) for slide, phase in r.edges) for r in tables.relations if r.parent < 0))
    rate = edge_rate(edges).value
    average, batches = before.get("loose", (1.0, 1.0))
    spans = [(first, last) for first, last in counts.spans if rate * (last - first) < _COUNTED]
    if not spans:
        return [average, batches]
    found = [1 + len(edge_times(edges, first + 1, last + 1)) - rate * (last - first) for first, last in spans]
    batches = min(_AVERAGED, batches + 1)
    return [round(average + (sum(found) / len(found) - average) / batches, 4), batches]


def _by_attributes(tables: HashTables, counts: Sequence[Any]) -> dict[str, Any]:
    """Counts by attribute set."""
    names = [a.name for a in tables.attributes]
    return {
        "\x1f".join(sorted(names[i] for i in numbers)): np.round(count, 1).tolist()
        for numbers, count in zip(tables.candidates, counts, strict=False)
    }


def _pattern_counts(tables: HashTables, counts: SourceCounts, before: WindowStatistics) -> WindowStatistics:
    """Rows by pattern. A share without patterns (running totals) keeps the counts known for the same predicates."""
    predicates = [p.sql for p in tables.predicates]
    reads = {p.sql: list(p.columns_read) for p in tables.predicates if p.columns_read is not None}
    if counts.patterns:
        return {
            "predicates": predicates,
            "reads": reads,
            "patterns": counts.patterns,
            "pairs": (float(counts.pairs.rows), _by_attributes(tables, counts.pairs.groups)),
        }
    if before.get("predicates") == predicates:
        return {"predicates": predicates, "reads": reads, "patterns": before["patterns"], "pairs": before["pairs"]}
    return {}


def _measure_flows(
    tables: HashTables, counts: SourceCounts, known: StreamStatistics, before: WindowStatistics
) -> tuple[list[float], dict[str, FlowLength]]:
    """Flow lengths by depth, and those of single tables. A depth or a table that this plan does not have keeps its last
    length: without it, a plan that performed badly would be chosen again.
    """
    relations = tables.relations
    depths: list[int] = []
    rates: list[float] = []
    met: dict[int, list[tuple[float, float]]] = {}
    lengths = dict(before.get("lengths", {}))
    for relation, (probes, *evicted) in zip(relations, counts.relations, strict=True):
        feeder = relations[relation.parent].label if relation.parent >= 0 else None
        depths.append(1 if feeder is None else depths[relation.parent] + 1)
        rates.append(sum(evicted) / probes if probes else 1.0)
        if probes < _SEEN or not relation.buckets:
            continue  # a relation without a table has no probes
        epochs, keys, skew = _arrivals(tables, relation, known)
        above = 1.0 if feeder is None else rates[relation.parent]
        times = epochs * counts.flushes
        table = probes / times, keys, relation.buckets, sum(evicted) / times, skew**above
        lengths.pop(relation.label, None)  # the newest last
        certain = round(significant_flow(*table), 4)
        lengths[relation.label] = {
            "feeder": feeder,
            "buckets": relation.buckets,
            "rows": known.rows,
            "met": round(observed_flow(*table), 4),
            "certain": certain,
        }
        met.setdefault(depths[-1], []).append((certain, probes))
    flows = [1.0] * max(depths, default=1)
    flows = [*before.get("flows", ())][:_DEPTHS] + flows[len(before.get("flows", ())) :]
    for depth, found in met.items():
        flows[depth - 1] = sum(length * weight for length, weight in found) / sum(weight for _, weight in found)
    return flows, dict(list(lengths.items())[-_REMEMBERED:])


def _arrivals(tables: HashTables, relation: LftaRelation, known: StreamStatistics) -> tuple[float, float, float]:
    """Epochs of a share, keys of an epoch, and their skew, for one relation of the plan of the batch."""
    names, predicates = [a.name for a in tables.attributes], [p.sql for p in tables.predicates]
    asked = [tables.queries[q].predicate for q in relation.queries]
    epochs = min(known.rows, known.epochs(tuple((slide, phase) for slide, phase in relation.edges)))
    attributes = frozenset(names[i] for i in relation.attributes)
    keys = known.keys(attributes, Wants.of(None if p < 0 else predicates[p] for p in asked), known.rows / epochs)
    return epochs, keys, known.skew(attributes, relation.buckets)


def _note_idle(
    tables: HashTables,
    counts: SourceCounts,
    known: StreamStatistics,
    idle: dict[str, float],
    before: Mapping[str, Sequence[int]],
) -> dict[str, list[int]]:
    """Add to `idle` the phantoms that evicted nearly all entries they were fed with, by their rows per group; with more
    than twice as many they may be chosen again. If a batch feeds a phantom too little for a verdict, its counts are
    added to those of the next batches: they are the result.
    """
    names, fed = [a.name for a in tables.attributes], {}
    for relation, (probes, *evicted) in zip(tables.relations, counts.relations, strict=True):
        if relation.emits >= 0 or not relation.buckets:
            continue
        attributes = frozenset(names[i] for i in relation.attributes)
        name = "\x1f".join(sorted(attributes))
        earlier, gone = before.get(name, (0, 0))
        probes, gone = probes + earlier, sum(evicted) + gone
        if probes < _SEEN:
            fed[name] = [probes, gone]
        elif gone >= REFUSED * probes:
            idle[name] = max(round(known.rows_per_group(attributes), 4), idle.get(name, 0.0))
        else:
            idle.pop(name, None)
    return fed


def is_settled(plan: ReaderPlan, measured: WindowStatistics) -> bool:
    """True if one raw relation has the only table and evicts few entries per row. Other tables can save little then,
    and searching them among hundreds of queries would cost more than they save.
    """
    raw, *below = plan.tree
    counted = measured.get("relations", {}).get(raw.label)
    if not below or any(node.parent < 0 or node.buckets for node in below) or not counted:
        return False
    evicted = counted["collisions"] + counted["turnovers"] + counted["flushed"]
    return counted["probes"] >= _SEEN and evicted < _HELD_BACK * counted["probes"]


def reason_to_change(source: str, plan: ReaderPlan, settings: Settings) -> str | None:
    """Why another plan should replace this one, by the current statistics; None if it should not. Another plan is
    cheaper by the margin; or it respects the peak load, or exceeds it by less; or a phantom of this plan is idle.
    """
    measured = settings.statistics.get(source, {})
    limit = settings.method.peak
    peak = plan_costs(plan, measured, settings).peak if limit is not None else 0.0
    broken = limit is not None and peak > limit
    idle = [] if broken else _idle_phantoms(plan, measured)
    if settings.pinned or (not broken and not idle and is_settled(plan, measured)):
        return None
    now = current_cost(plan, measured, settings)
    other = plan_reader(source, plan.queries, plan.parts, settings.copy(held=False))
    if broken and limit is not None:
        reached = plan_costs(other, measured, settings).peak
        if reached > limit and reached > (1 - MARGIN) * peak:
            return None
        return f"peak load {peak:,.0f}, at most {limit:,.0f}" + ("; no plan is below it" if reached > limit else "")
    if idle and other.tree != plan.tree:
        return f"statistics: phantom {idle[0]} evicts what it is fed with"
    return "statistics" if other.cost < (1 - MARGIN) * now else None


def _idle_phantoms(plan: ReaderPlan, measured: WindowStatistics) -> list[str]:
    """Phantoms of a plan that evicted nearly all entries they were fed with."""
    known = read_statistics(measured)
    return [n.label for n in plan.tree if n.store is None and n.buckets and known.is_refused(frozenset(n.attributes))]
