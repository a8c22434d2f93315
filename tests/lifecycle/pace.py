"""Live databases by hand: micro-batches until there is nothing new."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.harness import LocalDatabase


def settle(db: LocalDatabase) -> int:
    """Run micro-batches until nothing is new; how many there were."""
    count = 0
    while db.step():
        count += 1
        assert count < 200, "the job never comes to rest"
    return count


def step_until(db: LocalDatabase, reached: Callable[[], bool], seconds: float = 20) -> None:
    """Micro-batches, with pauses, until the condition holds."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "not reached in time"
        if not db.step():
            time.sleep(0.02)
