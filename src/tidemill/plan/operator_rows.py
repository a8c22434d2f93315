"""Rows of operators, counted while they run or predicted by a cost model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Flow(NamedTuple):
    """Rows that reach an operator and rows that leave it; None where that is not known."""

    rows_in: float | None
    rows_out: float | None


@dataclass(frozen=True)
class OperatorRows:
    """What an operator of a running plan did since it was first counted. `seconds` is None for one that runs inside the
    SQL statement of the operator above it.
    """

    counted: Flow
    seconds: float | None = None
    predicted: Flow | None = None
