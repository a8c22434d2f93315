"""How the window aggregates of a source are shared, and what else was possible: the numbers behind EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.optimize.share.costs import costs
from tidemill.optimize.share.known import SECOND
from tidemill.optimize.share.shape import (
    Settings,
    Shape,
    Weaving,
    bucket_units,
    model_for,
    shape_of,
    shares_of,
)
from tidemill.optimize.share.weaving.edges import edge_rate, edges_of

_MANY = 150  # queries beyond which one leaf for each is only priced without phantoms
_NAMES: dict[Weaving, str] = {
    "unshared": "unshared", "shared": "Shared", "weave_share": "Weave Share", "gtweave": "TriWeave",
}
Counts = dict[str, dict[str, Any]]  # by relation


def report(source: str, shape: Shape, settings: Settings, names: Mapping[str, str]) -> dict[str, Any]:
    """Everything about one source. `names` says for each query the view it belongs to."""
    measured = settings.statistics.get(source, {})
    windows = {q.id: q.window for q in shape.queries}
    rates, counts = predicted_rates(shape, measured, settings), counted(shape, measured, settings)
    now = costs(shape, measured, settings)
    depths: list[int] = []
    relations = []
    for i, (node, predicted) in enumerate(zip(shape.tree, rates, strict=True)):
        depths.append(1 if node.parent < 0 else depths[node.parent] + 1)
        relations.append({
            "relation": node.label, "depth": depths[-1], "feeds": sum(n.parent == i for n in shape.tree),
            "queries": len(node.queries), "buckets": node.buckets,
            "bytes": 4 * node.buckets * bucket_units(len(node.attributes), shape.parts),
            "edges_per_second": edge_rate(node.edges).value * SECOND,
            "predicted_evicted": predicted, **counts.get(node.label, {}),
        })
    return {
        "source": source, "queries": len(shape.queries), "configuration": str(shape.chosen.configuration),
        "attributes": _expressions(shape), "group_by_tree": shape.group_tree,
        "memory_units": settings.memory, "relations": relations,
        "weaved_groups": [{
            "queries": sorted(names.get(q, q) for q in group),
            "edges_per_second": edge_rate(edges_of(windows[q] for q in group)).value * SECOND,
        } for group in shape.groups],
        "cost": now.total, "tables_cost": now.tables, "measured_cost": now.met, "final_cost": now.final,
        "peak_load": now.peak, "peak_limit": settings.method.peak,
        "alternatives": alternatives(source, shape, settings),
        "statistics": "measured" if measured.get("relations") else "assumed", "known": _known(measured),
    }


def alternatives(source: str, shape: Shape, settings: Settings) -> list[dict[str, Any]]:
    """The predicted cost for each row of every way to weave, with and without phantoms."""
    found = []
    for weaving, name in _NAMES.items():
        for phantoms in (False, True):
            if phantoms and weaving == "unshared" and len(shape.queries) > _MANY:
                continue
            trial = replace(settings, weaving=weaving, phantoms=phantoms, pinned=False, held=False, shapes={}, kept={})
            other = shape_of(source, shape.queries, shape.parts, trial)
            found.append({"plan": name, "phantoms": phantoms, "cost": other.cost,
                          "configuration": str(other.chosen.configuration), "weaved_groups": len(other.groups)})
    return found


def predicted_rates(shape: Shape, measured: Mapping[str, Any], settings: Settings) -> list[float]:
    """Entries that each table evicts for each probe, by the statistics as they are now; a relation without a table
    evicts one for each key.
    """
    model = model_for(shape, shares_of(shape, measured), settings)
    return model.rates(shape.chosen.configuration, [node.buckets for node in shape.tree])


def counted(shape: Shape, measured: Mapping[str, Any], settings: Settings) -> Counts:
    """What the last batch counted in the tables of this very shape, and beside it what the model says of such a batch.

    Counts of another plan say nothing of this one, so a table that was fed by another relation or had another size
    has none. The model takes the rows that came to raw relations as given.
    """
    found: Counts = {}
    if not measured.get("relations"):
        return found
    model = model_for(shape, shares_of(shape, measured), settings)
    rates, evicted = predicted_rates(shape, measured, settings), [0.0] * len(shape.tree)
    shares = model.stream(shape.chosen.configuration).shares
    for i, node in enumerate(shape.tree):
        feeder = shape.tree[node.parent].label if node.parent >= 0 else None
        met = measured["relations"].get(node.label, {})
        same = (met.get("buckets"), met.get("feeder")) == (node.buckets, feeder)
        if not same or not node.buckets or not met["probes"]:
            continue
        probes = shares[i] * evicted[node.parent] if node.parent >= 0 else float(met["probes"])
        evicted[i] = probes * rates[i]
        entries = met["collisions"] + met["turnovers"] + met["flushed"]
        found[node.label] = {
            "measured_evicted": entries / met["probes"], "probes": met["probes"], "evictions": entries,
            "predicted_probes": round(probes), "predicted_evictions": round(evicted[i]),
        }
    return found


def _expressions(shape: Shape) -> dict[str, str]:
    """Attributes that are no columns, by the name that stands for them in the configuration."""
    items = {a.name: a.sql for q in shape.queries for a in q.attributes}
    return {name: sql for name, sql in sorted(items.items()) if name.startswith("expr_")}


def _known(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of the last batch: rows a second and in a share, groups of attribute sets, flow length by depth."""
    if not measured:
        return {}
    groups = {"·".join(name.split("\x1f")): count for name, count in measured.get("groups", {}).items()}
    return {"rows_per_second": measured.get("rate"), "rows_per_share": (measured.get("share") or [None])[0],
            "groups": groups, "flow_lengths": measured.get("flows", [])}
