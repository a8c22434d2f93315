"""One connection: reads messages, executes them one after the other, and writes what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tidemill.errors import TidemillError
from tidemill.interrupts import Cancellation
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.extended import Extended
from tidemill.serve.postgres.interpreter import Interpreter
from tidemill.serve.postgres.problems import ProtocolProblem, error_fields
from tidemill.serve.postgres.sending import Sender
from tidemill.serve.postgres.services import Services, log
from tidemill.serve.postgres.simple import run_simple

_AHEAD = 64  # messages that are read before they are executed
_AHEAD_BYTES = 4 << 20  # of them; then the client waits
_GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)


class Connection:
    """The life of a connection after the login."""

    def __init__(
        self, reader: asyncio.StreamReader, sender: Sender, services: Services, interpreter: Interpreter
    ) -> None:
        self._reader, self._sender, self._services, self._interpreter = reader, sender, services, interpreter
        self._extended = Extended(sender, interpreter, services)
        self._inbox: asyncio.Queue[m.Message | ProtocolProblem | None] = asyncio.Queue(_AHEAD)
        self._waiting, self._has_room = 0, asyncio.Event()  # bytes of messages that wait
        self._cancellation = Cancellation()
        self._skips = False  # after an error of the extended protocol, until Sync
        self._handlers: dict[str, Callable[[bytes], Awaitable[None]]] = {
            "P": self._extended.parse,
            "B": self._extended.bind,
            "C": self._extended.close,
        }

    def cancel(self) -> None:
        """End the statement that is executed now; called by another connection."""
        self._cancellation.set()

    async def run(self) -> None:
        """Serve until the client leaves."""
        reading = asyncio.create_task(self._read_ahead())
        try:
            while (message := await self._inbox.get()) is not None:
                if isinstance(message, ProtocolProblem):
                    self._sender.write(m.report("E", error_fields(message)))
                    await self._sender.drain()
                    return
                self._waiting -= len(message.body)
                self._has_room.set()
                if message.kind == "X":
                    return
                await self._serve(message)
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            self._extended.close_all()
            self._interpreter.close()

    async def _read_ahead(self) -> None:
        """Messages into the inbox; a client that is gone ends what it was waiting for."""
        try:
            while True:
                message = await m.read_message(self._reader)
                self._waiting += len(message.body)
                await self._inbox.put(message)
                while self._waiting > _AHEAD_BYTES and not self._inbox.empty():
                    self._has_room.clear()
                    await self._has_room.wait()
        except ProtocolProblem as problem:
            self._cancellation.set()
            await self._inbox.put(problem)
        except _GONE:
            self._cancellation.set()
            self._sender.abort()
            await self._inbox.put(None)

    async def _serve(self, message: m.Message) -> None:
        """Execute one message; an error is told to the client, and the connection goes on."""
        self._cancellation = Cancellation()
        if message.kind == "S":
            self._skips = False
            self._extended.sync()
            await self._ready()
            return
        if self._skips and message.kind != "Q":
            return
        try:
            await self._dispatch(message)
        except _GONE:
            raise
        except (ProtocolProblem, TidemillError) as error:
            await self._fail(message, error)
        except Exception as error:
            log.exception("a statement failed in the server")
            await self._fail(message, error)
        if message.kind == "Q":
            await self._ready()

    async def _dispatch(self, message: m.Message) -> None:
        if message.kind == "Q":
            self._skips = False
            await run_simple(message.body, self._sender, self._interpreter, self._cancellation)
        elif message.kind == "E":
            await self._extended.execute(message.body, self._cancellation)
        elif message.kind == "D":
            await self._extended.describe(message.body, self._cancellation)
        elif message.kind in self._handlers:
            await self._handlers[message.kind](message.body)
        elif message.kind == "H":
            await self._sender.drain()
        elif message.kind not in "dcf":  # what is left of a COPY that has ended
            raise ProtocolProblem("08P01", f"there is no message of kind {message.kind!r}", fatal=True)

    async def _fail(self, message: m.Message, error: Exception) -> None:
        self._interpreter.fail()
        self._skips = message.kind != "Q"
        text, place = self._sender.context
        self._sender.write(m.report("E", error_fields(error, text, place)))
        await self._sender.drain()
        if isinstance(error, ProtocolProblem) and error.fatal:
            raise ConnectionResetError

    async def _ready(self) -> None:
        self._extended.forget(self._interpreter.forgotten)
        self._sender.write(m.ready(self._interpreter.status))
        await self._sender.drain()
