"""The queue between the outlet and one subscriber, with a limit on the bytes that wait in it."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

QUEUE_BYTES = 64 << 20  # of changes that a slow subscriber has not taken; beyond it the subscription ends


class Delivery(Protocol):
    """What a subscriber gets at once."""

    @property
    def num_rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Delivery)


class SubscriptionQueue(Generic[T]):
    """Batches of changes for a subscriber, in order and without a gap.

    When the limit is exceeded, all waiting batches are dropped and no more are taken: with a gap the changes would not
    add up to the view. `lost` counts the dropped changes. A single batch may be larger than the limit.
    """

    def __init__(self, most: int = QUEUE_BYTES) -> None:
        self.most = most
        self.lost = 0
        self.notify: Callable[[], None] = lambda: None  # called whenever something was put, by the thread that puts
        self._waiting: deque[T] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, table: T) -> bool:
        """Add a batch; False when the subscriber has fallen behind."""
        with self._changed:
            if self.lost or (self._waiting and self._bytes + table.nbytes > self.most):
                self._drop(table.num_rows)
            else:
                self._waiting.append(table)
                self._bytes += table.nbytes
            self._changed.notify_all()
        self.notify()
        return not self.lost

    def end(self, rows: int) -> None:
        """Take no more: `rows` changes cannot be kept for the subscriber."""
        with self._changed:
            self._drop(rows)
            self._changed.notify_all()
        self.notify()

    def _drop(self, rows: int) -> None:
        self.lost += rows + sum(t.num_rows for t in self._waiting)
        self._waiting.clear()
        self._bytes = 0

    def get(self, timeout: float) -> T:
        """The next batch; queue.Empty when none came in time, or none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.lost, timeout)
            if not self._waiting:
                raise queue.Empty
            table = self._waiting.popleft()
            self._bytes -= table.nbytes
            return table

    def empty(self) -> bool:
        with self._changed:
            return not self._waiting


@dataclass(frozen=True)
class MomentChanges:
    """Tagged changes of several views, by their ids, up to and including a time; None: before all events.

    `batch`: up to and including a batch, where the subscriber asked for whole batches.
    """

    time: int | None
    changes: dict[str, pa.Table]
    batch: int | None = None

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for table in self.changes.values())

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.changes.values())


class JointQueue:
    """Changes of several views for one subscriber, released when all of these views have closed their time.

    The subscriber of `queue` gets them in the order of time; after each delivery the views are as of one time. What
    waits for the slowest view counts against the limit of bytes.
    """

    def __init__(self, held: Mapping[str, pa.Table | None], most: int) -> None:
        self.queue: SubscriptionQueue[MomentChanges] = SubscriptionQueue(most)
        self.held = {view: [table] if table is not None else [] for view, table in held.items()}

    def add(self, changes: Mapping[str, pa.Table]) -> None:
        """Take the tagged changes of a batch; those of other views are not looked at."""
        for view, held in self.held.items():
            if view in changes:
                held.append(changes[view])

    def release(self, moments: Mapping[str, int], time: int | None) -> bool:
        """Deliver what each view has before its moment; False when the subscriber has fallen behind."""
        found = {}
        for view, moment in moments.items():
            if self.held[view]:
                rows = pa.concat_tables(self.held[view])
                early = pc.less(rows.column("__time"), moment)
                ready, rest = rows.filter(early), rows.filter(pc.invert(early))
                self.held[view] = [rest] if rest.num_rows else []
                if ready.num_rows:
                    found[view] = ready
        waiting = [table for tables in self.held.values() for table in tables]
        if sum(table.nbytes for table in waiting) > self.queue.most:
            self.queue.end(sum(table.num_rows for table in waiting))
        elif found:
            self.queue.put(MomentChanges(time, found))
        return not self.queue.lost
