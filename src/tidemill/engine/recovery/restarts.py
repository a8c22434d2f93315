"""Restarts after a process of the job was killed: which failures another start repairs, and how often it is tried."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidemill.errors import EngineProblem, TidemillError

MOST_TRIES = 2
_PAUSES = (1.0, 4.0)  # seconds before another attempt to start

T = TypeVar("T")
# What Spark reports when a Python process of the job is gone, or has not come up: Spark waits ten seconds for it, which
# may be too short on a busy machine.
_GONE = re.compile(
    r"EOFException|SocketException|Broken pipe|Connection reset|ClosedChannelException"
    r"|failed to connect back|worker exited unexpectedly|[Ww]orker.*crashed|exited with code"
)


@dataclass
class Revival:
    """Counts how often the job was started again without a batch in between."""

    batch: int = -2
    tries: int = 0

    def is_due(self, problem: EngineProblem, committed: int) -> bool:
        """Whether the job should be started again: a process of it was lost, and not too often at this place.

        >>> lost = EngineProblem("TM504", "the job failed", detail="java.io.EOFException")
        >>> one = Revival()
        >>> [one.is_due(lost, 7) and one.record_try(7) for _ in range(3)]
        [True, True, False]
        >>> one.is_due(lost, 8), one.is_due(EngineProblem("TM504", "TM400 a bad record"), 8)
        (True, False)
        """
        if problem.code != "TM504" or not _GONE.search(problem.detail or ""):
            return False
        return committed != self.batch or self.tries < MOST_TRIES

    def record_try(self, committed: int) -> bool:
        """Count an attempt to start the job again."""
        self.tries = self.tries + 1 if committed == self.batch else 1
        self.batch = committed
        return True


def start_with_retries(begin: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Start a job. Where a Python process has not come up in time, as on a busy machine, try again.

    >>> waits, left = [], [OSError("Python worker failed to connect back"), None]
    >>> def begin():
    ...     if left[0] is not None:
    ...         raise left.pop(0)
    ...     return "up"
    >>> start_with_retries(begin, waits.append), waits
    ('up', [1.0])
    """
    for pause in (*_PAUSES, None):
        try:
            return begin()
        except TidemillError:
            raise
        except Exception as error:
            if pause is None or not _GONE.search(str(error)):
                raise
            sleep(pause)
    raise AssertionError("the last attempt returns or raises")
