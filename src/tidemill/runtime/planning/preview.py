"""Reads a few rows before the first batch: statistics for the tables in the readers, and how many bytes rows send.

Without it the first batch has to be small, because it is not known how much its rows will send, and its plan is chosen
without statistics. The footer of a Parquet file has the number of rows, and row groups are read one by one: so the
engine runs the reader over some rows at the beginning and some at the end. Only the counts are kept.

The fast path `preview`: changes the size of the first batch and its plan, no answer; where it gives None, the first
batch is small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidemill.plan.measured.windows import SourceCounts
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.messages.assignments import Work
from tidemill.runtime.paths import Paths
from tidemill.runtime.planning.batch_size import first_rows, is_assumed, is_light
from tidemill.runtime.reader.source_reader import SourceReader
from tidemill.runtime.share.sketches import merge_counts
from tidemill.runtime.sources.connector import Range
from tidemill.runtime.sources.files import columnar, listing
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.files.names import base_directory, packing
from tidemill.runtime.thresholds import sizes


@dataclass(frozen=True)
class Preview:
    """The bytes that a number of rows sends, and what the hash tables did with them (None without tables)."""

    rows: int
    sent: int
    counted: SourceCounts | None


def preview_source(root: str, plan: Physical, source: str) -> Preview | None:
    """Run the plan's reader over the two ends of a source of Parquet files; None where one batch takes them
    all, or where it is not possible: an error in the files is reported when a batch reads them.
    """
    spec = next(s for s in plan.sources if s.name == source)
    if spec.kind != "files" or spec.static or spec.rereads or spec.batch_rows or not is_light(plan, source):
        return None
    try:
        pieces = list(_ends(spec, first_rows(plan, source)))
        looks = [_look(root, plan, source, piece) for piece in pieces]
    except Exception:  # a damaged file, a value that fails: the batch deals with it
        return None
    if not looks or any(look.rows < sizes.telling_rows for look in looks):
        return None
    most = max(looks, key=lambda look: look.sent / look.rows)
    return Preview(most.rows, most.sent, looks[0].counted if is_assumed(plan, source) else None)


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
        yield _piece(first, 0, min(first.length, sizes.preview_rows))
        yield _piece(last, max(0, last.length - sizes.preview_rows), last.length)


def _is_fine(entry: Entry) -> bool:
    """Groups of rows are decoded whole: none may be so large that looking takes longer than it saves."""
    return max(b - a for a, b in pairwise(columnar.footer_of(entry).borders)) <= sizes.preview_group_rows


def _piece(entry: Entry, start: int, end: int) -> Range:
    return Range({"file": entry.n, "at": start}, {"file": entry.n, "at": end}, None, {"files": [vars(entry)]})


def _look(root: str, plan: Physical, source: str, piece: Range) -> Preview:
    """Read a piece with a plan that was not published; its messages go nowhere."""
    reader = SourceReader(Paths(root), plan)
    for _ in reader.read(Work(source, piece, BEGINNING, BEGINNING)):
        pass
    tally, counts = reader.tallies[source], reader.lfta.get(source)
    return Preview(tally.rows, tally.sent, merge_counts(counts) if counts else None)
