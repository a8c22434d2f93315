"""What the tables of a source really cost in a batch, in the unit of the prediction (paper 002, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.optimize.share.phantoms.cost import Constants


def measured_cost(relations: Sequence[Mapping[str, Any]], note: Mapping[str, Any], constants: Constants) -> float:
    """For each row: c1 for every probe, c2 for every entry that a relation evicts to the exchange.

    `relations` are those of the plan the batch ran under, `note` what its readers counted.

    >>> tables = [{"emits": -1}, {"emits": 0}]
    >>> measured_cost(tables, {"rows": 10, "relations": [[10, 1, 1, 2], [4, 1, 0, 1]]}, Constants(1, 15))  # 14 + 2 · 15
    4.4
    """
    probes = sum(p for p, *_ in note["relations"])
    evicted = sum(c + t + f for r, (_, c, t, f) in zip(relations, note["relations"], strict=True) if r["emits"] >= 0)
    return float(constants.c1 * probes + constants.c2 * evicted) / max(1, int(note["rows"]))
