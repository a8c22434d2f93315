"""How the window aggregates of a source are shared, and what else was possible: the numbers behind EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.optimize.share.phantoms.collisions import occupied
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.shape import (
    SECOND,
    Settings,
    Shape,
    Weaving,
    bucket_units,
    cost_now,
    known_statistics,
    shape_of,
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
    rates, counts = predicted_rates(shape, measured), counted(shape, measured)
    depths: list[int] = []
    relations = []
    for i, (node, predicted) in enumerate(zip(shape.tree, rates, strict=True)):
        depths.append(1 if node.parent < 0 else depths[node.parent] + 1)
        relations.append({
            "relation": node.label, "depth": depths[-1], "feeds": sum(n.parent == i for n in shape.tree),
            "queries": len(node.queries), "buckets": node.buckets,
            "bytes": 4 * node.buckets * bucket_units(len(node.attributes), shape.parts),
            "edges_per_second": edge_rate(node.edges).value * SECOND,
            "predicted_collisions": predicted, **counts.get(node.label, {}),
        })
    return {
        "source": source, "queries": len(shape.queries), "configuration": str(shape.chosen.configuration),
        "attributes": _expressions(shape), "group_by_tree": shape.group_tree,
        "memory_units": settings.memory, "relations": relations,
        "weaved_groups": [{
            "queries": sorted(names.get(q, q) for q in group),
            "edges_per_second": edge_rate(edges_of(windows[q] for q in group)).value * SECOND,
        } for group in shape.groups],
        "cost": cost_now(shape, measured, settings), "alternatives": alternatives(source, shape, settings),
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


def predicted_rates(shape: Shape, measured: Mapping[str, Any]) -> list[float]:
    """x of each table by equation 15 and the statistics as they are now; without a table, of the one it would have."""
    sizes = [node.buckets or size for node, size in zip(shape.tree, shape.chosen.table_sizes, strict=True)]
    return Model(known_statistics(measured).statistics).rates(shape.chosen.configuration, sizes)


def counted(shape: Shape, measured: Mapping[str, Any]) -> Counts:
    """What the last batch counted in the tables of this very shape, and beside it what the model says of such a batch.

    Counts of another plan say nothing of this one, so a table that was fed by another relation or had another size
    has none. The model takes the rows that came to raw relations as given. Every probe that does not meet its own group
    in its own fragment makes an entry, which is evicted sooner or later: x of the probes, and of the others the first
    of each group in a fragment. What is evicted probes the relations below.
    """
    found: Counts = {}
    if not measured.get("relations"):
        return found
    known, evicted = known_statistics(measured).statistics, [0.0] * len(shape.tree)
    relations = zip(shape.tree, shape.chosen.configuration.relations, predicted_rates(shape, measured), strict=True)
    for i, (node, relation, rate) in enumerate(relations):
        feeder = shape.tree[node.parent].label if node.parent >= 0 else None
        met = measured["relations"].get(node.label, {})
        same = (met.get("buckets"), met.get("feeder")) == (node.buckets, feeder)
        if not same or not node.buckets or not met["probes"]:
            continue
        probes = evicted[node.parent] if node.parent >= 0 else float(met["probes"])
        fragments = 1 + edge_rate(node.edges).value * SECOND * measured["seconds"]
        firsts = fragments * occupied(probes / fragments, known.of(relation))  # tuples into groups, as into buckets
        evicted[i] = probes * rate + (1 - rate) * min(probes, firsts)
        found[node.label] = {
            "measured_collisions": met["collisions"] / met["probes"], "probes": met["probes"],
            "evictions": met["collisions"] + met["turnovers"] + met["flushed"],
            "predicted_probes": round(probes), "predicted_evictions": round(evicted[i]),
        }
    return found


def _expressions(shape: Shape) -> dict[str, str]:
    """Attributes that are no columns, by the name that stands for them in the configuration."""
    items = {a.name: a.sql for q in shape.queries for a in q.attributes}
    return {name: sql for name, sql in sorted(items.items()) if name.startswith("expr_")}


def _known(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of the last batch: rows a second, groups of attribute sets, flow length by depth."""
    if not measured:
        return {}
    groups = {"·".join(name.split("\x1f")): count for name, count in measured.get("groups", {}).items()}
    return {"rows_per_second": measured.get("rate"), "groups": groups, "flow_lengths": measured.get("flows", [])}
