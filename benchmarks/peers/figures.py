"""What the comparison measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class Figures:
    """Runs by work and side. A side is "tidemill", "flink", or a way to write the work for DuckDB or Spark."""

    rows: int
    long_rows: int
    rounds: int
    runs: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    long: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    many: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    many_queries: int = 0
    many_slides: str = ""
    mixture: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    mixture_sample: int = 0  # queries that DuckDB answered
    compared: dict[str, int] = field(default_factory=dict)
    tried: list[list[Any]] = field(default_factory=list)
    ways: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, work: str, side: str, run: dict[str, Any]) -> None:
        self.runs.setdefault(work, {}).setdefault(side, []).append(run)

    def way(self, work: str, side: str, how: str) -> None:
        """How a side was set up for a work."""
        self.ways.setdefault(work, {})[side] = how

    def rate(self, work: str, side: str) -> float | None:
        """Rows per second of the whole query over the trace, start included; None when the side did not run."""
        found = self.runs.get(work, {}).get(side)
        return self.rows / median(r["seconds"] for r in found) if found else None

    def steady(self, work: str, side: str) -> float | None:
        """Rows per second without the start: Tidemill between micro-batches, and DuckDB, on the long trace where they
        ran over it; Flink's job without planning and submission. Spark's start is a small part of its run."""
        if side == "tidemill":
            return median(r["sustained"] for r in self.long[work][side])
        if side in self.long[work]:
            return self.long_rows / median(r["seconds"] for r in self.long[work][side])
        found = self.runs.get(work, {}).get(side)
        return self.rows / median(r.get("job", r["seconds"]) for r in found) if found else None
