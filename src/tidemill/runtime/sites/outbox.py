"""The outbox of an edge: messages that another site has not acknowledged yet.

A message is written before its micro-batch is committed, under the number of the batch; a replay writes it again. Only
messages of committed batches leave. What the other site has acknowledged is removed, and the acknowledgement is kept:
a site that acknowledges less than before, or something that was never sent, has another history.
"""

from __future__ import annotations

import os

import pyarrow as pa

from tidemill.errors import EngineProblem
from tidemill.runtime.durable import read_note, write_file, write_note
from tidemill.runtime.integrity import damaged, missing
from tidemill.runtime.sites.message_files import MessageFiles
from tidemill.runtime.sites.messages import NONE, PART_BITS, Link, cut_parts, decode_header, encode, first_seq, verify


class Outbox:
    """The messages of one edge, in a folder of its own."""

    def __init__(self, folder: str, edge: str) -> None:
        self.folder, self.edge = folder, edge
        self.files = MessageFiles(folder)

    # ---- writing, in the outlet ------------------------------------------------------------------

    def write(self, batch: int, rows: pa.Table, before: int, frontier: int) -> int:
        """Write the messages of a batch in the place of those that an earlier attempt left; bytes written."""
        for seq in self.files.list_seqs():
            if seq >= first_seq(batch):
                os.remove(self.files.path(seq))
        if not rows.num_rows:
            return 0
        link, size = self.last(), 0
        for part, (piece, closed) in enumerate(cut_parts(rows, before, frontier)):
            data, link = encode(self.edge, first_seq(batch) + part, link, closed, piece)
            write_file(self.files.path(link.seq), data)
            size += len(data)
        return size

    # ---- reading, for the other site -------------------------------------------------------------

    def acknowledge(self, link: Link, committed: int) -> None:
        """The other site has everything up to `link`: messages up to it are removed. Refused if it was never sent."""
        known = self.last_acknowledged()
        if link.seq < known.seq:
            raise _restored_problem(self.edge, "the other site has acknowledged more before than it knows now")
        if link.seq == known.seq:
            if link.chain != known.chain:
                raise _restored_problem(self.edge, "what the other site has received is not what was sent")
            return
        if link.seq >> PART_BITS > committed or link != self._link(link.seq):
            raise _restored_problem(self.edge, "the other site has received a message that this one has not sent")
        write_note(self._note, {"seq": link.seq, "chain": link.chain})
        self._trim(link.seq)

    def last_acknowledged(self) -> Link:
        """The last message that the other site has acknowledged."""
        found = read_note(self._note)
        return Link(found["seq"], found["chain"]) if found else Link()

    def pending(self, after: int, committed: int, most: int) -> list[bytes]:
        """Messages behind `after` of committed batches, the oldest first: one, and more up to `most` bytes."""
        found: list[bytes] = []
        size, link = 0, self.last_acknowledged()
        if link.seq != after:
            link = self._link(after)
        for seq in self.files.list_seqs():
            if after < seq < first_seq(committed + 1):
                data = self.files.read(seq)
                if found and size + len(data) > most:
                    break
                link = self._check(seq, data, link)
                found.append(data)
                size += len(data)
        return found

    def check(self) -> int:
        """Verify every message; how many there are."""
        link, seqs = self.last_acknowledged(), self.files.list_seqs()
        for seq in seqs:
            if seq > link.seq:
                link = self._check(seq, self.files.read(seq), link)
        return len(seqs)

    def check_end(self, last: int) -> None:
        """Refuse an outbox without the last message that was committed, unless it is acknowledged."""
        if self.last_acknowledged().seq < last and not os.path.exists(self.files.path(last)):
            raise missing(self.files.path(last), f'edge "{self.edge}" has not sent it yet')

    def _check(self, seq: int, data: bytes, before: Link) -> Link:
        """The end of the chain with a message; refused if it is not what was written behind the one before it."""
        path = self.files.path(seq)
        try:
            if decode_header(data, path).after > before.seq:
                raise missing(self.files.path(decode_header(data, path).after), f"{path} follows it")
            header = verify(data, before, path)
        except EngineProblem as problem:
            raise damaged(path, str(problem.detail)) if problem.code == "TM710" else problem from None
        return Link(header.seq, header.chain)

    def last(self) -> Link:
        """The end of the chain."""
        seqs = self.files.list_seqs()
        return self._link(seqs[-1]) if seqs else self.last_acknowledged()

    def last_before(self, batch: int) -> int:
        """The last message of the batches before one."""
        return max((s for s in self.files.list_seqs() if s < first_seq(batch)), default=self.last_acknowledged().seq)

    @property
    def size(self) -> int:
        """Bytes that lie here, without messages that are acknowledged meanwhile."""
        return self.files.size

    @property
    def oldest(self) -> float | None:
        """When the oldest message was written, in seconds; None where there is none."""
        for seq in self.files.list_seqs():
            try:
                return os.path.getmtime(self.files.path(seq))
            except FileNotFoundError:
                continue
        return None

    def _trim(self, seq: int) -> None:
        for old in self.files.list_seqs():
            if old <= seq:
                os.remove(self.files.path(old))

    def _link(self, seq: int) -> Link:
        try:
            header = self.files.read_header(seq)
        except FileNotFoundError:
            return Link(NONE, NONE)
        return Link(seq, header.chain)

    @property
    def _note(self) -> str:
        return os.path.join(self.folder, "acknowledged.json")


def _restored_problem(edge: str, why: str) -> EngineProblem:
    return EngineProblem(
        "TM711",
        f'the two ends of edge "{edge}" do not fit: one of the databases was restored from a backup',
        detail=why,
        hint="DROP the views that read it and create them again",
    )
