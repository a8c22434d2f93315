"""The statements of the language as plain data, parsed and not yet bound.

Two statements are equal when they say the same; their position in the text does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from sqlglot import exp

from tidemill.plan.sources import Schema

Output = Literal["streamed", "complete", "rstream", "istream", "dstream", "virtual"]
StandingOutput = Literal["streamed", "rstream", "istream", "dstream"]
STREAM_OUTPUTS = ("rstream", "istream", "dstream")  # append-only rows that have their time as the column TS
DropKind = Literal["source", "table", "stream", "view", "sink", "query", "aggregate", "function", "site"]
Privilege = Literal["select", "create", "all"]
ShowKind = Literal[
    "sources",
    "tables",
    "streams",
    "views",
    "sinks",
    "queries",
    "aggregates",
    "functions",
    "all",
    "dead_letters",
    "settings",
    "plans",
    "users",
    "sites",
    "time_zone",
]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """`text` is the exact source of the statement, `line` (from 1) is where it begins.

    `places` has the line and column of the value of each option, by its name in lower case.
    """

    text: str = field(default="", compare=False, repr=False)
    line: int = field(default=1, compare=False)
    places: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class RegisterSource(Statement):
    """REGISTER SOURCE: a raw stream.

    `origin` holds port {'port', 'host' if given}, files {'glob'}, or generate {'columns', and those
    of 'rate', 'rows', 'seed', 'start', 'arrivals' that are given}.
    """

    name: str
    columns: Schema
    kind: str  # a key of plan.sources.KINDS
    origin: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class RegisterTable(Statement):
    """REGISTER TABLE: a static relation, always from files: `origin` is {'glob'}."""

    name: str
    columns: Schema
    origin: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateTaggedStream(Statement):
    """CREATE TAGGED STREAM: append-only without a key, an update stream with one."""

    name: str
    source: str
    key: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE VIEW: `output` is 'complete' where nothing is said; 'virtual' is unfolded into its readers."""

    name: str
    output: Output
    query: exp.Expression
    options: dict[str, Any] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    """CREATE SINK: `path` is given when the target is 'files' or 'delta', `place` for other systems."""

    name: str
    view: str
    target: Literal["files", "console", "kafka", "postgres", "delta", "iceberg"]
    path: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False
    place: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateSite(Statement):
    """CREATE SITE: another database, or with `local` this one, by its name and address. Options name files."""

    name: str
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    local: bool = False


@dataclass(frozen=True)
class Export(Statement):
    """EXPORT … TO SITE, or with `revoked` REVOKE … FROM SITE: what another site may read."""

    kind: Literal["stream", "view"]
    name: str
    site: str
    revoked: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    """DROP: without `cascade` it is refused while something still needs the name."""

    kind: DropKind
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class CreateUser(Statement):
    """CREATE USER: a user of the server. The password is neither shown nor stored; its verifier is."""

    name: str
    password: str = field(repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterUser(Statement):
    """ALTER USER: another password."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class DropUser(Statement):
    """DROP USER: the user and all that was granted to it."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Grant(Statement):
    """GRANT: users may read some views (`names`), or define things (create), or do everything (all)."""

    privilege: Privilege
    names: tuple[str, ...]
    users: tuple[str, ...]


@dataclass(frozen=True)
class Revoke(Statement):
    """REVOKE: take back what was granted."""

    privilege: Privilege
    names: tuple[str, ...]
    users: tuple[str, ...]


@dataclass(frozen=True)
class Restart(Statement):
    """RESTART VIEW: a view that was stopped is made anew, with what it reads and what reads it."""

    name: str


@dataclass(frozen=True)
class RestartSource(Statement):
    """RESTART SOURCE: a source is read from its beginning, with other options, and what reads it begins anew."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Skip(Statement):
    """SKIP BATCH OF: the records of a source in the batch that cannot be done become dead letters."""

    source: str


@dataclass(frozen=True)
class Show(Statement):
    """SHOW: a listing."""

    what: ShowKind


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE: the columns of anything that has a name."""

    name: str


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN: the plan of a Select or a CreateView, of a named view, or of everything.

    A named view is an exp.Table; None stands for the whole plan.
    """

    target: Statement | exp.Expression | None = None


@dataclass(frozen=True)
class AlterSource(Statement):
    """ALTER SOURCE … ADD COLUMN: columns that records may have from now on."""

    name: str
    columns: Schema


@dataclass(frozen=True)
class Why(Statement):
    """EXPLAIN WHY: what a view has seen and what it waits for."""

    name: str


@dataclass(frozen=True)
class AsOf:
    """AS OF: clock units, a point in time as text, or None for LATEST: every view as it is; or a batch. `place` is its
    position.
    """

    value: Decimal | str | None
    place: tuple[int, int] = field(default=(1, 1), compare=False)
    batch: int | None = None


@dataclass(frozen=True)
class Subscribe(Statement):
    """SUBSCRIBE: follow the changes of a view, or of several (`others`), which are then delivered together.

    With `as_of` the changes after that time or batch, without the contents. With `progress` also up to which time all
    changes were delivered; `by_batch`: whole batches, and which.
    """

    name: str
    others: tuple[str, ...] = ()
    as_of: AsOf | None = None
    progress: bool = False
    by_batch: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (self.name, *self.others)


@dataclass(frozen=True)
class Set(Statement):
    """SET: change a setting; `name` is in lower case."""

    name: str
    value: str | int | float | bool


@dataclass(frozen=True)
class Select(Statement):
    """A bare query: ad hoc when `output` is None, otherwise a standing query. `as_of` is of ad hoc queries only."""

    query: exp.Expression
    output: StandingOutput | None = None
    options: dict[str, Any] = field(default_factory=dict)
    as_of: AsOf | None = None
