"""A server in this process, over a database without Spark; and a client that speaks bytes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.places import ROOT
from tidemill.serve.postgres.server import PostgresServer
from tidemill.serve.postgres.services import Limits, Services

SETUP = """
REGISTER SOURCE Measured (room INTEGER, temp DOUBLE, note VARCHAR, at BIGINT)
FROM FILES '{folder}/*.csv' WITH (timestamp = 'at', settle_seconds = 0);
CREATE TAGGED STREAM Rooms OVER Measured KEY room;
CREATE TAGGED STREAM Log OVER Measured;
REGISTER TABLE Buildings (room INTEGER, building VARCHAR) FROM FILES '{folder}/buildings/*.csv';
CREATE VIEW Hot WITH (retain = 100000) AS SELECT room, temp, note FROM Rooms WHERE temp > 80;
CREATE VIEW PerRoom AS SELECT room, count(*) AS n, sum(room) AS total FROM Log GROUP BY room;
CREATE STREAMED VIEW Flow AS SELECT room, temp FROM Log;
CREATE VIRTUAL VIEW Warm AS SELECT room FROM Hot WHERE temp > 85;
"""


class Addressed:
    """A server with a port."""

    port = 0

    def dsn(self, user: str = "tester", **more: str) -> str:
        words = {"host": "127.0.0.1", "port": str(self.port), "dbname": "lot", "user": user, **more}
        return " ".join(f"{name}={value}" for name, value in words.items())

    def url(self, scheme: str = "postgresql", user: str = "tester") -> str:
        return f"{scheme}://{user}@127.0.0.1:{self.port}/lot"


class ServerProcess(Addressed):
    """A database and its server in a process of their own."""

    def __init__(self, folder: Path, setup: str, port: int = 0, **limits: Any) -> None:
        self.folder, self.setup, self.limits = folder, setup, limits
        self.start(port)

    def start(self, port: int = 0) -> None:
        (self.folder / "setup.sql").write_text(self.setup, encoding="utf-8")
        arguments = [str(self.folder / "lot"), str(self.folder / "setup.sql"), json.dumps(self.limits), str(port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class ServerThread(Addressed):
    """A server with a loop of its own."""

    def __init__(self, db: Any, tls: Any = None, **limits: Any) -> None:
        self.db, self.tls, self.limits = db, tls, Limits(**limits)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop, self.stopping = asyncio.get_running_loop(), asyncio.Event()
        self.server = PostgresServer(Services(self.db, "lot", self.tls, self.limits))
        self.port = await self.server.start("127.0.0.1", 0)
        self._ready.set()
        await self.stopping.wait()
        await self.server.stop()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)
        self._thread.join(30)


class RawClient:
    """Sends and receives messages of the protocol, byte by byte where a test wants it."""

    def __init__(self, port: int) -> None:
        self.line = socket.create_connection(("127.0.0.1", port), 60)

    def start(self, user: str = "raw", **options: str) -> RawClient:
        words = {"user": user, "database": "lot", **options}
        body = struct.pack(">i", 196_608) + b"".join(f"{name}\0{value}\0".encode() for name, value in words.items())
        self.line.sendall(struct.pack(">i", len(body) + 5) + body + b"\0")
        self.until("Z")
        return self

    def send(self, kind: str, body: bytes = b"") -> None:
        self.line.sendall(kind.encode() + struct.pack(">i", len(body) + 4) + body)

    def message(self) -> tuple[str, bytes]:
        kind, length = struct.unpack(">ci", self._read(5))
        return kind.decode(), self._read(length - 4)

    def until(self, *kinds: str) -> list[tuple[str, bytes]]:
        """All messages up to one of these kinds."""
        found = [self.message()]
        while found[-1][0] not in kinds:
            found.append(self.message())
        return found

    def query(self, text: str) -> list[tuple[str, bytes]]:
        self.send("Q", text.encode() + b"\0")
        return self.until("Z")

    def is_closed(self) -> bool:
        self.line.settimeout(10)
        try:
            while self.line.recv(65_536):
                pass
        except ConnectionError:
            pass
        return True

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self.line.recv(count - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    def close(self) -> None:
        self.line.close()


def fields_of(body: bytes) -> dict[str, str]:
    """The fields of an error or a notice."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def wait_until(reached: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)
