"""Every plan of an aggregation join with what it would cost: the numbers behind EXPLAIN."""

from __future__ import annotations

from typing import Any

from tidemill.optimize.joins.decide import JoinSettings, decide, forced, model_of
from tidemill.optimize.joins.plans import plans
from tidemill.plan.aggregation_joins import Side, meeting, partition
from tidemill.plan.relations import JoinAggregate


def _split(side: Side, split: tuple[frozenset[str], ...]) -> bool:
    return all(c & {k.name for k in side.keys} for c in split)


def report(name: str, node: JoinAggregate, settings: JoinSettings) -> dict[str, Any]:
    """One aggregation join: its inputs, its plans, the one in force, and what was measured."""
    found = meeting(node)
    decision = decide(node, found, settings)
    model = model_of(node, found, settings)
    known = settings.statistics.get(node.fingerprint)
    chosen = settings.plans[node.fingerprint]
    labels = node.labels
    split = partition(node, found)
    considered = plans(model)
    if chosen not in {p.plan for p in considered}:
        considered.append(model.planned(chosen))
    return {
        "view": name, "statistics": "measured" if known else "assumed",
        "plan": chosen, "asked": bool(forced(settings.mode, len(node.inputs))), "method": decision.method,
        "split": [sorted(c) for c in split], "spread": None if node.spread is None else labels[node.spread],
        "hot": [{"key": h.text or str(h.hash), "input": labels[h.input], "split": h.split}
                for h in settings.hot.get(node.fingerprint, ())],
        "inputs": [{
            "input": label, "early": decision.early[i],
            "kept": [c.name for c in side.keys], "folded": [c.name for c in side.folded],
            "order": [labels[j] for j in decision.orders[i]],
            "copied": i != node.spread if node.spread is not None else not _split(side, split),
            "rate": stream.rate, "window": stream.window, "set": model.parameters.alphas[i],
            "matches": model.parameters.m[i], "set_matches": model.parameters.n[i],
            **({"measured": known["inputs"][i]} if known else {}),
        } for i, (label, side, stream) in enumerate(zip(labels, found.sides, model.streams, strict=True))],
        "plans": [{"plan": p.name, "bits": p.plan, "time": p.time, "state": p.space, "network": p.network,
                   "cost": p.cost, "chosen": p.plan == chosen} for p in considered],
        **({"pairs": known["pairs"], "groups": known["groups"]} if known else {}),
    }
