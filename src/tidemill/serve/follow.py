"""Live output: the changes of one or more views as they arrive, until ctrl-C."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from rich.console import Console

from tidemill.engine.results import Moment
from tidemill.errors import EngineProblem
from tidemill.interrupts import plain_interrupts
from tidemill.serve.render import change_lines

if TYPE_CHECKING:
    from tidemill.engine import Database

WAIT = 0.25
LINES_AT_ONCE = 40
LOG_TAIL = 200_000


class Changes(Protocol):
    """A subscription: the changes that came within `timeout` seconds, or None; moments where it is of several views."""

    def next(self, timeout: float) -> pa.Table | Moment | None: ...

    def close(self) -> None: ...


def follow(
    console: Console,
    subscriptions: Mapping[str, Changes],
    alive: Callable[[], bool] = lambda: True,
    seconds: float | None = None,
    between: Callable[[], Any] = lambda: None,
) -> int:
    """Print changes until ctrl-C, the given time, or the end of the job; returns their number.

    Ctrl-C ends the subscriptions only: it is not raised to the caller.
    """
    total, end = 0, None if seconds is None else time.monotonic() + seconds
    with plain_interrupts():
        try:
            while alive() and (end is None or time.monotonic() < end):
                total += _step(console, subscriptions)
                between()
        except KeyboardInterrupt:
            if console.is_terminal:
                console.print()  # the terminal has written ^C
        finally:
            for subscription in subscriptions.values():
                subscription.close()
    return total


def drain(console: Console, name: str, subscription: Changes) -> int:
    """Print the changes that a subscription has now, and close it."""
    total = 0
    try:
        while (table := subscription.next(timeout=0.0)) is not None:
            total += print_changes(console, name, table)
    finally:
        subscription.close()
    return total


def check_alive(db: Database) -> None:
    """Raise an error if the job has ended by itself."""
    if not db.is_running:
        raise EngineProblem(
            "TM504", "the job has ended", detail=last_error(db.paths.log), hint=f"the log is {db.paths.log}"
        )


def last_error(log: str) -> str | None:
    """The last line of a log that names an exception."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.path.getsize(log) - LOG_TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    found = re.findall(r"^(?:[\w.]*(?:Error|Problem|Exception): |TM\d{3} ).+$", text, re.MULTILINE)
    return found[-1] if found else None


def print_changes(console: Console, name: str, table: pa.Table | Moment) -> int:
    """Print one batch of changes, a moment view by view; on a terminal, its first `LINES_AT_ONCE` lines."""
    if isinstance(table, Moment):
        return sum(print_changes(console, view, changes) for view, changes in table.changes.items())
    for line in change_lines(name, table, LINES_AT_ONCE if console.is_terminal else None):
        console.print(line, no_wrap=True, overflow="ellipsis")
    return table.num_rows


def _step(console: Console, subscriptions: Mapping[str, Changes]) -> int:
    total = 0
    for name, subscription in subscriptions.items():
        table = subscription.next(timeout=WAIT / max(len(subscriptions), 1))
        if table is not None:
            total += print_changes(console, name, table)
    if not subscriptions:
        time.sleep(WAIT)
    return total
