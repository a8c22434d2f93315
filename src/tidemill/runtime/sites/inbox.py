"""The inbox of an edge: messages that arrived from another site, in the folder of their source.

A message is appended and synced, and then the head, which is what the next request acknowledges. A message that is
there already is dropped, one that leaves out another is refused. The head also says how far time is closed and whether
the other site has ended; that may move without a message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EngineProblem
from tidemill.plan.physical import BEGINNING
from tidemill.runtime.durable import read_note, write_file, write_note
from tidemill.runtime.integrity import damaged, missing
from tidemill.runtime.sites.message_files import MessageFiles
from tidemill.runtime.sites.messages import NONE, TIME, Header, Link, decode_header, read_rows, verify


@dataclass(frozen=True)
class Head:
    """How far an inbox reaches."""

    seq: int = NONE
    chain: int = 0
    frontier: int = BEGINNING  # no row before this time follows
    ended: bool = False  # the other site's input is over
    end: int = BEGINNING  # the greatest time of its input, where it is over for good

    @property
    def link(self) -> Link:
        """What is acknowledged."""
        return Link(self.seq, self.chain)


class Inbox:
    """The messages of one edge. One process appends; any process may read what the head names."""

    def __init__(self, folder: str, edge: str) -> None:
        self.folder, self.edge = folder, edge
        self.files = MessageFiles(folder)

    # ---- receiving -------------------------------------------------------------------------------

    def recover(self) -> None:
        """Remove what a crash left behind the head: it was never acknowledged, and is sent again."""
        head = self.head()
        for seq in self.files.list_seqs():
            if seq > head.seq:
                os.remove(self.files.path(seq))

    def append(self, data: bytes, check: Callable[[pa.Table], None] | None = None) -> bool:
        """Keep a message; False for one that is there already. One that does not follow the last is refused, and one
        whose rows `check` refuses.
        """
        head = self.head()
        header = decode_header(data, self._what)
        if header.edge != self.edge:
            raise EngineProblem(
                "TM712", f'a message of edge "{header.edge}" arrived on edge "{self.edge}"', hint="see status"
            )
        if header.seq <= head.seq:
            return False
        if header.after != head.seq:
            raise EngineProblem(
                "TM712",
                f'edge "{self.edge}" misses a message',
                detail=f"message {header.seq} follows {header.after}, and the last one here is {head.seq}",
                hint="it is asked for again; see status if it stays",
            )
        header = verify(data, head.link, self._what)
        rows = read_rows(data, header, self._what)
        if check is not None and rows.num_rows:
            check(rows)
        self._check_times(rows, head)
        write_file(self.files.path(header.seq), data)
        self._write_head(Head(header.seq, header.chain, max(head.frontier, header.frontier)))
        return True

    def note(self, after: int, frontier: int, ended: bool, end: int) -> bool:
        """Time is closed up to `frontier` behind message `after`; False where that says nothing new."""
        head = self.head()
        if after != head.seq or frontier < head.frontier:
            return False
        new = replace(head, frontier=frontier, ended=ended, end=max(head.end, end))
        if new == head:
            return False
        self._write_head(new)
        return True

    def _check_times(self, rows: pa.Table, head: Head) -> None:
        """No row comes before what was closed."""
        least = pc.min(rows.column(TIME)).as_py()
        if least is not None and least < head.frontier:
            raise EngineProblem(
                "TM712",
                f'a message of edge "{self.edge}" has rows before its time',
                detail=f"a row of time {least}, and time is closed up to {head.frontier}",
                hint="the other site may have been restored from a backup; DROP the views that read it",
            )

    # ---- reading ---------------------------------------------------------------------------------

    def head(self) -> Head:
        """How far the inbox reaches."""
        found = read_note(self._head)
        return Head(**found) if found else Head()

    def headers(self, after: int, until: int) -> list[Header]:
        """The headers of the messages in (after, until], in order."""
        return [self.files.read_header(seq) for seq in self.files.list_seqs() if after < seq <= until]

    def rows(self, header: Header) -> pa.Table:
        """The rows of a message; one that is not what arrived is refused."""
        path = self.files.path(header.seq)
        data = self.files.read(header.seq)
        before = self._link_before(header)
        try:
            if before is not None:
                verify(data, before, path)
            return read_rows(data, header, path)
        except EngineProblem as problem:
            raise damaged(path, f"{problem.detail} (the one before it: {self.files.path(header.after)})") from None

    def follow(self, after: int, until: int) -> Iterator[Header]:
        """The headers of the messages in (after, until], each of which follows the one before it."""
        for header in self.headers(after, until):
            if header.after != after:
                raise missing(self.files.path(header.after), f"message {header.seq} follows it")
            after = header.seq
            yield header
        if after != until:
            raise missing(self.files.path(until), "a batch reads it")

    def check(self) -> int:
        """Verify every message up to the head; how many there are."""
        seqs, head = self.files.list_seqs(), self.head()
        if seqs:
            first = self.files.read_header(seqs[0])
            for header in (first, *self.follow(first.seq, max(head.seq, first.seq))):
                self.rows(header)
        return len(seqs)

    def lost_head(self, seq: int) -> EngineProblem:
        """A head that ends before what was read."""
        why = f"the inbox ends with message {self.head().seq}, and {seq} has been read"
        return damaged(self._head, why) if os.path.exists(self._head) else missing(self._head, why)

    def trim(self, seq: int) -> None:
        """Messages up to this one are never read again; the chain up to them is kept, which the next continues."""
        gone = [old for old in self.files.list_seqs() if old <= seq]
        if gone:
            write_note(self._read_note, asdict(Link(gone[-1], self.files.read_header(gone[-1]).chain)))
        for old in gone:
            os.remove(self.files.path(old))

    @property
    def size(self) -> int:
        """Bytes that lie here, without messages that are read meanwhile."""
        return self.files.size

    def _link_before(self, header: Header) -> Link | None:
        """The message before one; None where it is not known, of an older version."""
        if header.after == NONE:
            return Link()
        try:
            return Link(header.after, self.files.read_header(header.after).chain)
        except FileNotFoundError:
            found = read_note(self._read_note)
            return Link(**found) if found.get("seq") == header.after else None

    def _write_head(self, head: Head) -> None:
        write_note(self._head, asdict(head))

    @property
    def _what(self) -> str:
        return f'edge "{self.edge}"'

    @property
    def _read_note(self) -> str:
        return os.path.join(self.folder, "read.json")

    @property
    def _head(self) -> str:
        return os.path.join(self.folder, "head.json")
