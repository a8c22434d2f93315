"""Both sides have a process and a Spark session of their own, warmed up on a small input; a measurement is one whole
streaming query over the files, to its last answer: from its statements in Tidemill, from its start in Spark. Bringing
up a session, and Tidemill's job, is not measured as part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks import data
from benchmarks.report import Result
from benchmarks.sides import Side, alternate
from benchmarks.throughput.questions import FILES, FILES_A_BATCH, NAMES, VIEWS, check_equal, last_kept
from benchmarks.throughput.spark_side import HAND, WAYS, SparkSide
from benchmarks.throughput.tidemill_side import TidemillSide

ROUNDS = 3
CUTS = {"same": "same batches", "default": "default batches"}
Way = tuple[str, str]


@dataclass
class Measured:
    """Runs by question, cut into batches and side ("tidemill", "spark", "by hand"); seconds of each way tried."""

    rows: int
    batch_rows: int
    runs: dict[str, dict[str, dict[str, list[Any]]]] = field(default_factory=dict)
    tried: dict[str, dict[Way, float]] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)

    def best(self, work: str) -> Way:
        """The fastest way to ask Spark."""
        return min(self.tried[work], key=self.tried[work].__getitem__)


def compare(quick: bool, steps: Any) -> Result:
    from benchmarks.throughput.page import page

    rows = 2_000_000 if quick else 20_000_000
    folder, small = data.packets(rows, FILES), data.packets(rows // 20, FILES)
    found = Measured(rows, rows * FILES_A_BATCH // FILES)
    cuts = ["same"] if quick else list(CUTS)
    ways = sum(len(WAYS[work]) for work in VIEWS)
    steps.expect(len(VIEWS) + 2 * ways + 1 + (2 * len(VIEWS) + 1) * len(cuts) * ROUNDS)
    with Side(TidemillSide) as ours, Side(SparkSide) as theirs:
        for work in VIEWS:
            _warm(found, ours, theirs, small, work, steps)
            _try(found, theirs, folder, work, steps)
        for work in VIEWS:
            for cut in cuts:
                _turns(found, ours, theirs, folder, work, cut, steps)
    return page(found)


def _warm(found: Measured, ours: Side, theirs: Side, small: str, work: str, steps: Any) -> None:
    """Every way once on a small input."""
    ours.ask("measure", small, work, found.batch_rows // 20)
    steps.done(f"warm-up, {NAMES[work]}")
    for way in [*WAYS[work], *([HAND] if work == "refreshed" else [])]:
        theirs.ask("measure", small, work, FILES_A_BATCH, *way)
        steps.done(f"warm-up, {NAMES[work]}")


def _try(found: Measured, theirs: Side, folder: str, work: str, steps: Any) -> None:
    found.tried[work] = {}
    for way in WAYS[work]:
        found.tried[work][way] = theirs.ask("measure", folder, work, FILES_A_BATCH, *way)["seconds"]
        steps.done("which way is best for Spark")


def _turns(found: Measured, ours: Side, theirs: Side, folder: str, work: str, cut: str, steps: Any) -> None:
    """Rounds of both sides, and their answers against each other."""
    mine, its = (found.batch_rows, FILES_A_BATCH) if cut == "same" else (None, None)
    sides = {
        "tidemill": lambda: ours.ask("measure", folder, work, mine),
        "spark": lambda: theirs.ask("measure", folder, work, its, *found.best(work)),
    }
    if work == "refreshed":
        sides["by hand"] = lambda: theirs.ask("measure", folder, work, its, *HAND)
    runs = alternate(sides, ROUNDS, lambda: steps.done(f"{NAMES[work]}, {CUTS[cut]}"))
    end = last_kept(folder)
    for side in list(runs)[1:]:
        for a, b in zip(runs["tidemill"], runs[side], strict=True):
            assert a["rows"] == b["rows"] == found.rows, (a["rows"], b["rows"], found.rows)
            found.points[work] = _equal(work, a, b, end)
    found.runs.setdefault(work, {})[cut] = runs


def _equal(work: str, ours: dict[str, Any], theirs: dict[str, Any], end: datetime) -> int:
    points = check_equal(work, ours["answer"], theirs["answer"], end)
    assert work == "count" or points > 1, f"{work}: only {points} refresh points"
    return points
