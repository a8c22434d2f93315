"""The Arrow Flight server of a site: who asks is known by its certificate and its token, then the service answers.

An answer is a stream of one column of bytes: first an envelope that says how many messages follow, then the messages.
So a receiver sees when a stream breaks off.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from tidemill.errors import EngineProblem, TidemillError
from tidemill.runtime.sites.protocol import (
    VERSION,
    Delivery,
    Description,
    Statistics,
    Want,
    Wish,
    encode_problem,
    parse_request,
)

BODY = pa.schema([("body", pa.large_binary())])
TOKEN, NAME = "authorization", "x-tidemill-site"
_log = logging.getLogger(__name__)


class Answers(Protocol):
    """What a site answers to a caller that is known."""

    def describe(self, caller: str, name: str) -> Description: ...

    def measure(self, caller: str, name: str, columns: tuple[str, ...]) -> Statistics: ...

    def greet(self, caller: str, database: str, wishes: dict[str, Wish]) -> dict[str, dict[str, Any]]: ...

    def fetch(self, caller: str, wants: dict[str, Want], patience: float) -> Delivery: ...


@dataclass(frozen=True)
class Identity:
    """The PEM texts of a site: its certificate, the key of it, and the authority that others must be certified by."""

    certificate: bytes
    key: bytes
    authority: bytes


# The name in the certificate (None without TLS), the name that the caller claims, its token → its name, or a refusal.
Admit = Callable[[str | None, str, str], str]


class _Headers(flight.ServerMiddleware):
    def __init__(self, token: str, name: str) -> None:
        self.token, self.name = token, name


class _TakeHeaders(flight.ServerMiddlewareFactory):
    def start_call(self, info: Any, headers: dict[str, list[str]]) -> _Headers:
        lower = {name.lower(): values for name, values in headers.items()}
        token = str((lower.get(TOKEN) or [""])[0]).removeprefix("Bearer ")
        return _Headers(token, str((lower.get(NAME) or [""])[0]))


class SiteServer(flight.FlightServerBase):
    """Serves from its creation until `close`."""

    def __init__(self, host: str, port: int, identity: Identity | None, admit: Admit, answers: Answers) -> None:
        self._admit, self._answers, self._secure = admit, answers, identity is not None
        place = flight.Location.for_grpc_tls(host, port) if identity else flight.Location.for_grpc_tcp(host, port)
        tls: dict[str, Any] = {}
        if identity is not None:
            tls = {
                "tls_certificates": [(identity.certificate, identity.key)],
                "verify_client": True,
                "root_certificates": identity.authority,
            }
        super().__init__(place, middleware={"headers": _TakeHeaders()}, **tls)

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:
        caller = self._caller(context)
        try:
            reply = self._act(caller, str(action.type), parse_request(action.body.to_pybytes()))
        except TidemillError as error:
            reply = {"problem": encode_problem(error)}
        return iter([flight.Result(json.dumps(reply).encode())])

    def do_get(self, context: Any, ticket: Any) -> Any:
        caller = self._caller(context)
        return flight.GeneratorStream(BODY, self._deliver(caller, ticket.ticket))

    def close(self) -> None:
        """Stop serving; requests that are held back have been answered."""
        self.shutdown()

    def _act(self, caller: str, what: str, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("version") != VERSION:
            raise EngineProblem("TM713", "the other site speaks another version", hint="use the same version")
        if what == "describe":
            return {"description": self._answers.describe(caller, str(request.get("name"))).to_json()}
        if what == "measure":
            columns = tuple(map(str, request.get("columns", ())))
            return {"statistics": self._answers.measure(caller, str(request.get("name")), columns).to_json()}
        if what == "greet":
            wishes = {str(edge): _wish(wish) for edge, wish in dict(request.get("wishes", {})).items()}
            return {"refused": self._answers.greet(caller, str(request.get("database")), wishes)}
        raise EngineProblem("TM713", "a request is not what this version understands", hint="use the same version")

    def _deliver(self, caller: str, body: bytes) -> Iterator[Any]:
        """The envelope and the messages, one batch each."""
        envelope: dict[str, Any] = {"messages": 0, "notes": [], "refused": {}}
        found = Delivery()
        try:
            request = parse_request(body)
            wants = {str(edge): _want(want) for edge, want in dict(request.get("wants", {})).items()}
            found = self._answers.fetch(caller, wants, float(request.get("patience", 0.0)))
            envelope = {
                "messages": len(found.messages),
                "notes": [asdict(note) for note in found.notes],
                "refused": found.refused,
                "held": found.held,
            }
        except TidemillError as error:
            envelope["problem"] = encode_problem(error)
        yield _batch(json.dumps(envelope).encode())
        for message in found.messages:
            yield _batch(message)

    def _caller(self, context: Any) -> str:
        headers = context.get_middleware("headers")
        certified = bytes(context.peer_identity()).decode("utf-8", "replace") if self._secure else None
        try:
            return self._admit(certified, headers.name, headers.token)
        except TidemillError as error:
            _log.warning("a request was refused: %s", error.message)
            raise flight.FlightUnauthenticatedError(f"{error.code} {error.message}") from None


def _batch(body: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([body], pa.large_binary())], schema=BODY)


def _wish(data: Any) -> Wish:
    return _read_request(Wish, data, {"text": str, "after": int, "frontier": int, "expires": int})


def _want(data: Any) -> Want:
    until = data.get("until") if isinstance(data, dict) else None
    kinds = {"after": int, "chain": int, "frontier": int, "ended": bool, "room": bool}
    rest = {k: v for k, v in data.items() if k != "until"} if isinstance(data, dict) else data
    found = _read_request(Want, rest, kinds)
    if until is not None and not isinstance(until, int):
        raise EngineProblem("TM713", "a request is not what this version understands", hint="use the same version")
    return Want(found.after, found.chain, found.frontier, found.ended, until, found.room)


def _read_request(kind: Any, data: Any, types: dict[str, type]) -> Any:
    if not isinstance(data, dict) or not all(k in types and isinstance(v, types[k]) for k, v in data.items()):
        raise EngineProblem("TM713", "a request is not what this version understands", hint="use the same version")
    try:
        return kind(**data)
    except TypeError:
        raise EngineProblem(
            "TM713", "a request is not what this version understands", hint="use the same version"
        ) from None
