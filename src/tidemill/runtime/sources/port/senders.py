"""The connections of a port, how long each may be silent, and how many bytes it may hold.

A sender that breaks a limit is disconnected, and counted; a line that it has not finished stays with it, as when the
spooler stops. None of it can take what the running job needs: file handles, memory, threads.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidemill.plan.sources import SourceSpec

MOST_CONNECTIONS = 256  # of a port, unless the source says `max_connections`
SILENT_SECONDS = 3600.0  # without a byte, then the connection is closed
LINE_SECONDS = 60.0  # for the rest of a line that has begun
HELD_BYTES = 64 << 20  # of unfinished lines, all senders of a port together
_YIELDING = 10.0  # s of silence after which a sender gives way to a new one, where there are as many as may be

_everyone: set[Sender] = set()
_lock = threading.Lock()


@dataclass(eq=False)
class Sender:
    """One connection. Times are those of `Senders.clock`; while the spooler does not listen they stand still."""

    socket: socket.socket
    heard: float
    line_begun: float | None = None
    held: int = 0
    waits: bool = False  # for the backlog to fall: its silence is not its own
    dismissed: bool = False

    def dismiss(self) -> None:
        """Break the connection; the thread that reads it notices."""
        self.dismissed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


@dataclass
class Senders:
    """All connections of one port, and how many were turned away or ended, and why."""

    most: int = MOST_CONNECTIONS
    silent: float = SILENT_SECONDS
    line: float = LINE_SECONDS
    held: int = HELD_BYTES
    clock: Callable[[], float] = time.monotonic
    counts: dict[str, int] = field(default_factory=lambda: {"refused": 0, "silent": 0, "unfinished": 0})
    present: set[Sender] = field(default_factory=set)

    @staticmethod
    def of(spec: SourceSpec) -> Senders:
        """The limits that a source declares."""
        given = spec.options
        return Senders(
            min(int(given.get("max_connections", MOST_CONNECTIONS)), _handles() // 4),
            given.get("connection_timeout", SILENT_SECONDS * 1e6) / 1e6,
            given.get("line_timeout", LINE_SECONDS * 1e6) / 1e6,
        )

    def admit(self, connection: socket.socket) -> Sender | None:
        """A new sender, in the place of the most silent one where there is no room; None when it must go."""
        with _lock:
            sender = Sender(connection, self.clock())
            if (len(self.present) >= self.most or len(_everyone) >= _handles() // 2) and not self._give_way():
                self.counts["refused"] += 1
                return None
            self.present.add(sender)
            _everyone.add(sender)
            return sender

    def leave(self, sender: Sender) -> None:
        """Its connection has ended."""
        with _lock:
            self.present.discard(sender)
            _everyone.discard(sender)

    def heard(self, sender: Sender, held: int, ended: bool) -> None:
        """Bytes came; whether a line ended in them, and how many of an unfinished one are held now."""
        sender.heard = self.clock()
        if not held:
            sender.line_begun = None
        elif sender.line_begun is None or ended:
            sender.line_begun = sender.heard
        sender.held = held

    @contextmanager
    def waiting(self, sender: Sender) -> Iterator[None]:
        """The spooler has stopped receiving: silence does not count until it goes on."""
        began, sender.waits = self.clock(), True
        try:
            yield
        finally:
            passed = self.clock() - began
            sender.heard += passed
            if sender.line_begun is not None:
                sender.line_begun += passed
            sender.waits = False

    def look(self) -> None:
        """Disconnect senders that are silent, do not finish a line, or hold too much."""
        now = self.clock()
        with _lock:
            listening = [s for s in self.present if not s.waits and not s.dismissed]
            for sender in listening:
                if sender.line_begun is not None and now - sender.line_begun > self.line:
                    self._dismiss(sender, "unfinished")
                elif now - sender.heard > self.silent:
                    self._dismiss(sender, "silent")
            while sum(s.held for s in self.present if not s.dismissed) > self.held:
                largest = max((s for s in self.present if not s.dismissed), key=lambda s: s.held)
                self._dismiss(largest, "unfinished")

    def describe(self) -> dict[str, int]:
        """What the status says."""
        return {"connections": len(self.present), **self.counts}

    def _give_way(self) -> bool:
        longest = min((s for s in self.present if not s.dismissed and not s.waits), key=lambda s: s.heard, default=None)
        if longest is None or self.clock() - longest.heard < _YIELDING:
            return False
        self._dismiss(longest, "silent")
        self.present.discard(longest)
        _everyone.discard(longest)
        return True

    def _dismiss(self, sender: Sender, reason: str) -> None:
        self.counts[reason] += 1
        sender.dismiss()


def _handles() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if soft == resource.RLIM_INFINITY else max(soft, 8)
