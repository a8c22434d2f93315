"""A sink as the catalog stores it, and as the outlet writes to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tidemill.runtime.targets.target import KINDS


@dataclass(frozen=True)
class Sink:
    """`target` is "files", "console" or a kind of target, `place` where in the target it writes. `id` names the sink in
    its target: a sink that is created again is another one. Sinks of an older version have none.
    """

    name: str
    target: str
    path: str = ""  # of files
    options: dict[str, Any] = field(default_factory=dict)  # as they were given, checked
    id: str = ""
    place: dict[str, str] = field(default_factory=dict)

    @property
    def is_external(self) -> bool:
        """Whether it writes to another system."""
        return self.target in KINDS

    @property
    def format(self) -> str:
        """Of files: parquet or json."""
        return str(self.options.get("format", "parquet"))

    @property
    def begins_with_snapshot(self) -> bool:
        """Whether its first batch has what the view holds."""
        return bool(self.id and self.options.get("snapshot"))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` is its inverse."""
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Sink:
        """Rebuild what `to_dict` wrote, or an older version."""
        known = {f.name for f in fields(Sink)}
        return Sink(**{name: value for name, value in data.items() if name in known and value is not None})
