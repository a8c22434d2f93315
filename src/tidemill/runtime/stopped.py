"""Views that are stopped: which of them a batch stops, and why, as the outlet finds out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

from tidemill.plan.physical import Output
from tidemill.runtime.changes import Changes, gather
from tidemill.runtime.failures import is_of_operator, reason_of
from tidemill.runtime.views import StoredView

T = TypeVar("T")


class ViewsFailed(Exception):
    """What a batch brings to some views cannot be stored: view id → reason."""

    def __init__(self, reasons: dict[str, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


def gathered(outputs: Iterable[Output], views: dict[str, StoredView], parcels: list[pa.Table]) -> list[Changes]:
    """The changes of all views. Where what the shards sent cannot be put together, it is done view by view, and those
    are named that fail alone.
    """
    outputs = list(outputs)
    try:
        return gather(outputs, views, parcels)
    except Exception as error:
        if not is_of_operator(error):
            raise
    found: list[Changes] = []
    reasons: dict[str, str] = {}
    for view in views.values():
        try:
            found += gather(outputs, {view.id: view}, parcels)
        except Exception as error:
            if not is_of_operator(error):
                raise
            reasons[view.id] = reason_of(error)
    if reasons:
        raise ViewsFailed(reasons)
    return found


def attributed(changes: Changes, work: Callable[[Changes], T]) -> T:
    """The work done; where it fails, those of the views for which it fails alone are named, or else all of them."""
    try:
        return work(changes)
    except Exception as error:
        if not is_of_operator(error):
            raise
        raise ViewsFailed(guilty(changes, work) or {v.id: reason_of(error) for v in changes.views}) from error


def guilty(changes: Changes, work: Callable[[Changes], Any]) -> dict[str, str]:
    """Those of several views for which the work fails alone, and why."""
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


def note(reason: str, batch: int) -> dict[str, Any]:
    """What is remembered of a view that a batch stops."""
    return {"reason": reason, "batch": batch, "at": time.time()}
