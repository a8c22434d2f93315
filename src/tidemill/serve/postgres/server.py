"""The server: accepts connections, knows them by their process number, and ends them when it stops."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from contextlib import suppress

from tidemill.engine.users.session import Session
from tidemill.errors import TidemillError
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.catalog.shadow import ShadowCatalogs
from tidemill.serve.postgres.connection import Connection
from tidemill.serve.postgres.interpreter import Interpreter
from tidemill.serve.postgres.login import CancelRequest, Startup, authenticate, begin
from tidemill.serve.postgres.problems import ProtocolProblem, error_fields
from tidemill.serve.postgres.sending import Sender
from tidemill.serve.postgres.services import Services, log
from tidemill.serve.postgres.settings import SessionSettings

_GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError)
_END_S = 1.0


class PostgresServer:
    """Serves one database. All methods are called in the loop in which it was started."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.connections: dict[int, tuple[int, Connection]] = {}  # process → (secret, connection)
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._strangers: dict[asyncio.Task[None], None] = {}  # those that have not logged in, the oldest first
        self._shadows = ShadowCatalogs()
        self._last_process = 0
        self._secret = os.urandom(32)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, where 0 asked for any."""
        self._server = await asyncio.start_server(self._accept, host, port, backlog=512)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more, tell every client, and end the connections."""
        if self._server is not None:
            self._server.close()
        gone = ProtocolProblem("57P01", "terminating connection due to administrator command", fatal=True)
        for _, connection in list(self.connections.values()):
            connection.cancel()
        for task, writer in list(self._tasks.items()):
            with suppress(Exception):
                writer.write(m.report("E", error_fields(gone)))
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_END_S)
        self.services.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks[task], self._strangers[task] = writer, None
        task.add_done_callback(self._forget)
        while len(self._strangers) > self.services.limits.logins:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            self._tasks[oldest].transport.abort()  # a task that has not begun would not do it
            oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._strangers.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _keep_alive(writer)
            await self._converse(reader, writer)
        except (ProtocolProblem, TidemillError) as problem:
            writer.write(m.report("E", error_fields(problem)))
        except asyncio.CancelledError:
            pass
        except _GONE:
            pass
        except Exception:
            log.exception("a connection failed")
        finally:
            writer.close()
            with suppress(*_GONE, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), _END_S)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limits = self.services.limits
        async with asyncio.timeout(limits.login_seconds):
            found = await begin(reader, writer, self.services)
            if isinstance(found, CancelRequest):
                self._cancel(found)
                return
            if len(self.connections) >= limits.connections:
                raise ProtocolProblem("53300", "too many connections", hint="--max-connections", fatal=True)
            user = await authenticate(reader, writer, self.services, found.user, self._secret)
        task = asyncio.current_task()
        assert task is not None
        self._strangers.pop(task, None)
        await self._run(found, user, reader, writer)

    async def _run(
        self, startup: Startup, user: str | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        session = Session(self.services.db, user)
        settings = SessionSettings(startup.user, session.access.reads_everything, session.time_zone())
        _apply_options(settings, startup.options)
        self._last_process = self._last_process % 0x7FFFFFF0 + 1
        process, secret = self._last_process, secrets.randbits(32)
        sender = Sender(writer, self.services.limits.stuck_seconds, settings)
        interpreter = Interpreter(self.services, session, settings, self._shadows, process)
        connection = Connection(reader, sender, self.services, interpreter)
        self.connections[process] = (secret, connection)
        try:
            sender.write(m.authentication(0))
            for name, value in settings.reported_settings().items():
                sender.write(m.parameter_status(name, value))
            sender.write(m.backend_key(process, secret) + m.ready("I"))
            await sender.drain()
            await connection.run()
        finally:
            del self.connections[process]

    def _cancel(self, request: CancelRequest) -> None:
        secret, connection = self.connections.get(request.process, (None, None))
        if connection is not None and hmac.compare_digest(str(secret), str(request.secret)):
            connection.cancel()


def _apply_options(settings: SessionSettings, options: dict[str, str]) -> None:
    """Parameters in the startup message; unknown ones are refused as Postgres does."""
    for name, value in options.items():
        if name == "options":
            for part in value.split("-c"):
                key, _, given = part.strip().partition("=")
                if key and settings.knows(key):
                    settings.set(key, given)
        elif settings.knows(name) and "." not in name:
            settings.set(name, value)
        elif "." not in name:
            raise ProtocolProblem("42704", f'unrecognized configuration parameter "{name}"', fatal=True)


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice clients that are gone without saying so."""
    line = writer.get_extra_info("socket")
    if line is not None and line.family in (socket.AF_INET, socket.AF_INET6):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            line.setsockopt(socket.IPPROTO_TCP, option, value)
