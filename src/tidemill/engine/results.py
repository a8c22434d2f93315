"""The results of statements."""

from __future__ import annotations

import datetime as dt
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import pyarrow as pa

from tidemill.errors import EngineProblem, TidemillError
from tidemill.plan.html import html_text
from tidemill.runtime.views.subscriptions import Delivery, SubscriptionQueue


@dataclass(frozen=True)
class Created:
    """Something was created, changed or dropped."""

    kind: str
    name: str
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class RunSummary:
    """A finite run: micro-batches, rows read, seconds, rows that came late, records that could not be read."""

    batches: int
    rows: int
    seconds: float
    late: int
    bad: int
    warnings: tuple[str, ...] = ()  # why rows were late, and what would have helped

    def __str__(self) -> str:
        speed = self.rows / self.seconds if self.seconds else 0.0
        return (
            f"{self.rows:,} rows in {self.batches} batches, {self.seconds:.1f} s ({speed:,.0f} rows/s),"
            f" {self.late} late, {self.bad} bad" + "".join(f"\n{text}" for text in self.warnings)
        )

    def _repr_html_(self) -> str:
        return html_text(str(self))


@dataclass(frozen=True)
class Moment:
    """The changes of several views that were subscribed to together: with them, all are as of one time.

    `as_of` is that time, in clock units or UTC; None before all events. `changes` has a table like those of `changes`,
    in the order of time, for each view with changes. `batch`: where whole batches were asked for, the last one.
    """

    as_of: int | dt.datetime | None
    changes: dict[str, pa.Table]
    batch: int | None = None


D = TypeVar("D", bound=Delivery)
R = TypeVar("R")


class Subscription(Generic[D, R]):
    """Live changes of a view: first its contents as insertions, then every change, in tables like `changes`. Of several
    views: in moments.
    """

    def __init__(
        self,
        snapshot: D,
        inbox: SubscriptionQueue[D],
        shape: Callable[[D], R],
        alive: Callable[[], bool],
        end: Callable[[], None],
        failure: Callable[[], TidemillError | None] = lambda: None,
    ) -> None:
        self._first: D | None = snapshot if snapshot.num_rows else None
        self._inbox, self._shape, self._alive, self._end, self._failure = inbox, shape, alive, end, failure
        self.closed = False

    def notify(self, function: Callable[[], None]) -> None:
        """Call a function whenever changes have come, from the thread that brings them; it must not wait."""
        self._inbox.notify = function

    @property
    def has_fallen_behind(self) -> bool:
        """Whether changes were dropped; `next` raises it."""
        return bool(self._inbox.lost)

    def next(self, timeout: float | None = None) -> R | None:
        """The next batch of changes, or None when nothing came in time or the subscription is closed.

        When nothing more can come because the job has failed or the view has stopped, that is raised.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return self._shape(first)
        until = None if timeout is None else time.monotonic() + timeout
        while not self.closed:
            wait = 0.1 if until is None else min(0.1, until - time.monotonic())
            if wait <= 0 and self._inbox.empty():
                self._check_complete()
                return None
            try:
                return self._shape(self._inbox.get(timeout=max(wait, 0.001)))
            except queue.Empty:
                self._check_complete()
                problem = self._failure()
                if problem is not None and self._inbox.empty():
                    raise problem from None
                if until is None and not self._alive() and self._inbox.empty():
                    return None
        return None

    def _check_complete(self) -> None:
        """Raise when changes are missing, once; the subscription is closed then."""
        if self._inbox.lost:
            self.close()
            raise EngineProblem(
                "TM518",
                f"the subscriber fell behind: {self._inbox.lost:,} changes were dropped",
                detail=f"more than {self._inbox.most:,} bytes were waiting",
                hint="subscribe again: it begins with the contents of the moment",
            )

    def __iter__(self) -> Iterator[R]:
        while (table := self.next()) is not None:
            yield table

    def close(self) -> None:
        """End the subscription; a waiting reader returns."""
        if not self.closed:
            self.closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
