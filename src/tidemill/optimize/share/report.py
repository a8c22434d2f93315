"""How the window aggregates of a source are shared, and the alternatives: the numbers behind EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidemill.optimize.share.costs import plan_costs
from tidemill.optimize.share.reader_plan import (
    ReaderPlan,
    Settings,
    Weaving,
    bucket_units,
    model_for,
    plan_reader,
    shares_of,
)
from tidemill.optimize.share.stored_statistics import WindowStatistics
from tidemill.optimize.share.stream_statistics import SECOND
from tidemill.optimize.share.weaving.edges import edge_rate, edges_of

_MANY = 150  # with more queries, the unshared plan is priced without phantoms only
_NAMES: dict[Weaving, str] = {
    "unshared": "unshared",
    "shared": "Shared",
    "weave_share": "Weave Share",
    "gtweave": "TriWeave",
}
Counts = dict[str, dict[str, Any]]  # by relation


def report(source: str, plan: ReaderPlan, settings: Settings, names: Mapping[str, str]) -> dict[str, Any]:
    """Everything about one source. `names` has the view of each query."""
    measured = settings.statistics.get(source, {})
    now = plan_costs(plan, measured, settings)
    return {
        "source": source,
        "queries": len(plan.queries),
        "configuration": str(plan.chosen.configuration),
        "attributes": _named_expressions(plan),
        "group_by_tree": plan.group_tree,
        "memory_units": settings.memory,
        "relations": _describe_relations(plan, measured, settings),
        "weaved_groups": _describe_groups(plan, names),
        "cost": now.total,
        "tables_cost": now.tables,
        "measured_cost": now.met,
        "final_cost": now.final,
        "peak_load": now.peak,
        "peak_limit": settings.method.peak,
        "alternatives": price_alternatives(source, plan, settings),
        "statistics": "measured" if measured.get("relations") else "assumed",
        "known": _describe_statistics(measured),
    }


def _describe_relations(plan: ReaderPlan, measured: WindowStatistics, settings: Settings) -> list[dict[str, Any]]:
    """Each relation with its table, its predicted eviction rate and, if it ran, its counts."""
    rates, counts = predicted_rates(plan, measured, settings), compare_counts(plan, measured, settings)
    depths: list[int] = []
    found = []
    for i, (node, predicted) in enumerate(zip(plan.tree, rates, strict=True)):
        depths.append(1 if node.parent < 0 else depths[node.parent] + 1)
        found.append(
            {
                "relation": node.label,
                "depth": depths[-1],
                "feeds": sum(n.parent == i for n in plan.tree),
                "queries": len(node.queries),
                "buckets": node.buckets,
                "bytes": 4 * node.buckets * bucket_units(len(node.attributes), plan.parts),
                "edges_per_second": edge_rate(node.edges).value * SECOND,
                "predicted_evicted": predicted,
                **counts.get(node.label, {}),
            }
        )
    return found


def _describe_groups(plan: ReaderPlan, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The views of each weaved group and the rate of its edges."""
    windows = {q.id: q.window for q in plan.queries}
    return [
        {
            "queries": sorted(names.get(q, q) for q in group),
            "edges_per_second": edge_rate(edges_of(windows[q] for q in group)).value * SECOND,
        }
        for group in plan.groups
    ]


def price_alternatives(source: str, plan: ReaderPlan, settings: Settings) -> list[dict[str, Any]]:
    """The predicted cost for each row of every way to weave, with and without phantoms."""
    found = []
    for weaving, name in _NAMES.items():
        for phantoms in (False, True):
            if phantoms and weaving == "unshared" and len(plan.queries) > _MANY:
                continue
            trial = replace(
                settings, weaving=weaving, phantoms=phantoms, pinned=False, held=False, reader_plans={}, stored_plans={}
            )
            other = plan_reader(source, plan.queries, plan.parts, trial)
            found.append(
                {
                    "plan": name,
                    "phantoms": phantoms,
                    "cost": other.cost,
                    "configuration": str(other.chosen.configuration),
                    "weaved_groups": len(other.groups),
                }
            )
    return found


def predicted_rates(plan: ReaderPlan, measured: WindowStatistics, settings: Settings) -> list[float]:
    """Entries that each table evicts for each probe, by the current statistics; a relation without a table evicts one
    for each key.
    """
    model = model_for(plan, shares_of(plan, measured), settings)
    return model.rates(plan.chosen.configuration, [node.buckets for node in plan.tree])


def compare_counts(plan: ReaderPlan, measured: WindowStatistics, settings: Settings) -> Counts:
    """The counts of the last batch for the tables of this plan, each beside the prediction of the model.

    A table that had another feeder or another size in the last batch has no counts. The prediction starts from the
    counted rows of the raw relations.
    """
    found: Counts = {}
    if not measured.get("relations"):
        return found
    model = model_for(plan, shares_of(plan, measured), settings)
    rates, evicted = predicted_rates(plan, measured, settings), [0.0] * len(plan.tree)
    shares = model.stream(plan.chosen.configuration).shares
    for i, node in enumerate(plan.tree):
        feeder = plan.tree[node.parent].label if node.parent >= 0 else None
        met = measured["relations"].get(node.label)
        if met is None or (met["buckets"], met["feeder"]) != (node.buckets, feeder):
            continue
        if not node.buckets or not met["probes"]:
            continue
        probes = shares[i] * evicted[node.parent] if node.parent >= 0 else float(met["probes"])
        evicted[i] = probes * rates[i]
        entries = met["collisions"] + met["turnovers"] + met["flushed"]
        found[node.label] = {
            "measured_evicted": entries / met["probes"],
            "probes": met["probes"],
            "evictions": entries,
            "predicted_probes": round(probes),
            "predicted_evictions": round(evicted[i]),
        }
    return found


def _named_expressions(plan: ReaderPlan) -> dict[str, str]:
    """Attributes that are expressions, by their name in the configuration."""
    items = {a.name: a.sql for q in plan.queries for a in q.attributes}
    return {name: sql for name, sql in sorted(items.items()) if name.startswith("expr_")}


def _describe_statistics(measured: WindowStatistics) -> dict[str, Any]:
    """Statistics of the last batch: rows a second and in a share, groups of attribute sets, flow length by depth."""
    if not measured:
        return {}
    groups = {"·".join(name.split("\x1f")): count for name, count in measured.get("groups", {}).items()}
    return {
        "rows_per_second": measured.get("rate"),
        "rows_per_share": measured["share"][0] if measured.get("share") else None,
        "groups": groups,
        "flow_lengths": measured.get("flows", []),
    }
