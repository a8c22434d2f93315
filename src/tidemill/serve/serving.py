"""`tidemill serve`: one process runs a database live and serves it until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.engine.script import place_statements
from tidemill.engine.users.session import has_users
from tidemill.errors import EngineProblem
from tidemill.plan.statements import CreateUser, Grant
from tidemill.serve.logs import begin_log
from tidemill.serve.postgres.server import PostgresServer
from tidemill.serve.postgres.services import Limits, Services, log
from tidemill.serve.postgres.tls import check_address, is_loopback, make_context
from tidemill.serve.run import DECLARATIONS, names_by_definition

if TYPE_CHECKING:
    from tidemill.engine import Database

_WATCH_S = 1.0


@dataclass(frozen=True)
class Serving:
    """What the command line asks for."""

    host: str = "127.0.0.1"
    port: int = 5433
    http_port: int | None = 8380  # None: no HTTP server
    certificate: str | None = None
    key: str | None = None
    init: Path | None = None
    name: str = "tidemill"
    limits: Limits = field(default_factory=Limits)
    log_format: str = "text"


def serve_database(db: Database, wanted: Serving) -> bool:
    """Serve until SIGTERM or ctrl-C; False when the job has failed."""
    begin_log(wanted.log_format)
    if wanted.http_port is not None:
        check_console()
    tls = make_context(wanted.certificate, wanted.key)
    if wanted.init is not None:
        run_init(db, wanted.init.read_text(encoding="utf-8"))
    check_address(wanted.host, tls is not None, has_users(db))
    if not has_users(db) and is_loopback(wanted.host):
        log.info("there are no users: everyone on this machine may connect and do everything (CREATE USER changes it)")
    db.start()
    return asyncio.run(_serve(db, wanted, tls))


def run_init(db: Database, text: str) -> None:
    """Execute a file; declarations and users that stand already are left as they are."""
    known = names_by_definition(db)
    for part in place_statements(text):
        statement = part.statement
        if isinstance(statement, DECLARATIONS) and statement.text in known:
            continue
        if isinstance(statement, CreateUser) and statement.name.lower() in db.catalog.users:
            continue
        result = db.execute(part.text)
        if not isinstance(statement, Grant):
            log.info("%s", result)


async def _serve(db: Database, wanted: Serving, tls: ssl.SSLContext | None) -> bool:
    services = Services(db, wanted.name, tls, wanted.limits)
    server = PostgresServer(services)
    with _explain_refusal(wanted.host, wanted.port, "--port N"):
        port = await server.start(wanted.host, wanted.port)
    console = await _start_console(server, wanted)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("ready: postgresql://%s:%d/%s", wanted.host, port, wanted.name)
    if console is not None:
        log.info("console: %s", console.address)
    tell_systemd("READY=1")
    failed = await _wait(db, stopping)
    tell_systemd("STOPPING=1")
    log.info("stopping")
    if console is not None:
        await console.stop()
    await server.stop()
    return not failed


async def _start_console(server: PostgresServer, wanted: Serving) -> Any:
    """The HTTP server, if one is wanted."""
    if wanted.http_port is None:
        return None
    from tidemill.serve.http.server import HttpServer

    console = HttpServer(server.services, lambda: len(server.connections))
    with _explain_refusal(wanted.host, wanted.http_port, "--http-port N, or --no-http"):
        await console.start(wanted.host, wanted.http_port, wanted.certificate, wanted.key)
    return console


def check_console() -> None:
    """Refuse to go on without the packages of the HTTP server (TM540)."""
    missing = [name for name in ("starlette", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise EngineProblem(
            "TM540",
            f"the HTTP server needs {', '.join(missing)}",
            hint="pip install 'tidemill[console]', or serve with --no-http",
        )


@contextmanager
def _explain_refusal(host: str, port: int, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineProblem(
            "TM405", f"the server cannot listen on {host}:{port}: {error.strerror}", hint=hint
        ) from None


async def _wait(db: Database, stopping: asyncio.Event) -> bool:
    """Until the process shall stop; True when the job has failed."""
    while not stopping.is_set():
        problem = await asyncio.get_running_loop().run_in_executor(None, lambda: db.failure)
        if problem is not None:
            log.error("the job has failed: %s", problem)
            return True
        try:
            await asyncio.wait_for(stopping.wait(), _WATCH_S)
        except TimeoutError:
            continue
    return False


def tell_systemd(state: str) -> None:
    """Tell the service manager, if there is one that wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        try:
            line.connect("\0" + address[1:] if address.startswith("@") else address)
            line.send(state.encode())
        except OSError as error:
            log.warning("the service manager cannot be reached: %s", error)
