"""How the planner waits for work: until a file changes, not until a clock ticks.

The engine replaces `control.json` to start or stop something. Spark would poll for a new offset after a pause; here its
call blocks, and returns as soon as the file has changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_Seen = tuple[int, int] | None
_LOOK_S = 0.004  # between two looks: each is a system call of 2 microseconds, 0.05 % of a core


class Watch:
    """Notices when a file was replaced or touched."""

    def __init__(self, path: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.path, self._sleep = path, sleep

    def look(self) -> _Seen:
        """What the file is now; another value after every change."""
        try:
            facts = os.stat(self.path)
        except OSError:
            return None
        return facts.st_ino, facts.st_mtime_ns

    def wait_for_change(self, since: _Seen, seconds: float, look: float = _LOOK_S) -> bool:
        """Wait until the file has changed, at most `seconds`, with a look every `look` seconds; whether it has."""
        until = time.monotonic() + seconds
        while self.look() == since:
            if time.monotonic() >= until:
                return False
            self._sleep(look)
        return True


def touch(path: str) -> None:
    """Wake the watcher of a file, without changing it."""
    if os.path.exists(path):
        os.utime(path)
