"""What two sites say to each other. Requests and replies are JSON and rows; no plan and no code ever travels.

The site that reads asks. `greet` names all edges that it has, with the SQL text of each; the other site binds new ones
against what it exports, and forgets those that are not named any more. `fetch` says of each edge what has arrived,
which acknowledges it, and which time is waited for; the answer is held back until there is something to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from tidemill.errors import CatalogProblem, EngineProblem, PlanProblem, SourceProblem, SyntaxProblem, TidemillError
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sources import Column, Schema
from tidemill.runtime.sites.messages import NONE, is_number, is_time

VERSION = 1
REQUEST_BYTES = 1 << 20  # a longer request is refused
HEARTBEAT_S = 10.0  # the answer to a request is held back so long, if there is nothing to say


@dataclass(frozen=True)
class Description:
    """What a site says about a stream or a view that it exports."""

    name: str
    columns: Schema
    unit_us: int
    key: tuple[str, ...] = ()
    event: str | None = None  # the column that times are taken from
    operation: str | None = None
    key_null: bool = False
    is_view: bool = False  # its changes are shipped, not its records
    keyed: bool = True  # views: whether `key` identifies a row; an empty key is that of one row
    domain: str | None = None  # views: how times are shown
    period: tuple[int, int] | None = None  # views: length and offset of the periods at which it is refreshed
    stamp: str = ""  # the column that has the TS of a row, where that is not the time of its coming
    edge: str = ""  # of what is lent to the caller for a join: the edge that delivers it
    rate: float = 0.0  # rows a second of event time so far; 0: not known
    answers_back: bool = False  # whether the site that owns it can read from the caller in turn

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Description:
        columns = tuple(Column(str(c["name"]), str(c["type"])) for c in data["columns"])
        period = tuple(data["period"]) if data.get("period") else None
        return Description(**{**data, "columns": columns, "key": tuple(data["key"]), "period": period})


@dataclass(frozen=True)
class Statistics:
    """What a site knows of a stream: rows a second of event time, and of some rows their number, the bytes of their
    columns on average as they travel, a sample of the values that were asked for, and the bytes of one of these. 0, {}
    and "": not known.
    """

    rate: float = 0.0
    rows: int = 0
    widths: dict[str, float] = field(default_factory=dict)
    values: str = ""
    key_bytes: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Statistics:
        widths = {str(name): float(size) for name, size in dict(data["widths"]).items()}
        key_bytes = float(data.get("key_bytes", 0.0))
        return Statistics(float(data["rate"]), int(data["rows"]), widths, str(data["values"]), key_bytes)


@dataclass(frozen=True)
class Wish:
    """An edge that a site wants to read: the SQL text of its rows, and what has arrived of them."""

    text: str
    after: int = NONE
    frontier: int = BEGINNING
    expires: int = -1  # this many microseconds after its stamp a row counts no more: it need not be taken back later


@dataclass(frozen=True)
class Want:
    """What a site has of an edge, and up to which time it waits; None: only rows are waited for."""

    after: int
    chain: int
    frontier: int
    ended: bool = False
    until: int | None = None
    room: bool = True  # whether rows may be sent


@dataclass(frozen=True)
class Note:
    """Of one edge: behind message `after` time is closed up to `frontier`. Of what the edge reads, all rows with
    a stamp after `begun` are taken into account; None: it has not begun yet.
    """

    edge: str
    after: int
    frontier: int
    ended: bool = False
    end: int = BEGINNING
    begun: int | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> Note:
        """A note as it arrives; ValueError or TypeError where it is none."""
        found = Note(**{**data})
        sound = isinstance(found.edge, str) and is_number(found.after) and isinstance(found.ended, bool)
        sound = sound and (found.begun is None or is_time(found.begun))
        if not (sound and is_time(found.frontier) and is_time(found.end)):
            raise ValueError("not a note of an edge")
        return found


@dataclass(frozen=True)
class Delivery:
    """The answer to a request: messages of edges, what is closed behind them, and edges that are refused."""

    messages: tuple[bytes, ...] = ()
    notes: tuple[Note, ...] = ()
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0  # from the first to the last byte, where that was measured
    held: float = 0.0  # seconds for which the other site had the request

    @property
    def is_empty(self) -> bool:
        return not (self.messages or self.notes or self.refused)


class Peer(Protocol):
    """Another site, as the one that reads from it sees it. Every call may fail with a TidemillError."""

    def describe(self, name: str) -> Description: ...

    def measure(self, name: str, columns: tuple[str, ...]) -> Statistics: ...

    def greet(self, database: str, wishes: dict[str, Wish]) -> dict[str, dict[str, Any]]: ...

    def fetch(self, wants: dict[str, Want], patience: float) -> Delivery: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


Connect = Callable[[dict[str, Any]], Peer]  # the options of a site → the site

_KINDS = {k.__name__: k for k in (CatalogProblem, EngineProblem, PlanProblem, SourceProblem, SyntaxProblem)}


def encode_problem(error: TidemillError) -> dict[str, Any]:
    """An error as it travels: its place in a text stays here."""
    return {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
    }


def decode_problem(site: str, found: dict[str, Any]) -> TidemillError:
    """The error that a site answered with."""
    kind = _KINDS.get(str(found.get("kind")), EngineProblem)
    detail = f"said by site {site}" + (f": {found['detail']}" if found.get("detail") else "")
    return kind(str(found.get("code")), str(found.get("message")), detail=detail, hint=found.get("hint"))


def parse_request(body: bytes) -> dict[str, Any]:
    """A request; one that is too long or no JSON object is refused."""
    if len(body) > REQUEST_BYTES:
        raise EngineProblem(
            "TM713", f"a request has {len(body):,} bytes", hint=f"at most {REQUEST_BYTES:,}: read fewer edges"
        )
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise EngineProblem("TM713", "a request is not what this version understands", hint="use the same version")
    return found
