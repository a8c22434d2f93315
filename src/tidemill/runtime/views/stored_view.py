"""A view as the outlet and the store see it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from tidemill.plan.sources import Column, Schema


@dataclass(frozen=True)
class StoredView:
    """What the outlet needs of a view; `id` names its tables and is never used again."""

    id: str
    name: str
    output: Literal["streamed", "complete", "rstream", "istream", "dstream"]
    columns: Schema
    keys: tuple[str, ...] | None
    stamp: str  # SQL that turns __time into the TS that users see
    stamp_type: str
    insert_only: bool
    retain_us: int | None = None
    sinks: tuple[dict[str, Any], ...] = field(default=())

    @property
    def keeps_contents(self) -> bool:
        """False for an insert-only STREAMED view: its changes are its contents."""
        return not (self.output == "streamed" and self.insert_only and self.retain_us is None)

    @property
    def appends_contents(self) -> bool:
        """An insert-only view that keeps its contents: rows are appended to them, and none is ever removed."""
        return self.insert_only and self.keeps_contents

    @property
    def takes_files(self) -> bool:
        """Whether rows may stay in answer files: nothing is ever taken back, and nothing has to be forgotten."""
        return self.insert_only and (self.output != "streamed" or self.retain_us is None)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    @cached_property
    def pool(self) -> str:
        """Stands for the view in the names of the tables that it shares; depends on nothing but the columns."""
        text = json.dumps([(c.name, c.type) for c in self.columns])
        return "pool-" + hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def kind(self) -> str:
        """Views of one kind are changed alike, in the same statements."""
        return repr((self.columns, self.keys, self.output, self.insert_only, self.retain_us is None))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> StoredView:
        columns = tuple(Column(c["name"], c["type"]) for c in data["columns"])
        keys = tuple(data["keys"]) if data["keys"] is not None else None
        return StoredView(**{**data, "columns": columns, "keys": keys, "sinks": tuple(data["sinks"])})
