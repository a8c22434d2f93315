"""A view as the outlet and the store see it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from tidemill.plan.sources import Column, Schema
from tidemill.runtime.views.sink import Sink

_STORED = {"append_only": "insert_only"}  # fields that have an older name where views are stored


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
    append_only: bool
    retain_us: int | None = None
    sinks: tuple[Sink, ...] = ()

    @property
    def keeps_contents(self) -> bool:
        """False for an append-only STREAMED view: its changes are its contents."""
        return not (self.output == "streamed" and self.append_only and self.retain_us is None)

    @property
    def appends_contents(self) -> bool:
        """An append-only view that keeps its contents: rows are appended to them, and none is ever removed."""
        return self.append_only and self.keeps_contents

    @property
    def takes_files(self) -> bool:
        """Whether rows may stay in answer files: nothing is ever taken back, and nothing has to be forgotten."""
        return self.append_only and (self.output != "streamed" or self.retain_us is None)

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
        return repr((self.columns, self.keys, self.output, self.append_only, self.retain_us is None))

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        return {_STORED.get(name, name): value for name, value in found.items()}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> StoredView:
        columns = tuple(Column(c["name"], c["type"]) for c in data["columns"])
        keys = tuple(data["keys"]) if data["keys"] is not None else None
        given = {name: data[_STORED[name]] for name in _STORED}
        others = {name: value for name, value in data.items() if name not in _STORED.values()}
        sinks = tuple(Sink.from_dict(s) for s in data["sinks"])
        return StoredView(**{**others, **given, "columns": columns, "keys": keys, "sinks": sinks})
