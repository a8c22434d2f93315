"""The queue between the outlet and one subscriber, with a limit on the bytes that wait in it."""

from __future__ import annotations

import queue
import threading
from collections import deque

import pyarrow as pa

QUEUE_BYTES = 64 << 20  # of changes that a slow subscriber has not taken; beyond it the subscription ends


class SubscriptionQueue:
    """Batches of changes for a subscriber, in order and without a gap.

    When the limit is exceeded, all waiting batches are dropped and no more are taken: with a gap the changes would not
    add up to the view. `lost` counts the dropped changes. A single batch may be larger than the limit.
    """

    def __init__(self, most: int = QUEUE_BYTES) -> None:
        self.most = most
        self.lost = 0
        self._waiting: deque[pa.Table] = deque()
        self._bytes = 0
        self._changed = threading.Condition()

    def put(self, table: pa.Table) -> bool:
        """Add a batch; False when the subscriber has fallen behind."""
        with self._changed:
            if self.lost or (self._waiting and self._bytes + table.nbytes > self.most):
                self.lost += table.num_rows + sum(t.num_rows for t in self._waiting)
                self._waiting.clear()
                self._bytes = 0
            else:
                self._waiting.append(table)
                self._bytes += table.nbytes
            self._changed.notify_all()
            return not self.lost

    def get(self, timeout: float) -> pa.Table:
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
