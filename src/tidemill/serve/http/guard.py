"""What every request passes: whose page sent it, how long it may be, and what browsers are told about the answer.

A page of another site can make a browser send requests here. It cannot give them our Host (a name of its own that it
points at this machine would be in it) nor our Origin, and it cannot read the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.serve.postgres.tls import is_loopback

MOST_BYTES = 4 << 20  # of a request
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Refuses requests of foreign pages and of foreign names, and those that are too long. While everyone may do
    everything, those of other machines too.
    """

    def __init__(self, app: ASGIApp, has_tls: bool, is_open: Callable[[], bool]) -> None:
        self._app, self._scheme, self._is_open = app, "https" if has_tls else "http", is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refuse_stranger(scope["client"]) or self._refuse(
            scope["method"], {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        )

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await (refusal or self._app)(scope, receive, send_guarded)

    def _refuse_stranger(self, client: tuple[str, int] | None) -> Any:
        if client is None or is_loopback(client[0]) or not self._is_open():
            return None
        return _problem(403, "the database has no users: it takes requests of this machine", "CREATE USER")

    def _refuse(self, method: str, headers: dict[str, str]) -> Any:
        """The answer to a request that goes no further."""
        host = headers.get("host", "")
        # With TLS the certificate already binds the name.
        if self._scheme == "http" and not _is_here(host):
            return _problem(421, f'"{host}" is not a name of this server', "use 127.0.0.1 or localhost")
        origin = headers.get("origin")
        if origin is not None and origin != f"{self._scheme}://{host}":
            return _problem(403, "the request comes from a page of another site", "Origin must be this server")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and method != "GET":
            return _problem(403, "the request comes from a page of another site", "Sec-Fetch-Site")
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _problem(415, "a request body is JSON", "Content-Type: application/json")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return _problem(413, f"a request has at most {MOST_BYTES:,} bytes")
        return None


def _is_here(host: str) -> bool:
    """
    >>> _is_here("localhost:8380"), _is_here("[::1]:1"), _is_here("evil.example:8380"), _is_here("")
    (True, True, False, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def _problem(status: int, message: str, hint: str | None = None) -> JSONResponse:
    return JSONResponse({"error": {"code": None, "message": message, "hint": hint}}, status)
