"""What the outlet tells the planner of the last batch, as `progress.json` has it."""

from __future__ import annotations

from typing import TypedDict

from tidemill.plan.measured.sources import SourceTimes


class SourceProgress(SourceTimes, total=False):
    """One source: how far it is closed, what the batch read of it and what that sent."""

    batch: int
    plan: int
    rows: int
    sent: int  # bytes


class BatchProgress(TypedDict, total=False):
    """A batch that is in the views."""

    database: str
    batch: int
    feedback: int  # the last batch with feedback
    real: int  # the last one with feedback that is not of a provisional end
    waits: dict[str, int]  # operator → the first time for which something waits
    sources: dict[str, SourceProgress]
