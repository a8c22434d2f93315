"""How the window aggregates of a source are shared, and what else was possible: the numbers behind EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.optimize.share.shape import SECOND, Settings, Shape, Weaving, bucket_units, shape_of
from tidemill.optimize.share.weaving.edges import edge_rate, edges_of

_MANY = 150  # queries beyond which one leaf for each is only priced without phantoms
_NAMES: dict[Weaving, str] = {
    "unshared": "unshared", "shared": "Shared", "weave_share": "Weave Share", "gtweave": "TriWeave",
}


def report(source: str, shape: Shape, settings: Settings, names: Mapping[str, str]) -> dict[str, Any]:
    """Everything about one source. `names` says for each query the view it belongs to."""
    measured = settings.statistics.get(source, {}).get("relations", {})
    windows = {q.id: q.window for q in shape.queries}
    depths: list[int] = []
    relations = []
    for node, predicted in zip(shape.tree, shape.chosen.rates.values(), strict=True):
        depths.append(1 if node.parent < 0 else depths[node.parent] + 1)
        relations.append({
            "relation": node.label, "depth": depths[-1], "feeds": len([n for n in shape.tree if n.parent >= 0 and
                                                                      shape.tree[n.parent] is node]),
            "queries": len(node.queries), "buckets": node.buckets,
            "bytes": 4 * node.buckets * bucket_units(len(node.attributes), shape.parts),
            "edges_per_second": edge_rate(node.edges).value * SECOND,
            "predicted_collisions": predicted, **_measured(measured.get(node.label)),
        })
    return {
        "source": source, "queries": len(shape.queries), "configuration": str(shape.chosen.configuration),
        "group_by_tree": str(shape.woven.tree) if shape.woven else _one_level(shape),
        "memory_units": settings.memory, "relations": relations,
        "weaved_groups": [{
            "queries": sorted(names.get(q, q) for q in group),
            "edges_per_second": edge_rate(edges_of(windows[q] for q in group)).value * SECOND,
        } for group in shape.groups],
        "cost": shape.cost, "alternatives": alternatives(source, shape, settings),
        "statistics": "measured" if measured else "assumed",
    }


def alternatives(source: str, shape: Shape, settings: Settings) -> list[dict[str, Any]]:
    """The predicted cost for each row of every way to weave, with and without phantoms."""
    found = []
    for weaving, name in _NAMES.items():
        for phantoms in (False, True):
            if phantoms and weaving == "unshared" and len(shape.queries) > _MANY:
                continue
            trial = replace(settings, weaving=weaving, phantoms=phantoms, pinned=False, shapes={})
            other = shape_of(source, shape.queries, shape.parts, trial)
            found.append({"plan": name, "phantoms": phantoms, "cost": other.cost,
                          "configuration": str(other.chosen.configuration), "weaved_groups": len(other.groups)})
    return found


def _measured(counted: Mapping[str, int] | None) -> dict[str, Any]:
    if not counted or not counted["probes"]:
        return {}
    return {"measured_collisions": counted["collisions"] / counted["probes"], "probes": counted["probes"],
            "evictions": counted["collisions"] + counted["turnovers"] + counted["flushed"]}


def _one_level(shape: Shape) -> str:
    return " ".join(sorted({"·".join(q.names) for q in shape.queries}))


