"""Reports of the job: one summary for each micro-batch, and what a run makes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from tidemill.engine.results import RunSummary
from tidemill.engine.show.input_warnings import input_warnings
from tidemill.engine.show.lateness import late_warnings
from tidemill.runtime.messages.source_counts import TallyCounts
from tidemill.runtime.views.batch_summary import BatchReport


class BatchReports:
    """The last report, and a way to wait for the next one."""

    def __init__(self) -> None:
        self.last: BatchReport = {}
        self._arrived = threading.Condition()
        self._at = 0.0

    def add(self, report: BatchReport) -> None:
        """Take in a report; it gets the seconds since the one before."""
        now = time.monotonic()  # the wall clock may be set while the job runs
        report["batch_seconds"] = now - self._at if self.last else report["stage_seconds"]
        self._at = now
        with self._arrived:
            self.last = report
            self._arrived.notify_all()

    def wake(self) -> None:
        """Let waiting threads look again."""
        with self._arrived:
            self._arrived.notify_all()

    def wait(self, seconds: float, reached: Callable[[], bool]) -> None:
        """Wait for the next report unless `reached` holds."""
        with self._arrived:
            if not reached():
                self._arrived.wait(seconds)


def describe_progress(seen: list[BatchReport], began: float) -> dict[str, Any]:
    """What `run(progress=…)` is told after each batch: its report, rows so far, rows a second."""
    last = seen[-1]
    total = sum(t["rows"] for s in seen for t in _tallies(s).values())
    seconds = max(time.monotonic() - began, 1e-6)
    return {
        **last,
        "lfta": {source: asdict(counts) for source, counts in last["lfta"].items()},
        "joins": {op: [asdict(counts) for counts in found] for op, found in last["joins"].items()},
        "rows": sum(t["rows"] for t in _tallies(last).values()),
        "total_rows": total,
        "rows_per_second": total / seconds,
    }


def summarize_run(seen: list[BatchReport], began: float, stopped: list[str]) -> RunSummary:
    """Batches, rows and warnings of a finite run; `stopped` has a sentence for each view that has stopped."""
    tallies = [_tallies(s) for s in seen]

    def total(what: Literal["rows", "late", "bad"]) -> int:
        return sum(t[what] for tally in tallies for t in tally.values())

    return RunSummary(
        len(seen),
        total("rows"),
        time.monotonic() - began,
        total("late"),
        total("bad"),
        (*late_warnings(tallies, _newest_times(seen)), *input_warnings(tallies), *stopped),
    )


def stopped_text(view: str, reason: str) -> str:
    """What the summary of a run says of a view that has stopped."""
    return f"view {view} has stopped: {reason.splitlines()[0][:200]}"


def _tallies(report: BatchReport) -> dict[str, TallyCounts]:
    """What was read of each source in a batch, without second readings of rows that were counted before."""
    second = {name for name, entry in report.get("sources", {}).items() if "behind" in entry}
    return {name: tally for name, tally in report["tallies"].items() if name not in second}


def _newest_times(seen: list[BatchReport]) -> dict[str, int]:
    """The greatest time of each source after these batches."""
    return {name: entry["top"] for name, entry in seen[-1]["sources"].items()} if seen else {}
