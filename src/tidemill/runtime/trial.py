"""A look at a few rows before the first batch: what they tell of the tables in the readers, and how much they send.

Without it the first batch has to be small, because nobody knows what its rows will send, and its plan is chosen without
statistics. Footers of Parquet files say how many rows there are, and groups of rows are read alone: so the engine runs
the reader over some rows at the beginning and some at the end. Nothing of it is kept but the counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.layout import Paths
from tidemill.runtime.planner import Assignment, Work, first_rows, is_assumed, is_light
from tidemill.runtime.reader import Reader
from tidemill.runtime.sketches import merged
from tidemill.runtime.sources.connector import Range
from tidemill.runtime.sources.files import columnar, listing
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.places import base_directory, packing
from tidemill.runtime.thresholds import sizes


@dataclass(frozen=True)
class Tried:
    """How many bytes so many rows of a source send, and what its hash tables did with them (None without tables)."""

    rows: int
    sent: int
    counted: dict[str, Any] | None


def tried(root: str, plan: Physical, source: str) -> Tried | None:
    """Run the plan's reader over the two ends of a source of Parquet files; None where that would tell nothing new, or
    where it is not possible: whatever is wrong with the files is found when they are read.
    """
    spec = next(s for s in plan.sources if s.name == source)
    if spec.kind != "files" or spec.static or spec.batch_rows or not is_light(plan, source):
        return None
    try:
        pieces = list(_ends(spec, first_rows(plan, source)))
        looks = [_look(root, plan, source, piece) for piece in pieces]
    except Exception:  # a damaged file, a value that fails: the batch deals with it
        return None
    if not looks or any(look.rows < sizes.telling_rows for look in looks):
        return None
    most = max(looks, key=lambda look: look.sent / look.rows)
    return Tried(most.rows, most.sent, looks[0].counted if is_assumed(plan, source) else None)


def _ends(spec: SourceSpec, enough: int) -> Iterator[Range]:
    """The first rows of the first file and the last ones of the last; nothing when one batch takes them all anyway."""
    pattern = os.path.abspath(spec.origin["glob"])
    found = list(listing.new_files(pattern, set()))
    if not found or any(packing(path) for path, _ in (found[0], found[-1])):
        return
    base = base_directory(pattern)
    entries = [
        Entry(n=n, path=path, arrival_us=0, **listing.describe(path, facts, spec, base, live=False))
        for n, (path, facts) in enumerate((found[0], found[-1]))
    ]
    first, last = entries
    rows = first.length * sum(facts.st_size for _, facts in found) / first.size
    if rows <= enough or any(e.bad is not None or e.format != "parquet" for e in entries):
        return
    if all(_is_fine(e) for e in entries):
        yield _piece(first, 0, min(first.length, sizes.tried_rows))
        yield _piece(last, max(0, last.length - sizes.tried_rows), last.length)


def _is_fine(entry: Entry) -> bool:
    """Groups of rows are decoded whole: none may be so large that looking takes longer than it saves."""
    return max(b - a for a, b in pairwise(columnar.shape_of(entry).borders)) <= sizes.tried_group_rows


def _piece(entry: Entry, start: int, end: int) -> Range:
    return Range({"file": entry.n, "at": start}, {"file": entry.n, "at": end}, None, {"files": [vars(entry)]})


def _look(root: str, plan: Physical, source: str, piece: Range) -> Tried:
    reader = _Trial(root, plan, Work(source, piece, BEGINNING, BEGINNING))
    tally, notes = reader.taken(), reader.lfta.get(source)
    counted = merged(notes) if notes else None
    return Tried(tally.rows, tally.sent, counted)


class _Trial(Reader):
    """A reader of a plan that nobody has published; its messages go nowhere."""

    def __init__(self, root: str, plan: Physical, work: Work) -> None:
        self.given, self.work = plan, work
        super().__init__(root, Assignment(0, plan.version, (work,), ()))

    def __post_init__(self) -> None:
        self.paths, self.plan, self.dead, self.failed = Paths(self.root), self.given, [], {}
        self.ops = {op.id: op for op in self.plan.reader}

    def taken(self) -> Any:
        """Read everything; what was read and sent."""
        for _ in self._counted(self.work):
            pass
        return self.tallies[self.work.source]
