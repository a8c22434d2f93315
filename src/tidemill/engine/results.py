"""The results of statements."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import EngineProblem, TidemillError
from tidemill.plan.html import html_text
from tidemill.runtime.views.subscriptions import SubscriptionQueue


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


class Subscription:
    """Live changes of a view: first its contents as insertions, then every change, in tables like `changes`."""

    def __init__(
        self,
        snapshot: pa.Table,
        inbox: SubscriptionQueue,
        shape: Callable[[pa.Table], pa.Table],
        alive: Callable[[], bool],
        end: Callable[[], None],
        failure: Callable[[], TidemillError | None] = lambda: None,
    ) -> None:
        self._first: pa.Table | None = snapshot if snapshot.num_rows else None
        self._inbox, self._shape, self._alive, self._end, self._failure = inbox, shape, alive, end, failure
        self.closed = False

    def next(self, timeout: float | None = None) -> pa.Table | None:
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

    def __iter__(self) -> Iterator[pa.Table]:
        while (table := self.next()) is not None:
            yield table

    def close(self) -> None:
        """End the subscription; a waiting reader returns."""
        if not self.closed:
            self.closed = True
            self._end()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
