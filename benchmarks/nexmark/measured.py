"""What is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Runs = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Sizes:
    """Events of the comparison, of what is measured in one process and warms Flink up, and how often."""

    events: int
    few: int
    rounds: int


@dataclass
class Measured:
    """Runs of each query by side, all queries at once, costs in one process, and rows of the answers."""

    sizes: Sizes
    runs: dict[str, Runs] = field(default_factory=dict)
    together: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
