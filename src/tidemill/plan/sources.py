"""What a registered source is: plain data that every process can rebuild from JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

APPLY = "apply"  # the option `late`: late rows correct what can still be corrected
SHED_UPDATES = "shed_updates"  # the option with the cap on updates of a key in a clock unit
SHED = "shed"  # the option that says when the cap holds
ALWAYS, OVERLOAD = "always", "overload"
OnError = Literal["dead_letter", "skip", "fail"]

# What a column of operations may hold, in any case: a record of another word, or of none, cannot be read.
UPSERTS = ("insert", "i", "create", "c", "read", "r", "update", "u", "upsert", "+")
DELETES = ("delete", "d", "remove", "-")


@dataclass(frozen=True)
class Column:
    """A column with its DuckDB type name, e.g. Column("price", "DECIMAL(10,2)")."""

    name: str
    type: str


Schema = tuple[Column, ...]


@dataclass(frozen=True)
class SourceKind:
    """A kind of source: the class of its connector as "module:class", formats, and what follows its word in FROM.

    FROM FILES 'glob', FROM PORT n and FROM KAFKA have a syntax of their own. Every other kind is written
    FROM WORD (name = value, …) with these settings, which become its `origin`; `example` shows it in hints.
    """

    connector: str
    formats: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    example: str = ""


_SOURCES = "tidemill.runtime.sources"
KINDS = {
    "port": SourceKind(f"{_SOURCES}.port.connector:Port", ("csv", "json"), example="PORT 5501"),
    "files": SourceKind(
        f"{_SOURCES}.files.directory:Files", ("parquet", "csv", "json", "arrow"), example="FILES 'dir/*.csv'"
    ),
    "generate": SourceKind(
        f"{_SOURCES}.generate.connector:Generate",
        settings=("rate", "rows", "seed", "start", "arrivals"),
        example="GENERATE (rate = 1000)",
    ),
    "kafka": SourceKind(
        f"{_SOURCES}.kafka.connector:Kafka",
        ("json", "csv", "avro", "debezium"),
        example="KAFKA 'localhost:9092' TOPIC 'orders'",
    ),
    "postgres": SourceKind(
        f"{_SOURCES}.postgres.connector:Postgres", example="POSTGRES 'host=db dbname=shop' TABLE 'orders'"
    ),
}
SITE = "site"  # the kind of what another site delivers: made for a name in FROM, never registered
SITE_CONNECTOR = f"{_SOURCES}.site.connector:Site"
CONSTANTS = "constants"  # the kind of rows that a query has itself: origin {'rows'}, how many
CONSTANTS_CONNECTOR = f"{_SOURCES}.constants:ConstantRows"


Position = dict[str, int | str]  # a place in a source; its connector knows what the keys mean


@dataclass(frozen=True)
class SourceSpec:
    """A raw stream or a static table as REGISTER declared it.

    `kind` is a key of KINDS, SITE or CONSTANTS; `origin` holds what only that kind needs: files
    {'glob'}, port {'port', 'host'}, kafka {'brokers', 'topic', 'start'},
    generate {'rate', 'rows', 'seed', 'start', 'columns', …},
    site {'site', 'name', 'text'}.
    """

    name: str
    kind: str
    columns: Schema
    origin: dict[str, Any] = field(default_factory=dict)
    format: str | None = None
    timestamp: str | None = None
    lateness_us: int = 0
    idle_us: int | None = None
    ahead_us: int | None = None  # how far after its time of arrival, and the newest row, an event may be; None: any
    batch_rows: int | None = None
    on_error: OnError = "dead_letter"
    operation: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    static: bool = False
    unread: Schema = ()  # columns that no query reads; a record whose value in one is bad is still a bad record
    optional: tuple[str, ...] = ()  # columns that were added later: files without them have NULL there
    rereads: str | None = None  # the source of which this is a second reading, from the beginning

    @property
    def origin_name(self) -> str:
        """The source whose records these are: itself, or the one that it reads again."""
        return self.rereads or self.name

    @property
    def event(self) -> str | None:
        """The column that event times were taken from: here, or at the site that delivers the rows."""
        return self.timestamp or self.options.get("event")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> SourceSpec:
        """Rebuild what `to_dict` wrote."""
        schemas = {
            part: tuple(Column(c["name"], c["type"]) for c in data.get(part, ())) for part in ("columns", "unread")
        }
        return SourceSpec(**{**data, **schemas, "optional": tuple(data.get("optional", ()))})


_AGAIN, _READING = "#", "@"


def name_again(name: str, number: str) -> str:
    """The name in plans of a source that is registered under the name of an earlier one."""
    return f"{name}{_AGAIN}{number}"


def name_reading(source: str, birth: int) -> str:
    """One reading of a source that is read anew by views of each plan version."""
    return f"{source}{_READING}{birth}"


def registered_name(name: str) -> str:
    """The name under which users know a source of a plan.

    >>> registered_name(name_reading(name_again("Clicks", "7"), 3)), registered_name("Clicks")
    ('Clicks', 'Clicks')
    """
    return name.partition(_AGAIN)[0].partition(_READING)[0]
