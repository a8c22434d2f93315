"""When a process of the job is killed: which failures another start mends, and when it is tried."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.errors import EngineProblem

MOST_TRIES = 2
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
