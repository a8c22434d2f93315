"""The cost of a plan's tables, predicted and as counted: c1 for each probe, c2 for each entry that leaves for the
exchange, both for each row; and what the end of a share costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.shape import Settings, Shape, model_for, shares_of


@dataclass(frozen=True)
class Costs:
    """`met` is None where the last batch ran under another plan."""

    tables: float
    met: float | None
    final: float
    peak: float

    @property
    def total(self) -> float:
        return self.tables + self.final


def costs(shape: Shape, measured: Mapping[str, Any], settings: Settings) -> Costs:
    """Of a shape by the statistics as they are now."""
    shares = shares_of(shape, measured)
    model = model_for(shape, shares, settings)
    sizes = [node.buckets for node in shape.tree]
    rates = model.rates(shape.chosen.configuration, sizes)
    fed, emitting = model.fed(shape.chosen.configuration, rates), _emitting_of(shape)
    probes = sum(f for f, node in zip(fed, shape.tree, strict=True) if node.buckets)
    evicted = sum(f * y for f, y, out in zip(fed, rates, emitting, strict=True) if out)
    tables = probes * settings.constants.c1 + evicted * settings.constants.c2
    return Costs(tables, met_cost(shape, measured, settings.constants), shares.final_cost(settings.constants.c1),
                 model.end_cost(shape.chosen.configuration, sizes))


def met_cost(shape: Shape, measured: Mapping[str, Any], constants: Constants) -> float | None:
    """What the tables of the last batch cost for each row; None if they were others."""
    relations, rows = measured.get("relations", {}), measured.get("rows", 0)
    tables = {n.label: n.buckets for n in shape.tree}
    if not rows or {label: r["buckets"] for label, r in relations.items()} != tables:
        return None
    counted = [relations[node.label] for node in shape.tree]
    probes = sum(r["probes"] for r in counted)
    evicted = sum(r["collisions"] + r["turnovers"] + r["flushed"]
                  for r, out in zip(counted, _emitting_of(shape), strict=True) if out)
    return float(probes * constants.c1 + evicted * constants.c2) / rows


def _emitting_of(shape: Shape) -> list[bool]:
    return _emitting([n.parent for n in shape.tree], [bool(n.buckets) for n in shape.tree],
                     [n.store is not None for n in shape.tree])


def _emitting(parents: Sequence[int], tabled: Sequence[bool], emits: Sequence[bool]) -> list[bool]:
    """Tables whose entries leave for the exchange: their own, or those of relations below that have no table.

    >>> _emitting([-1, 0, 0], [True, False, True], [False, True, True])
    [True, False, True]
    """
    found = list(emits)
    for i in reversed(range(len(found))):
        if not tabled[i] and found[i]:
            found[i], found[parents[i]] = False, True
    return found
