"""What the operators of the plan did since they were first counted: rows in, rows out, time.

The counts of every batch come with its report. They are kept in a file beside the catalog, which is written from time
to time and when the job ends: what a crash loses is statistics, and no answer depends on them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from tidemill.errors import TidemillError
from tidemill.optimize.views.streams import Counted
from tidemill.runtime.messages.operator_counts import Counts, OperatorCount, add_count
from tidemill.runtime.paths import read_json, write_json
from tidemill.runtime.views.batch_summary import BatchReport

_WRITE_S = 10.0  # at least, between two writes while the job runs: one takes 1 ms of processor time for 1,000 operators


class OperatorTotals:
    """The counts of all operators, and the event time (in microseconds) up to which each was not counted yet."""

    def __init__(self, path: str, database: str) -> None:
        self._path, self._database = path, database
        found = self._read()
        self.counts: Counts = {op: OperatorCount(*count) for op, count in found.get("operators", {}).items()}
        self.since: dict[str, int] = {op: int(time) for op, time in found.get("since", {}).items()}
        self.until: int | None = found.get("until")
        self._written, self._has_unsaved = 0.0, False

    def add(self, report: BatchReport) -> None:
        """Take in the report of a batch."""
        before, self.until = self.until, _latest_time(report, self.until)
        begin = before if before is not None else _first_time(report)
        for op, count in report["operators"].items():
            if op not in self.counts and begin is not None:
                self.since[op] = begin
            add_count(self.counts, op, OperatorCount(*count))
        self._has_unsaved |= bool(report["operators"])

    def seconds_of(self, op: str) -> float:
        """Seconds of event time in which an operator was counted; 0 where that is not known."""
        if op not in self.since or self.until is None:
            return 0.0
        return max(0, self.until - self.since[op]) / 1e6

    def count_of(self, op: str) -> Counted | None:
        """What the cost model knows of an operator; None where it was not counted."""
        count = self.counts.get(op)
        return None if count is None else Counted(count.rows_in, count.growth, self.seconds_of(op), count.rows_out)

    def rate_in(self, op: str) -> float | None:
        """Rows that reach an operator in a second of event time; None where that is not known."""
        return self._rate(op, 0)

    def rate_out(self, op: str) -> float | None:
        """Rows that leave an operator in a second of event time; None where that is not known."""
        return self._rate(op, 1)

    def _rate(self, op: str, which: int) -> float | None:
        seconds = self.seconds_of(op)
        return self.counts[op][which] / seconds if op in self.counts and seconds > 0 else None

    def forget(self, live: Collection[str]) -> None:
        """Drop operators that are in no plan any more."""
        known: dict[str, Any]
        for known in (self.counts, self.since):
            for gone in [op for op in known if op not in live]:
                del known[gone]

    def save_if_due(self) -> None:
        """Write the file, unless that was done a short while ago."""
        if time.monotonic() - self._written > _WRITE_S:
            self.save()

    def save(self) -> None:
        """Write the file if there is something new."""
        if self._has_unsaved:
            self._written, self._has_unsaved = time.monotonic(), False
            found = {"operators": self.counts, "since": self.since, "until": self.until}
            write_json(self._path, {"database": self._database, **found})

    def _read(self) -> dict[str, Any]:
        """What was written last; nothing where the file is not of this database or cannot be read."""
        try:
            found = read_json(self._path)
        except (OSError, ValueError, TidemillError):
            return {}
        return found if isinstance(found, dict) and found.get("database") == self._database else {}


def _latest_time(report: BatchReport, before: int | None) -> int | None:
    """The greatest event time that was read of any source."""
    tops = [entry["top"] for entry in report["sources"].values() if entry.get("first") is not None]
    return max([*tops, *([] if before is None else [before])], default=None)


def _first_time(report: BatchReport) -> int | None:
    firsts = [first for entry in report["sources"].values() if (first := entry.get("first")) is not None]
    return min(firsts, default=None)
