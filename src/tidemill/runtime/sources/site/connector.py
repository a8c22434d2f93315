"""The connector of an edge: reads the inbox that a conversation with another site fills; any process may.

What arrives has its times from the other site and is in their order. The clock of the source is the frontier that
travelled with the rows, so no row is ever late.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.messages import DIFF, NONE, SEQ, TIME, Header, damaged_message
from tidemill.runtime.sources.columns import FARTHEST_US, arrow_schema
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.records import bad_table, make_chunk


class Site:
    """Positions are {"seq": n}, the last message that was read."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        arrow_schema(spec.columns)
        self.spec = spec
        self._inbox = Inbox(directory, spec.name)

    def initial(self) -> Position:
        return {"seq": NONE}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        head, first = self._inbox.head(), int(start["seq"])
        if head.seq < first:
            raise self._inbox.lost_head(first)
        taken = self._admit(self._inbox.headers(first, head.seq), max_rows)
        end = taken[-1].seq if taken else first
        if end < head.seq:
            return Progress({"seq": end}, False, taken[-1].frontier)
        return Progress({"seq": end}, live or head.ended, head.frontier, head.end)

    def _admit(self, headers: list[Header], max_rows: int | None) -> list[Header]:
        """The first messages, with at most max_rows rows together, and one at least."""
        taken: list[Header] = []
        rows = 0
        for header in headers:
            if taken and max_rows is not None and rows + header.rows > max_rows:
                break
            taken.append(header)
            rows += header.rows
        return taken

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        first, last = int(start["seq"]), int(end["seq"])
        seqs = [h.seq for h in self._inbox.follow(first, last)]
        if not seqs:
            return []
        cuts = sorted({seqs[len(seqs) * i // parts - 1] for i in range(1, parts + 1) if len(seqs) * i // parts})
        return [Range({"seq": a}, {"seq": b}, None) for a, b in pairwise([first, *cuts])]

    def read(self, piece: Range) -> Iterator[Chunk]:
        for header in self._inbox.follow(int(piece.start["seq"]), int(piece.end["seq"])):
            yield self._chunk(self._inbox.rows(header))

    def _chunk(self, rows: pa.Table) -> Chunk:
        schema = arrow_schema(self.spec.columns)
        plain = rows.select(schema.names).cast(schema)
        if DIFF not in rows.column_names:
            return make_chunk(plain, rows.column(SEQ).to_numpy, rows.column(TIME).to_numpy, [])
        stamps = {SEQ: rows.column(TIME), "__arrival": rows.column(TIME), DIFF: rows.column(DIFF)}

        def stamp() -> pa.Table:
            return pa.table({**dict(zip(plain.column_names, plain.columns, strict=True)), **stamps})

        return Chunk(plain, bad_table([]), stamp)

    def trim(self, committed: Position) -> None:
        """Messages up to the position are never read again."""
        self._inbox.trim(int(committed["seq"]))


def check_rows(spec: SourceSpec, rows: pa.Table) -> None:
    """Refuse rows that the source could not read: other columns, values of another type, no times or numbers."""
    schema, numbers = arrow_schema(spec.columns), DIFF if spec.options.get("changes") else SEQ
    try:
        rows.select(schema.names).cast(schema)
        stamps = [rows.column(name) for name in (TIME, numbers)]
    except (KeyError, pa.ArrowException) as error:
        raise damaged_message(f'edge "{spec.name}"', str(error).splitlines()[0].strip("'\"")[:200]) from None
    if any(not pa.types.is_int64(column.type) or column.null_count for column in stamps):
        raise damaged_message(f'edge "{spec.name}"', "its rows have no times, or no numbers")
    if max((abs(t) for t in pc.min_max(stamps[0]).as_py().values() if t is not None), default=0) > FARTHEST_US:
        raise damaged_message(f'edge "{spec.name}"', "it has rows at times that cannot be")
