"""What a reader counts of a source in one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Required, TypedDict

from tidemill.plan.physical import BEGINNING
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.sources.records import MOST_UNDECLARED

MOST_FILES = 8  # bad as a whole, that are listed by name


class TallyCounts(TypedDict, total=False):
    """What all readers saw of one source in a batch, for those who look at batches."""

    rows: Required[int]
    late: Required[int]
    bad: Required[int]
    sent: Required[int]
    behind: Required[int]
    undeclared: Required[dict[str, int]]
    files: Required[list[str]]
    shed: int  # updates beyond the cap of the source
    new_fields: list[str]  # undeclared ones that were not reported before


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

    def counts(self) -> TallyCounts:
        """The counts of the source for the summary of a batch."""
        return {
            "rows": self.rows,
            "late": self.late,
            "bad": self.bad,
            "sent": self.sent,
            "behind": self.behind,
            "undeclared": self.undeclared,
            "files": self.files,
        }

    def note(self, chunk: Chunk) -> None:
        """Add what a chunk reports beside its rows: undeclared fields and bad files, the first ones of many."""
        for name, count in chunk.undeclared.items():
            if name in self.undeclared or len(self.undeclared) < MOST_UNDECLARED:
                self.undeclared[name] = self.undeclared.get(name, 0) + count
        self.files += chunk.files[: max(MOST_FILES - len(self.files), 0)]
