"""The cost of a plan's tables, predicted and measured: c1 for each probe and c2 for each entry sent to the exchange,
per row; and the cost at the end of a share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.reader_plan import ReaderPlan, Settings, model_for, shares_of
from tidemill.optimize.share.stored_statistics import WindowStatistics


@dataclass(frozen=True)
class Costs:
    """Costs per row, and the `peak` at the end of a share. `met` is measured; None if another plan ran last."""

    tables: float
    met: float | None
    final: float
    peak: float

    @property
    def total(self) -> float:
        return self.tables + self.final


def plan_costs(plan: ReaderPlan, measured: WindowStatistics, settings: Settings) -> Costs:
    """The costs of a plan by the given statistics."""
    shares = shares_of(plan, measured)
    model = model_for(plan, shares, settings)
    sizes = [node.buckets for node in plan.tree]
    rates = model.rates(plan.chosen.configuration, sizes)
    fed, emitting = model.feed_rates(plan.chosen.configuration, rates), _emitting_tables(plan)
    probes = sum(f for f, node in zip(fed, plan.tree, strict=True) if node.buckets)
    evicted = sum(f * y for f, y, out in zip(fed, rates, emitting, strict=True) if out)
    tables = probes * settings.constants.c1 + evicted * settings.constants.c2
    return Costs(
        tables,
        measured_cost(plan, measured, settings.constants),
        shares.final_cost(settings.constants.c1),
        model.end_cost(plan.chosen.configuration, sizes),
    )


def measured_cost(plan: ReaderPlan, measured: WindowStatistics, constants: Constants) -> float | None:
    """The cost per row of the tables in the last batch; None if that batch had other tables."""
    relations, rows = measured.get("relations", {}), measured.get("rows", 0)
    tables = {n.label: n.buckets for n in plan.tree}
    if not rows or {label: r["buckets"] for label, r in relations.items()} != tables:
        return None
    counted = [relations[node.label] for node in plan.tree]
    probes = sum(r["probes"] for r in counted)
    evicted = sum(
        r["collisions"] + r["turnovers"] + r["flushed"]
        for r, out in zip(counted, _emitting_tables(plan), strict=True)
        if out
    )
    return float(probes * constants.c1 + evicted * constants.c2) / rows


def _emitting_tables(plan: ReaderPlan) -> list[bool]:
    return _find_emitting(
        [n.parent for n in plan.tree], [bool(n.buckets) for n in plan.tree], [n.store is not None for n in plan.tree]
    )


def _find_emitting(parents: Sequence[int], tabled: Sequence[bool], emits: Sequence[bool]) -> list[bool]:
    """Whether each table sends entries to the exchange: its own, or those of relations below without a table.

    >>> _find_emitting([-1, 0, 0], [True, False, True], [False, True, True])
    [True, False, True]
    """
    found = list(emits)
    for i in reversed(range(len(found))):
        if not tabled[i] and found[i]:
            found[i], found[parents[i]] = False, True
    return found
