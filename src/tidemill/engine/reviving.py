"""When a process of the job is killed: which failures another start mends, and when it is tried."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tidemill.errors import EngineProblem, TidemillError

MOST_TRIES = 2
_PAUSES = (1.0, 4.0)  # s before another attempt to start: what keeps the machine busy may pass

T = TypeVar("T")
# What Spark says when the other end of a socket, a Python process of the job, is gone; or not there yet: Spark gives it
# ten seconds to come up, which on a busy machine may be too few.
_GONE = re.compile(r"EOFException|SocketException|Broken pipe|Connection reset|ClosedChannelException"
                   r"|failed to connect back|worker exited unexpectedly|[Ww]orker.*crashed|exited with code")


@dataclass
class Revival:
    """Counts how often the job was started again without a batch in between."""

    batch: int = -2
    tries: int = 0

    def is_due(self, problem: EngineProblem, committed: int) -> bool:
        """Whether the job should be started again: a process of it was lost, and not too often at this place.

        >>> lost = EngineProblem("TM504", "the job failed", detail="java.io.EOFException")
        >>> one = Revival()
        >>> [one.is_due(lost, 7) and one.begun(7) for _ in range(3)]
        [True, True, False]
        >>> one.is_due(lost, 8), one.is_due(EngineProblem("TM504", "TM400 a bad record"), 8)
        (True, False)
        """
        if problem.code != "TM504" or not _GONE.search(problem.detail or ""):
            return False
        return committed != self.batch or self.tries < MOST_TRIES

    def begun(self, committed: int) -> bool:
        """It is started again."""
        self.tries = self.tries + 1 if committed == self.batch else 1
        self.batch = committed
        return True


def started(begin: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Start a job. A Python process that has not come up in time, as on a busy machine, gets another chance.

    >>> waits, left = [], [OSError("Python worker failed to connect back"), None]
    >>> def begin():
    ...     if left[0] is not None:
    ...         raise left.pop(0)
    ...     return "up"
    >>> started(begin, waits.append), waits
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
