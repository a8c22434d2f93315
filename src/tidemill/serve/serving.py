"""`tidemill serve`: one process runs a database live and serves it until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.engine.script import place_statements
from tidemill.engine.users.session import has_users
from tidemill.errors import EngineProblem
from tidemill.plan.statements import CreateUser, Grant
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
    certificate: str | None = None
    key: str | None = None
    init: Path | None = None
    name: str = "tidemill"
    limits: Limits = field(default_factory=Limits)


def serve_database(db: Database, wanted: Serving) -> bool:
    """Serve until SIGTERM or ctrl-C; False when the job has failed."""
    _begin_log()
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
    try:
        port = await server.start(wanted.host, wanted.port)
    except OSError as error:
        raise EngineProblem(
            "TM405", f"the server cannot listen on {wanted.host}:{wanted.port}: {error.strerror}", hint="--port N"
        ) from None
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    log.info("ready: postgresql://%s:%d/%s", wanted.host, port, wanted.name)
    tell_systemd("READY=1")
    failed = await _wait(db, stopping)
    tell_systemd("STOPPING=1")
    log.info("stopping")
    await server.stop()
    return not failed


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


def _begin_log() -> None:
    """One line for each event on standard error; the service manager adds the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
