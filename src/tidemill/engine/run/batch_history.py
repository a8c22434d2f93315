"""The last micro-batches of this process, for people who watch: how long each took and what its operators did.

Nothing here is stored. Totals since the process began are kept for counters, the newest batches for lists, and what
operators did in the last seconds as rates.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidemill.runtime.views.batch_summary import BatchReport

KEPT = 300  # batches that the console draws: some minutes of a live job
RECENT_S = 15.0  # over which rates are averages: several batches, and a change is soon seen
PARTS = ("total", "stage", "outlet")
# Of a histogram: those of Prometheus clients, and up to five minutes.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds


@dataclass
class Durations:
    """A histogram: how many batches took at most each of `BOUNDS` seconds, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0

    def add(self, seconds: float) -> None:
        """
        >>> found = Durations(); found.add(0.01); found.add(400); found.counts[0], found.counts[-1], found.sum
        (1, 1, 400.01)
        """
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(upper bound, batches up to it), as Prometheus has it."""
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            yield bound, total


class OperatorRate(NamedTuple):
    """Rows a second, and the share of all time that operators took."""

    rows_in: float
    rows_out: float
    share: float


class BatchHistory:
    """Fed with the report of every batch, from the thread that runs it; read from others."""

    def __init__(self) -> None:
        self.durations = {part: Durations() for part in PARTS}
        self._batches: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._recent: deque[tuple[float, float, dict[str, Any]]] = deque()  # (when, seconds, operators)
        self._lock = threading.Lock()

    def add(self, report: BatchReport) -> None:
        """Take in a report that has its length already."""
        now = time.monotonic()
        with self._lock:
            spent = (report["batch_seconds"], report["stage_seconds"], report["outlet_seconds"])
            for part, seconds in zip(PARTS, spent, strict=True):
                self.durations[part].add(seconds)
            self._batches.append(_describe(report))
            self._recent.append((now, report["batch_seconds"], report["operators"]))
            while now - self._recent[0][0] > RECENT_S:
                self._recent.popleft()

    def newest(self, count: int = KEPT) -> list[dict[str, Any]]:
        """The last batches, the newest first."""
        with self._lock:
            return list(reversed(self._batches))[:count]

    def operator_rates(self) -> dict[str, OperatorRate]:
        """What operators did in the last seconds, by their id; nothing where no batch has ended since."""
        with self._lock:
            recent = [r for r in self._recent if time.monotonic() - r[0] <= RECENT_S]
        span = sum(seconds for _, seconds, _ in recent)
        sums: dict[str, list[float]] = {}
        for _, _, operators in recent:
            for op, count in operators.items():
                total = sums.setdefault(op, [0.0, 0.0, 0.0])
                for i in range(3):
                    total[i] += count[i]
        spent = sum(total[2] for total in sums.values())
        return {
            op: OperatorRate(a / span if span else 0.0, b / span if span else 0.0, s / spent if spent else 0.0)
            for op, (a, b, s) in sums.items()
        }


def _describe(report: BatchReport) -> dict[str, Any]:
    tallies = report["tallies"].values()
    return {
        "batch": report["batch"],
        "plan": report["plan"],
        "at": report["at"],
        "seconds": report["batch_seconds"],
        "stage_seconds": report["stage_seconds"],
        "outlet_seconds": report["outlet_seconds"],
        **{what: sum(tally.get(what, 0) for tally in tallies) for what in ("rows", "late", "bad")},
        "state_rows": report["state_rows"],
        "state_bytes": report["state_bytes"],
    }
