"""From what the readers counted to the statistics of the next plan (paper 002, sections 4.1 and 5.3).

All of it is of an average share, a reader's part of a micro-batch: group counts come from sketches over a block of its
rows, keys from the patterns of its rows, the flow length of each depth from the entries that its tables made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidemill.optimize.share.costs import costs
from tidemill.optimize.share.flows import certain_flow, flow_met
from tidemill.optimize.share.known import SECOND, Known, Wants, known_statistics
from tidemill.optimize.share.phantoms.share_model import REFUSED
from tidemill.optimize.share.shape import Settings, Shape, cost_now, shape_of
from tidemill.optimize.share.weaving.edges import edge_rate, edge_times, union

MARGIN = 0.05  # a new plan must be cheaper by this share to be worth a change
_HELD_BACK = 0.25  # a table that evicts fewer entries than this for each row does all that a table can do
_REMEMBERED, _DEPTHS = 64, 8  # tables, and depths, of which flow lengths are kept
_COUNTED = 10_000  # edges of a share beyond which one more or less makes no difference
_AVERAGED = 16.0  # batches of an average, at most: what comes later counts like the last of them
_SEEN = 1_000  # probes below which counts say little

Params = Mapping[str, Any]  # of an "lfta" operator


def statistics(params: Params, note: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of a source after a batch. `params` are those of the plan the batch ran under, `note` what its
    readers counted.
    """
    if not note["rows"]:
        return dict(before)
    relations, predicates = params["relations"], [p["sql"] for p in params["predicates"]]
    span = max(1, note["last"] - note["first"])
    rows, micros = note["share"]
    found = {
        "groups": _named(params, note["block"][1]), "tuples": max(1.0, float(note["block"][0])),
        "rows": note["rows"], "rate": note["rows"] * SECOND / span, "seconds": span / SECOND,
        "share": [float(rows), micros / SECOND], "shares": note["flushes"], "loose": _loose(params, note, before),
        "first": [float(note["early"][0]), _named(params, note["early"][1])],
        "tried": [float(note["tables"][0]), note["sizes"], _named(params, note["tables"][1])],
        **_patterns(params, note, predicates, before), "idle": dict(before.get("idle", {})),
        "relations": {
            r["label"]: {
                "probes": p, "collisions": c, "turnovers": t, "flushed": f, "buckets": r["buckets"],
                "feeder": relations[r["parent"]]["label"] if r["parent"] >= 0 else None,
            } for r, (p, c, t, f) in zip(relations, note["relations"], strict=True)
        },
    }
    known = known_statistics(found)
    found["flows"], found["lengths"] = _flows(params, note, known, before)
    found["fed"] = _note_idle(params, note, known, found["idle"], before.get("fed", {}))
    return found


def _loose(params: Params, note: Mapping[str, Any], before: Mapping[str, Any]) -> list[float]:
    """Fragments of a share beyond the edges of its time, and of how many batches: 1 where shares begin anywhere, which
    is what is assumed at first, 0 where they end at edges. An average: a single share without an edge tells nothing.
    """
    edges = union(*(tuple((slide, phase) for slide, phase in r["edges"])
                    for r in params["relations"] if r["parent"] < 0))
    rate = edge_rate(edges).value
    average, batches = before.get("loose", (1.0, 1.0))
    spans = [(first, last) for first, last in note["spans"] if rate * (last - first) < _COUNTED]
    if not spans:
        return [average, batches]
    found = [1 + len(edge_times(edges, first + 1, last + 1)) - rate * (last - first) for first, last in spans]
    batches = min(_AVERAGED, batches + 1)
    return [round(average + (sum(found) / len(found) - average) / batches, 4), batches]


def _named(params: Params, counts: Sequence[Any]) -> dict[str, Any]:
    """Counts by attribute set."""
    names = [a["name"] for a in params["attributes"]]
    return {"\x1f".join(sorted(names[i] for i in numbers)): np.round(count, 1).tolist()
            for numbers, count in zip(params["candidates"], counts, strict=False)}


def _patterns(params: Params, note: Mapping[str, Any], predicates: list[str],
              before: Mapping[str, Any]) -> dict[str, Any]:
    """Rows by pattern. A share that needed none (running totals) leaves what was known of the same predicates."""
    if note["patterns"]:
        return {"predicates": predicates, "patterns": note["patterns"],
                "pairs": [float(note["pairs"][0]), _named(params, note["pairs"][1])]}
    if before.get("predicates") == predicates:
        return {name: before[name] for name in ("predicates", "patterns", "pairs")}
    return {}


def _flows(params: Params, note: Mapping[str, Any], known: Known,
           before: Mapping[str, Any]) -> tuple[list[float], dict[str, dict[str, Any]]]:
    """Flow lengths by depth, and those of single tables. A depth, or a table, that is not there keeps what was met: a
    plan would else be taken up again and again because nothing is known against it.
    """
    relations = params["relations"]
    depths: list[int] = []
    rates: list[float] = []
    met: dict[int, list[tuple[float, float]]] = {}
    lengths = dict(before.get("lengths", {}))
    for relation, (probes, *evicted) in zip(relations, note["relations"], strict=True):
        feeder = relations[relation["parent"]]["label"] if relation["parent"] >= 0 else None
        depths.append(1 if feeder is None else depths[relation["parent"]] + 1)
        rates.append(sum(evicted) / probes if probes else 1.0)
        if probes < _SEEN or not relation["buckets"]:
            continue  # a relation without a table has no probes
        epochs, keys, skew = _comes(params, relation, known)
        above = 1.0 if feeder is None else rates[relation["parent"]]
        times = epochs * note["flushes"]
        table = probes / times, keys, relation["buckets"], sum(evicted) / times, skew**above
        lengths.pop(relation["label"], None)  # the newest last
        lengths[relation["label"]] = own = {
            "feeder": feeder, "buckets": relation["buckets"], "rows": known.rows,
            "met": round(flow_met(*table), 4), "certain": round(certain_flow(*table), 4),
        }
        met.setdefault(depths[-1], []).append((own["certain"], probes))
    flows = [1.0] * max(depths, default=1)
    flows = [*before.get("flows", ())][:_DEPTHS] + flows[len(before.get("flows", ())):]
    for depth, found in met.items():
        flows[depth - 1] = sum(length * weight for length, weight in found) / sum(weight for _, weight in found)
    return flows, dict(list(lengths.items())[-_REMEMBERED:])


def _comes(params: Params, relation: Mapping[str, Any], known: Known) -> tuple[float, float, float]:
    """Epochs of a share, keys of an epoch, and their skew, for one relation of the plan that ran."""
    names, predicates = [a["name"] for a in params["attributes"]], [p["sql"] for p in params["predicates"]]
    asked = [params["queries"][q]["predicate"] for q in relation["queries"]]
    epochs = min(known.rows, known.epochs(tuple((slide, phase) for slide, phase in relation["edges"])))
    attributes = frozenset(names[i] for i in relation["attributes"])
    keys = known.keys(attributes,
                      Wants.of(None if p < 0 else predicates[p] for p in asked), known.rows / epochs)
    return epochs, keys, known.skew(attributes, relation["buckets"])


def _note_idle(params: Params, note: Mapping[str, Any], known: Known, idle: dict[str, float],
               before: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Phantoms that evicted nearly all they were fed with; with more than twice as many rows for each group they may
    try again. Where a batch feeds one too little to tell, the next batches are added: what it was fed and evicted so
    far is the result.
    """
    names, fed = [a["name"] for a in params["attributes"]], {}
    for relation, (probes, *evicted) in zip(params["relations"], note["relations"], strict=True):
        if relation["emits"] >= 0 or not relation["buckets"]:
            continue
        attributes = frozenset(names[i] for i in relation["attributes"])
        name = "\x1f".join(sorted(attributes))
        earlier, gone = before.get(name, (0, 0))
        probes, gone = probes + earlier, sum(evicted) + gone
        if probes < _SEEN:
            fed[name] = [probes, gone]
        elif gone >= REFUSED * probes:
            idle[name] = max(round(known.each(attributes), 4), idle.get(name, 0.0))
        else:
            idle.pop(name, None)
    return fed


def settled(shape: Shape, measured: Mapping[str, Any]) -> bool:
    """True when one raw relation has the only table, and holds back most of the rows that come: other tables can save
    little then, and looking for them among hundreds of queries takes longer than they would save.
    """
    raw, *below = shape.tree
    counted = measured.get("relations", {}).get(raw.label)
    if not below or any(node.parent < 0 or node.buckets for node in below) or not counted:
        return False
    evicted = counted["collisions"] + counted["turnovers"] + counted["flushed"]
    return counted["probes"] >= _SEEN and evicted < _HELD_BACK * counted["probes"]


def reason_to_change(source: str, shape: Shape, settings: Settings) -> str | None:
    """Why another plan is worth it, by the statistics as they are now: it is cheaper by the margin; it keeps the peak
    load, or comes nearer to it, where the present one does not; or a phantom evicts all that it is fed with.
    """
    measured = settings.statistics.get(source, {})
    limit = settings.method.peak
    peak = costs(shape, measured, settings).peak if limit is not None else 0.0
    broken = limit is not None and peak > limit
    idle = [] if broken else _idle(shape, measured)
    if settings.pinned or (not broken and not idle and settled(shape, measured)):
        return None
    now = cost_now(shape, measured, settings)
    other = shape_of(source, shape.queries, shape.parts, settings.copy(held=False))
    if broken and limit is not None:
        reached = costs(other, measured, settings).peak
        if reached > limit and reached > (1 - MARGIN) * peak:
            return None
        return f"peak load {peak:,.0f}, at most {limit:,.0f}" + ("; no plan is below it" if reached > limit else "")
    if idle and other.tree != shape.tree:
        return f"statistics: phantom {idle[0]} evicts what it is fed with"
    return "statistics" if other.cost < (1 - MARGIN) * now else None


def _idle(shape: Shape, measured: Mapping[str, Any]) -> list[str]:
    """Phantoms of a shape that evicted nearly all they were fed with."""
    known = known_statistics(measured)
    return [n.label for n in shape.tree if n.store is None and n.buckets and known.refused(frozenset(n.attributes))]
