"""Views that are stopped: which of them a batch stops, and why, as the outlet finds out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tidemill.runtime.changes import Changes
from tidemill.runtime.failures import is_of_operator, reason_of

T = TypeVar("T")


class ViewsFailed(Exception):
    """What a batch brings to some views cannot be stored: view id → reason."""

    def __init__(self, reasons: dict[str, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


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
