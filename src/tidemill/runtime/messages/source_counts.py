"""What a reader counts of a source in one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidemill.plan.physical import BEGINNING
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.sources.records import MOST_UNDECLARED

_COUNTS = ("rows", "late", "bad", "sent", "behind", "undeclared", "files")
MOST_FILES = 8  # bad as a whole, that are listed by name


@dataclass
class Tally:
    """What one reader saw of one source."""

    rows: int = 0
    late: int = 0
    behind: int = 0  # how far the latest of the late rows was behind what came before it
    bad: int = 0
    sent: int = 0  # bytes
    top: int = BEGINNING
    first: int | None = None
    undeclared: dict[str, int] = field(default_factory=dict)  # fields that no column is declared for
    files: list[str] = field(default_factory=list)  # that are bad as a whole, and why

    def add(self, other: Tally) -> None:
        """Take in what another reader counted of the same source."""
        for name in ("rows", "late", "bad", "sent"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.behind, self.top = max(self.behind, other.behind), max(self.top, other.top)
        for name, count in other.undeclared.items():
            self.undeclared[name] = self.undeclared.get(name, 0) + count
        self.files = self.files + other.files

    def counts(self) -> dict[str, Any]:
        """The counts of the source for the summary of a batch."""
        return {name: getattr(self, name) for name in _COUNTS}

    def note(self, chunk: Chunk) -> None:
        """Add what a chunk reports beside its rows: undeclared fields and bad files, the first ones of many."""
        for name, count in chunk.undeclared.items():
            if name in self.undeclared or len(self.undeclared) < MOST_UNDECLARED:
                self.undeclared[name] = self.undeclared.get(name, 0) + count
        self.files += chunk.files[: max(MOST_FILES - len(self.files), 0)]
