"""From what the readers counted to the statistics of the next plan (paper 002, sections 4.1 and 5.3).

Group counts come from sketches over a block of rows of the batch before, the flow length of each depth from the
collisions that really happened: l_m = (rate by equation 13) / (measured rate), averaged over the relations of the
depth.

How many groups share a bucket is a matter of chance: where n = g (g - 1) / 2b pairs do so on average, n - √n or fewer
often do, and the table collides less than equation 13 says without any flow. As much is taken off the length: a table
of few groups that was lucky would else promise that every table of its depth, even one of a single bucket, holds rows
back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.optimize.share.phantoms.collisions import collision_rate, flow_length
from tidemill.optimize.share.shape import SECOND, Settings, Shape, cost_now, shape_of

MARGIN = 0.2  # a new plan must be cheaper by this share to be worth a change
_HELD_BACK = 0.25  # a table that evicts fewer entries than this for each row does all that a table can do
_DEVIATIONS = 2.0
_SEEN, _MET = 1_000, 30  # probes and collisions below which a rate says little


def statistics(relations: Sequence[Mapping[str, Any]], attributes: Sequence[str], note: Mapping[str, Any],
               before: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics of a source after a batch. `relations` are those of the plan the batch ran under, `note` what its
    readers counted.
    """
    if not note["rows"]:
        return dict(before)
    groups = {"\x1f".join(sorted(attributes[i] for i in numbers)): count for numbers, count in note["groups"]}
    span = max(1, note["last"] - note["first"])
    return {
        "groups": groups, "tuples": float(note["tuples"]), "rate": note["rows"] * SECOND / span,
        "seconds": span / SECOND, "flows": _flows(relations, attributes, note["relations"], groups),
        "relations": {
            r["label"]: {
                "probes": p, "collisions": c, "turnovers": t, "flushed": f, "buckets": r["buckets"],
                "feeder": relations[r["parent"]]["label"] if r["parent"] >= 0 else None,
            } for r, (p, c, t, f) in zip(relations, note["relations"], strict=True)
        },
    }


def _flows(relations: Sequence[Mapping[str, Any]], attributes: Sequence[str], counted: Sequence[Sequence[int]],
           groups: Mapping[str, float]) -> list[float]:
    depths: list[int] = []
    found: dict[int, list[float]] = {}
    for relation, (probes, collisions, _, _) in zip(relations, counted, strict=True):
        depth = 1 if relation["parent"] < 0 else depths[relation["parent"]] + 1
        depths.append(depth)
        g = groups.get("\x1f".join(sorted(attributes[i] for i in relation["attributes"])))
        if g is None or probes < _SEEN or collisions < _MET or collision_rate(g, relation["buckets"]) < 1e-6:
            continue  # a relation without a table has no probes
        found.setdefault(depth, []).append(certain_flow(g, relation["buckets"], collisions / probes))
    flows = [1.0] * max(depths, default=1)
    for depth, lengths in found.items():
        flows[depth - 1] = max(1.0, sum(lengths) / len(lengths))
    return flows


def certain_flow(groups: float, buckets: int, met: float) -> float:
    """l_m as far as chance does not explain it: as if two deviations fewer pairs than usual shared a bucket.

    >>> certain_flow(61, 249, met=0.0655)  # 7 pairs: a rate of 0.11 was expected, but this may be luck
    1.0
    >>> round(certain_flow(2000, 1000, met=0.05), 1)  # 2,000 pairs: eleven times fewer collisions are no luck
    10.8
    """
    pairs = groups * (groups - 1) / (2 * buckets)
    usual = 1 - _DEVIATIONS / math.sqrt(pairs) if pairs > 0 else 0.0
    return max(1.0, usual * flow_length(groups, buckets, met)) if usual > 0 else 1.0


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


def worth_changing(source: str, shape: Shape, settings: Settings) -> bool:
    """True when another plan is cheaper by the margin, by the statistics as they are now."""
    if settings.pinned or settled(shape, settings.statistics.get(source, {})):
        return False
    now = cost_now(shape, settings.statistics.get(source, {}), settings)
    other = shape_of(source, shape.queries, shape.parts, settings.copy(held=False))
    return other.cost < (1 - MARGIN) * now
