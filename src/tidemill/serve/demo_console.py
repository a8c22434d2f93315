"""The console beside the demo: the same page as that of `tidemill serve`, in a thread, where its packages are there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidemill.errors import EngineProblem

if TYPE_CHECKING:
    from tidemill.engine import Database

_START_S = 30.0


@contextmanager
def demo_console(db: Database) -> Iterator[str]:
    """What the demo says about the console: its address, or what is missing. It ends with the block."""
    from tidemill.serve.serving import check_console

    try:
        check_console()
    except EngineProblem as problem:
        yield f"no console: {problem.message} ({problem.hint})"
        return
    served = _Console(db)
    try:
        yield f"console: {served.address}" if served.address else f"no console: {served.problem}"
    finally:
        served.stop()


class _Console:
    """A server with a loop of its own, on a free port of this machine."""

    def __init__(self, db: Database) -> None:
        self._db, self.address, self.problem = db, "", "it does not start"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()
        self._ready.wait(_START_S)

    def _run(self) -> None:
        """Serve until `stop`; a console that fails does not end the demo."""
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self.problem = str(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        from tidemill.serve.http.server import HttpServer
        from tidemill.serve.postgres.services import Services

        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        services = Services(self._db, "demo")
        server = HttpServer(services)
        await server.start("127.0.0.1", 0)
        self.address = server.address
        self._ready.set()
        await self._stopping.wait()
        await server.stop()
        services.close()

    def stop(self) -> None:
        with suppress(RuntimeError):  # the loop of a console that failed is closed
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_START_S)
