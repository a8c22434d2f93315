"""What a drawn workload consists of: inputs, joins over them, views, streams."""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.query_text import Columns, Item, Query, View
from tests.properties.streams import Stream


@dataclass(frozen=True)
class Input:
    """One input of a join: its FROM item, its condition with NOW, and the view below it if there is one."""

    item: Item
    condition: str = ""
    below: View | None = None

    @property
    def columns(self) -> Columns:
        return self.item.columns

    def of(self, *classes: str) -> list[str]:
        return [n for n, c in self.columns.items() if c in classes and not n.endswith(".tm")]

    @property
    def stamp(self) -> str | None:
        return f"{self.item.alias}.TS" if self.item.source.stamped else None


@dataclass(frozen=True)
class Joined(Query):
    """A join in which every input has its own NOW, written ⟨now i⟩: that of its last synchronization point."""

    @property
    def text(self) -> str:
        found = super().text
        for i in range(len(self.items)):
            found = found.replace(f"⟨now {i}⟩", "NOW")
        return found

    def direct(self, now: int) -> str | None:
        found = super().direct(now)
        for i, item in enumerate(self.items):
            found = found and found.replace(f"⟨now {i}⟩", f"({item.moment(now)})")
        return found


@dataclass(frozen=True)
class JoinView(View):
    """A view of a join; the rows of the input `spread` are split over the shards by their content."""

    spread: str = ""

    @property
    def statement(self) -> str:
        found = super().statement
        return found.replace("= true)", f"= true, spread = '{self.spread}')", 1) if self.spread else found


@dataclass(frozen=True)
class Workload:
    """Streams, the views that joins read, the joins and what stands on them; `inputs` of the first join."""

    streams: tuple[Stream, ...]
    below: tuple[View, ...]
    views: tuple[View, ...]
    inputs: int
    facts: frozenset[str]

    def recut(self, cuts: list[tuple[tuple[int, ...], int | None]]) -> tuple[Stream, ...]:
        """The streams in other files and batches."""
        return tuple(s if s.static else s.recut(*cut) for s, cut in zip(self.streams, cuts, strict=True))
