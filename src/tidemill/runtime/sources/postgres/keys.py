"""Which keys a table has: a truncation does not say which rows were there, so they are known before it comes.

Files of changes are deleted when they were read for good. What they say of keys goes before that into a file of its
own, `keys-<from>-<to>.arrow`: the last operation on each key in the slices from..to. Files that follow each other are
merged when the later ones are as large as the first, so each key is written O(log n) times. No file ever changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.sources.postgres import kept_rows
from tidemill.runtime.thresholds import sizes

OPERATION = "\0op"  # no column of a table is named so
_NAME = re.compile(r"keys-(\d+)-(\d+)\.arrow")


def last_changes(pieces: Sequence[pa.Table]) -> pa.Table:
    """The last operation on each key; columns are those of the key, and the operation.

    >>> piece = pa.table({"id": ["1", "2", "1"], OPERATION: ["c", "c", "d"]})
    >>> last_changes([piece]).column(OPERATION).to_pylist(), alive([piece]).to_pylist()
    (['c', 'd'], [{'id': '2'}])
    """
    table = pa.concat_tables(pieces)
    names = [name for name in table.column_names if name != OPERATION]
    numbered = table.append_column("n", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(names).aggregate([("n", "max")]).column("n_max")
    return table.take(last.combine_chunks().sort())


def alive(pieces: Sequence[pa.Table]) -> pa.Table:
    """The keys whose last operation is not a deletion."""
    return _without_deletions(last_changes(pieces)).drop_columns([OPERATION])


def _without_deletions(changes: pa.Table) -> pa.Table:
    return changes.filter(pc.not_equal(changes.column(OPERATION), "d"))


class KeyFiles:
    """The files of keys in the folder of a source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def next_slice(self) -> int:
        """The number of the first slice that no file has."""
        chain = self._chain()
        return chain[-1][1] if chain else 0

    def tables(self) -> list[pa.Table]:
        """What the files say, in the order of the slices."""
        return [from_ipc(kept_rows.read(self._path(*span))) for span in self._chain()]

    def add(self, end: int, pieces: Iterable[pa.Table]) -> None:
        """The changes of keys in the slices that follow, up to slice `end`: durable when this returns."""
        start = self.next_slice()
        self._tidy()
        self._write(start, end, last_changes(list(pieces)))
        octets = [self._path(*span).stat().st_size for span in self._chain()]
        if len(octets) > 1 and (len(octets) > sizes.key_files or sum(octets[1:]) >= octets[0]):
            self._write(0, end, _without_deletions(last_changes(self.tables())))

    def _chain(self) -> list[tuple[int, int]]:
        """Files that follow each other from slice 0 on; of several that begin at one slice, the longest."""
        longest: dict[int, int] = {}
        for start, end in self._spans():
            longest[start] = max(end, longest.get(start, 0))
        chain, at = [], 0
        while at in longest:
            chain.append((at, longest[at]))
            at = longest[at]
        return chain

    def _spans(self) -> list[tuple[int, int]]:
        if not self._folder.is_dir():
            return []
        found = (_NAME.fullmatch(name) for name in os.listdir(self._folder))
        return [(int(match[1]), int(match[2])) for match in found if match]

    def _path(self, start: int, end: int) -> Path:
        return self._folder / f"keys-{start}-{end}.arrow"

    def _write(self, start: int, end: int, table: pa.Table) -> None:
        kept_rows.write(self._path(start, end), ipc_bytes(table))

    def _tidy(self) -> None:
        """Delete the files whose slices are in others."""
        kept = set(self._chain())
        for span in self._spans():
            if span not in kept:
                with suppress(FileNotFoundError):
                    self._path(*span).unlink()
