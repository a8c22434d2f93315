"""What a reader counts of a source in one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.plan.physical import BEGINNING
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.sources.records import MOST_UNDECLARED

MOST_FILES = 8  # that are bad as a whole, of which is told by name


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

    def note(self, chunk: Chunk) -> None:
        """Take in what a chunk tells beside its rows; of many things, the first ones."""
        for name, count in chunk.undeclared.items():
            if name in self.undeclared or len(self.undeclared) < MOST_UNDECLARED:
                self.undeclared[name] = self.undeclared.get(name, 0) + count
        self.files += chunk.files[:max(MOST_FILES - len(self.files), 0)]
