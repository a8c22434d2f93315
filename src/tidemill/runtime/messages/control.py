"""What the engine tells the planner of the job that runs, as `control.json` has it."""

from __future__ import annotations

from typing import Any, TypedDict


class Rerun(TypedDict):
    """A logged batch that is not run as its offset says."""

    end: dict[str, Any]  # its offset, as it was logged
    plan: int
    skip: list[str]  # sources whose records are left out


class PreviewNote(TypedDict):
    """What a preview of a source read and sent under one plan version."""

    plan: int
    rows: int
    sent: int  # bytes


class Control(TypedDict, total=False):
    """Which plan is run, and how far."""

    plan: int
    mode: str  # finite, live, resting
    run: int  # the number of the last finite run
    closes: bool  # that run closes everything
    database: str
    sources: list[str]  # all that are registered
    previews: dict[str, PreviewNote]
    again: Rerun | None
