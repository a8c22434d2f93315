"""What a registered source is: plain data that every process can rebuild from JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

APPLY = "apply"  # the option `late`: late rows correct what can still be corrected
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
class SourceSpec:
    """A raw stream or a static table as REGISTER declared it.

    `kind` is 'files', 'port' or 'generate'; `origin` holds what only that kind needs: files
    {'glob'}, port {'port', 'host'}, generate {'rate', 'rows', 'seed', 'start', 'columns', …}.
    """

    name: str
    kind: Literal["files", "port", "generate"]
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
    unread: Schema = ()  # columns that nobody reads: a record is judged by them all the same
    optional: tuple[str, ...] = ()  # columns that were added later: files without them have NULL there

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
