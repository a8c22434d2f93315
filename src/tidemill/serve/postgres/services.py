"""What all connections of a server share: the database, threads for its calls, and limits."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.interrupts import Cancellation

if TYPE_CHECKING:
    from tidemill.engine import Database

R = TypeVar("R")
log = logging.getLogger("tidemill.serve")

_LOOK_S = 0.2  # how often a query that waits for its turn looks whether it was cancelled


@dataclass(frozen=True)
class Limits:
    """What a server takes on."""

    connections: int = 256
    logins: int = 256  # connections that have not logged in; the oldest is let go for one more
    queries: int = max(4, 2 * (os.cpu_count() or 1))  # ad hoc queries at a time; others wait for their turn
    subscription_bytes: int = 64 << 20  # of changes that wait for one subscriber
    login_seconds: float = 30.0
    stuck_seconds: float = 10.0  # that a subscriber has to take an error after its queue was full
    prepared: int = 1000  # statements, portals and cursors of one connection


@dataclass
class Services:
    """Given to every connection."""

    db: Database
    name: str = "tidemill"  # of the database, as clients see it
    tls: ssl.SSLContext | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(64, thread_name_prefix="postgres")
        self._turns = asyncio.Semaphore(self.limits.queries)

    async def run(self, function: Callable[..., R], *arguments: Any) -> R:
        """Call a function of the engine in a thread."""
        call = functools.partial(function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def run_query(self, cancellation: Cancellation, function: Callable[..., R], *arguments: Any) -> R:
        """Call a function that answers a query, when it is its turn."""
        return await self.run_in_turn(self._turns, cancellation, function, *arguments)

    async def run_in_turn(
        self, turns: asyncio.Semaphore, cancellation: Cancellation, function: Callable[..., R], *arguments: Any
    ) -> R:
        """Call a function when a turn is free. It is waited for here and not in a thread, of which there are few; what
        waits can be cancelled.
        """
        turn = asyncio.ensure_future(turns.acquire())
        try:
            while not turn.done():
                await asyncio.wait({turn}, timeout=_LOOK_S)
                cancellation.check()
            return await self.run(function, *arguments)
        finally:
            if turn.done() and not turn.cancelled():
                turns.release()
            else:
                turn.cancel()

    def close(self) -> None:
        """No more calls; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
