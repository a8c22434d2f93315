"""What the comparison of joins reads and measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

SPARSE, DENSE, AUCTIONS = "J1 sparse", "J1 dense", "J2"
UNDER_SPARK, IN_ONE_PROCESS, SUSTAINED = "under Spark", "in one process", "under Spark, sustained"
Run = dict[str, Any]


@dataclass(frozen=True)
class Input:
    """A folder with all streams of a work, and how many rows they have together."""

    folder: str
    rows: int
    pairs: int | None = None


@dataclass(frozen=True)
class Case:
    """A work over inputs of one kind: `base`, its beginning `short` for the sides that would take minutes, `long` for
    those that take seconds, `small` to warm up and to try settings."""

    name: str
    work: str
    base: Input
    short: Input
    long: Input
    small: Input


@dataclass
class Figures:
    """Runs by case and side. A side is "Tidemill", or a peer and the way it was asked, as "Spark, by hand"."""

    cases: dict[str, Case]
    rounds: int
    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    long: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    plans: dict[str, dict[str, dict[str, list[Run]]]] = field(default_factory=dict)
    windows: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    loaded: dict[str, dict[int, int]] = field(default_factory=dict)
    matches: dict[int, int] = field(default_factory=dict)
    state: dict[int, dict[str, Run]] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    tried: list[list[Any]] = field(default_factory=list)
    ways: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, case: str, side: str, run: Run) -> None:
        """A run says over how many rows it went."""
        assert run["rows"] and run["seconds"], run
        self.runs.setdefault(case, {}).setdefault(side, []).append(run)

    def way(self, case: str, side: str, how: str) -> None:
        """How a side was set up for a case."""
        self.ways.setdefault(case, {})[side] = how

    def rate(self, case: str, side: str) -> float | None:
        """Rows per second of the whole query, start included; None when the side did not run."""
        found = self.runs.get(case, {}).get(side)
        return median(r["rows"] / r["seconds"] for r in found) if found else None

    def steady(self, case: str, side: str) -> float | None:
        """Rows per second without the start: Tidemill between micro-batches of the long input, Flink's job without
        planning and submission. The others are as they are."""
        if side == "Tidemill":
            return median(r["sustained"] for r in self.long[case][side])
        found = self.runs.get(case, {}).get(side)
        return median(r["rows"] / r.get("job", r["seconds"]) for r in found) if found else None

    def pace(self, where: str, case: str, plan: str) -> float:
        """Rows per second of a plan: of the whole query, or between the micro-batches of the long input.

        >>> base, long = Input("", 100), Input("", 900)
        >>> late, auto = [{"seconds": 2.0, "sustained": 8.0}], [{"seconds": 1.0, "sustained": 96.0}]
        >>> runs = {DENSE: {"late": late, "auto": auto}}
        >>> found = Figures({DENSE: Case(DENSE, "J1", base, base, long, base)}, 1)
        >>> found.plans = {UNDER_SPARK: runs, SUSTAINED: runs}
        >>> found.pace(UNDER_SPARK, DENSE, "late"), found.early_to_late(UNDER_SPARK, DENSE)
        (50.0, 2.0)
        >>> found.pace(SUSTAINED, DENSE, "late"), found.early_to_late(SUSTAINED, DENSE)
        (8.0, 12.0)
        """
        found, rows = self.plans[where][case][plan], self.given(where, case).rows
        return median(r["sustained"] if where == SUSTAINED else rows / r["seconds"] for r in found)

    def early_to_late(self, where: str, case: str) -> float:
        """How many times as fast the plan that costs least is as the late one."""
        return self.pace(where, case, "auto") / self.pace(where, case, "late")

    def given(self, where: str, case: str) -> Input:
        """What the plans were compared on."""
        return self.cases[case].long if where == SUSTAINED else self.cases[case].base
