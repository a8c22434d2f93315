"""The server: one application of Starlette in uvicorn, in the loop of the Postgres server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tidemill.engine.users.session import Session, has_users
from tidemill.serve.http.api import Api
from tidemill.serve.http.guard import Guard
from tidemill.serve.http.metrics import CONTENT_TYPE, metrics_text
from tidemill.serve.http.protocol import make_protocol
from tidemill.serve.http.sessions import NotLoggedIn, Sessions
from tidemill.serve.postgres.services import Services, log

STATIC = Path(__file__).parent / "static"
_END_S = 2


class HttpServer:
    """Serves one database. All methods are called in the loop in which it was started."""

    def __init__(self, services: Services, connections: Callable[[], int] = lambda: 0) -> None:
        self.services, self._count_others = services, connections
        self.sessions = Sessions(services.db)
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.host, self.port = "127.0.0.1", 0

    @property
    def address(self) -> str:
        """Where the console is; without users, with the token that lets one browser in."""
        scheme = "https" if self.services.tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        token = "" if has_users(self.services.db) else f"#token={self.sessions.token}"
        return f"{scheme}://{host}:{self.port}/{token}"

    async def start(self, host: str, port: int, certificate: str | None = None, key: str | None = None) -> int:
        """Listen; the port, where 0 asked for any."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        line = socket.create_server((host, port), family=family, backlog=512)
        self.host, self.port = host, int(line.getsockname()[1])
        self.api = Api(self.services, self.sessions, f"tidemill_{self.port}", self._tell_address)
        limits = self.services.limits
        config = uvicorn.Config(
            self.application(),
            lifespan="off",
            ws="none",
            http=make_protocol(limits.login_seconds, limits.connections),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=_END_S,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        self._server = _Uvicorn(config)
        self._task = asyncio.ensure_future(self._server.serve([line]))
        return self.port

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None and self._task is not None:
            self.api.stopping.set()
            self._server.should_exit = True
            await asyncio.wait({self._task}, timeout=2 * _END_S + 1)

    def application(self) -> Starlette:
        """All paths."""
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/readyz", self._readyz, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            *self.api.routes(),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        guard = Middleware(
            Guard, has_tls=self.services.tls is not None, is_open=lambda: not has_users(self.services.db)
        )
        return Starlette(routes=routes, middleware=[guard])

    def connections(self) -> dict[str, int]:
        """Open connections of each door."""
        own = len(self._server.server_state.connections) if self._server is not None else 0
        return {"postgres": self._count_others(), "http": own}

    def _tell_address(self) -> None:
        log.info("console, for another browser: %s", self.address)

    async def _page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        """Ready while the job runs: answers are fresh."""
        db = self.services.db
        problem = await self.services.run(lambda: db.failure)
        if problem is None and db.is_running:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {problem.code if problem else 'the job is not running'}\n", 503)

    async def _metrics(self, request: Request) -> Response:
        """Without users for everyone who reaches the server, else as far as the user may see."""
        db = self.services.db
        try:
            session = await self.services.run(self.api.session, request) if has_users(db) else Session(db)
        except NotLoggedIn:
            return PlainTextResponse("not logged in\n", 401, {"WWW-Authenticate": 'Basic realm="tidemill"'})
        text = await self.services.run(metrics_text, db, session, self.connections)
        return Response(text, media_type=CONTENT_TYPE)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the process that it is a part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
