"""Views that are stopped: which of them a batch stops, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, TypeVar

import pyarrow as pa

from tidemill.plan.physical import Output
from tidemill.runtime.evaluation.failures import is_of_operator, reason_of
from tidemill.runtime.views.changes import Changes, gather
from tidemill.runtime.views.stored_view import StoredView

T = TypeVar("T")


class ViewsFailed(Exception):
    """Changes of some views cannot be stored: view id → reason."""

    def __init__(self, reasons: dict[str, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


def gather_changes(outputs: Iterable[Output], views: dict[str, StoredView], blocks: list[pa.Table]) -> list[Changes]:
    """The changes of all views. Where the changes of all shards cannot be gathered, they are gathered view by view, and
    ViewsFailed names the views that fail.
    """
    outputs = list(outputs)
    try:
        return gather(outputs, views, blocks)
    except Exception as error:
        if not is_of_operator(error):
            raise
    found: list[Changes] = []
    reasons: dict[str, str] = {}
    for view in views.values():
        try:
            found += gather(outputs, {view.id: view}, blocks)
        except Exception as error:
            if not is_of_operator(error):
                raise
            reasons[view.id] = reason_of(error)
    if reasons:
        raise ViewsFailed(reasons)
    return found


def run_for_views(changes: Changes, work: Callable[[Changes], T]) -> T:
    """Do the work; where it fails, ViewsFailed names the views for which it fails alone, or else all of them."""
    try:
        return work(changes)
    except Exception as error:
        if not is_of_operator(error):
            raise
        raise ViewsFailed(find_failing(changes, work) or {v.id: reason_of(error) for v in changes.views}) from error


def find_failing(changes: Changes, work: Callable[[Changes], Any]) -> dict[str, str]:
    """The views, of several, for which the work fails alone, and why."""
    if len(changes.views) == 1:
        return {}
    found = {}
    for view in changes.views:
        try:
            work(changes.only({view.id}))
        except Exception as error:
            if not is_of_operator(error):
                raise
            found[view.id] = reason_of(error)
    return found


class StoppedNote(TypedDict):
    """Why and when a view was stopped, in seconds since 1970."""

    reason: str
    batch: int
    at: float


def note(reason: str, batch: int) -> StoppedNote:
    """What is remembered of a view that a batch stops."""
    return {"reason": reason, "batch": batch, "at": time.time()}
