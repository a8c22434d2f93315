"""An HTTP server in this process, over a database without Spark; and a client that keeps cookies."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

from tidemill.serve.http.server import HttpServer
from tidemill.serve.postgres.server import PostgresServer
from tidemill.serve.postgres.services import Limits, Services


class HttpThread:
    """Both servers of a database, with a loop of their own."""

    def __init__(self, db: Any, port: int = 0, certificate: Any = None, tls: Any = None, **limits: Any) -> None:
        self.db, self.limits, self._wanted = db, Limits(**limits), port
        self._certificate, self._tls = certificate, tls
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self) -> None:
        self.loop, self.stopping = asyncio.get_running_loop(), asyncio.Event()
        services = Services(self.db, "lot", self._tls, self.limits)
        self.postgres = PostgresServer(services)
        self.postgres_port = await self.postgres.start("127.0.0.1", 0)
        self.server = HttpServer(services, lambda: len(self.postgres.connections))
        files = (str(self._certificate / "cert.pem"), str(self._certificate / "key.pem")) if self._certificate else ()
        self.port = await self.server.start("127.0.0.1", self._wanted, *files)
        self._ready.set()
        await self.stopping.wait()
        await self.server.stop()
        await self.postgres.stop()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)
        self._thread.join(30)

    def client(self, *, logged_in: bool = True) -> Client:
        found = Client(self.port)
        if logged_in:
            assert found.post("/api/login", {"token": self.server.sessions.token})[0] == 200
        return found


class Client:
    """Requests to a server, with the cookies that it gave."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie = port, ""
        self.headers: dict[str, str] = {}

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {**({"Content-Type": "application/json"} if body is not None else {}), **self._headers(headers)}
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            line.request(method, path, data, sent)
            answer = line.getresponse()
            raw = answer.read()
        finally:
            line.close()
        given = answer.headers.get("Set-Cookie")
        if given:
            self.cookie = given.partition(";")[0]
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(raw) if is_json else raw.decode(), answer.headers

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return self.request("GET", path, **headers)[:2]

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        return self.request("POST", path, body, **headers)[:2]

    def events(self, path: str, **headers: str) -> Events:
        return Events(self.port, path, self._headers(headers))

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        return {**cookie, **self.headers, **{name.replace("_", "-"): value for name, value in more.items()}}


class Events:
    """Server-sent events, one after the other: (name, data, id)."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.line.request("GET", path, headers=headers)
        self.answer = self.line.getresponse()
        self.status = self.answer.status

    def __iter__(self) -> Iterator[tuple[str, Any, str | None]]:
        found: dict[str, str] = {}
        while raw := self.answer.readline():
            text = raw.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                found[name] = value
            elif "event" in found:
                yield found["event"], json.loads(found["data"]), found.get("id")
                found = {}

    def next(self) -> tuple[str, Any, str | None]:
        return next(iter(self))

    def close(self) -> None:
        self.answer.close()
        self.line.close()
