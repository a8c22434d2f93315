"""Every plan of an aggregation join and its cost: the numbers behind EXPLAIN."""

from __future__ import annotations

from typing import Any

from tidemill.optimize.joins.decide import Decision, JoinSettings, decide, forced_plan, model_of
from tidemill.optimize.joins.plans import Model, plans
from tidemill.optimize.joins.stored_statistics import JoinStatistics
from tidemill.plan.aggregation_joins import JoinAnalysis, Side, analyze_join, partition
from tidemill.plan.relations import JoinAggregate


def report(name: str, node: JoinAggregate, settings: JoinSettings) -> dict[str, Any]:
    """One aggregation join: its inputs, its plans, the one in force, and its measured statistics."""
    found = analyze_join(node)
    decision = decide(node, found, settings)
    model = model_of(node, found, settings)
    known = settings.statistics.get(node.fingerprint)
    chosen = settings.plans[node.fingerprint]
    labels = node.labels
    return {
        "view": name,
        "statistics": "measured" if known else "assumed",
        "plan": chosen,
        "asked": bool(forced_plan(settings.mode, len(node.inputs))),
        "method": decision.method,
        "split": [sorted(c) for c in partition(node, found)],
        "spread": None if node.spread is None else labels[node.spread],
        "hot": [
            {"key": h.text or str(h.hash), "input": labels[h.input], "split": h.split}
            for h in settings.hot.get(node.fingerprint, ())
        ],
        "inputs": _describe_inputs(node, found, decision, model, known),
        "plans": _describe_plans(model, chosen),
        **({"pairs": known["pairs"], "groups": known["groups"]} if known else {}),
    }


def _describe_inputs(
    node: JoinAggregate, found: JoinAnalysis, decision: Decision, model: Model, known: JoinStatistics | None
) -> list[dict[str, Any]]:
    labels, split = node.labels, partition(node, found)
    return [
        {
            "input": label,
            "early": decision.early[i],
            "kept": [c.name for c in side.keys],
            "folded": [c.name for c in side.folded],
            "order": [labels[j] for j in decision.orders[i]],
            "copied": i != node.spread if node.spread is not None else not _is_split(side, split),
            "rate": stream.rate,
            "window": stream.window,
            "set": model.parameters.alphas[i],
            "matches": model.parameters.m[i],
            "set_matches": model.parameters.n[i],
            **({"measured": known["inputs"][i]} if known else {}),
        }
        for i, (label, side, stream) in enumerate(zip(labels, found.sides, model.streams, strict=True))
    ]


def _is_split(side: Side, split: tuple[frozenset[str], ...]) -> bool:
    """Whether the rows of an input are divided among the shards: it has a column of every partitioning class."""
    return all(c & {k.name for k in side.keys} for c in split)


def _describe_plans(model: Model, chosen: str) -> list[dict[str, Any]]:
    """All plans that were compared, with the one in force."""
    considered = plans(model)
    if chosen not in {p.plan for p in considered}:
        considered.append(model.price(chosen))
    return [
        {
            "plan": p.name,
            "bits": p.plan,
            "time": p.time,
            "state": p.space,
            "network": p.network,
            "cost": p.cost,
            "chosen": p.plan == chosen,
        }
        for p in considered
    ]
