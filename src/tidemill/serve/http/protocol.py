"""Connections that wait for a request: each for some seconds, and not more of them than the server has room for.

uvicorn waits for ever for a request that was begun, and counts what waits as it counts what works: a few hundred lines
that say nothing would keep everyone out, and would take the files that the job needs to open.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# The client has to go on: there is no request, or not all of it.
_OPEN = (h11.IDLE, h11.SEND_BODY)


class PunctualProtocol(H11Protocol):
    """Lets a client go whose request does not come in time; where there are too many, the one that waits longest."""

    seconds: ClassVar[float]
    most: ClassVar[int]
    waiting: ClassVar[dict[PunctualProtocol, asyncio.TimerHandle]]

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._look()
        while len(self.connections) >= self.most and len(self.waiting) > 1:  # this one is the last
            next(iter(self.waiting))._let_go()

    def data_received(self, data: bytes) -> None:
        """A part of a request gives no more time for the rest."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.conn.their_state not in _OPEN:
            self._forget()
        elif self not in self.waiting and not self.transport.is_closing():
            self.waiting[self] = self.loop.call_later(self.seconds, self._let_go)

    def _forget(self) -> None:
        timer = self.waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _let_go(self) -> None:
        self._forget()
        self.connections.discard(self)
        self.transport.abort()


def make_protocol(seconds: float, most: int) -> type[PunctualProtocol]:
    """The protocol of one server: how long a request may take to come, and how many connections there may be."""
    return type("Protocol", (PunctualProtocol,), {"seconds": seconds, "most": most, "waiting": {}})
