"""Files of a lake that workers write: the driver only commits them.

Rows get from the driver to the workers in a file of the database directory, which all of them see and map, so no row
passes the JVM. A file of the lake has a name that no other attempt gives: what a batch that was not committed leaves
behind is in no table, and is removed as other leftovers of writers are (VACUUM of Delta, `remove_orphan_files` of
Iceberg).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.plan.relations import quoted
from tidemill.runtime.duckdb import duck
from tidemill.runtime.targets.lake_types import lake_table
from tidemill.runtime.thresholds import sizes

# Calls a function with each part, somewhere, and returns what it returned, in the order of the parts.
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def call_in_turn(function: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """The parts one after the other in this process."""
    return [function(part) for part in parts]


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file that is complete: its whole path, bytes and rows, and what Delta wants to know of its values."""

    path: str
    size: int
    rows: int
    statistics: str


@dataclass(frozen=True)
class LakeWriter:
    """Writes tables that are large as files of a lake, by workers."""

    folder: str  # of the database
    spread: Spread

    def is_for(self, rows: pa.Table, place: str) -> bool:
        """Whether workers write these rows: there are many, and the place is a folder that they see too."""
        return rows.num_rows > sizes.lake_file_rows and local_path(place) is not None

    def write(self, rows: pa.Table, place: str) -> list[LakeFile]:
        """The rows, in their order, as files in a folder."""
        size, folder = sizes.lake_file_rows, local_path(place)
        assert folder is not None, "is_for was asked"
        os.makedirs(folder, exist_ok=True)
        parts = [(at, min(size, rows.num_rows - at)) for at in range(0, rows.num_rows, size)]
        with self._share(rows) as source:
            return self.spread(partial(write_part, source, folder), parts)

    def leave_out(self, keys: pa.Table, place: str, files: list[str]) -> dict[str, LakeFile | None]:
        """Of files of a folder those that have rows with one of the keys, and a file without these rows; None where it
        would be empty.
        """
        folder = local_path(place)
        assert folder is not None, "is_for was asked"
        with self._share(keys) as source:
            found = self.spread(partial(rewrite_file, source, folder), files)
        return {name: file for name, (is_touched, file) in zip(files, found, strict=True) if is_touched}

    @contextmanager
    def _share(self, rows: pa.Table) -> Iterator[str]:
        """The rows in a file that workers map."""
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"lake-{uuid.uuid4().hex}.arrow")
        try:
            with pa.OSFile(path, "wb") as out, pa.ipc.new_file(out, rows.schema) as file:
                file.write_table(rows)
            yield path
        finally:
            with suppress(FileNotFoundError):
                os.remove(path)


def local_path(place: str) -> str | None:
    """The path of a folder of this machine or of a file system that all machines mount; None of an object store.

    >>> local_path("/lake/t"), local_path("file:///lake/t"), local_path("s3://lake/t")
    ('/lake/t', '/lake/t', None)
    """
    if place.startswith("file://"):
        return place.removeprefix("file://")
    return None if _SCHEME.match(place) else place


def write_part(source: str, folder: str, part: tuple[int, int]) -> LakeFile:
    """What a worker does: some rows of a file of Arrow as a file of the lake."""
    at, count = part
    with pa.memory_map(source) as mapped:
        return write_lake_file(lake_table(pa.ipc.open_file(mapped).read_all().slice(at, count)), folder)


def rewrite_file(source: str, folder: str, name: str) -> tuple[bool, LakeFile | None]:
    """What a worker does: whether a file of the lake has rows with keys that are in a file of Arrow, and a file of the
    others, if there are any.
    """
    rows = lake_table(pq.read_table(os.path.join(folder, unquote(name)), partitioning=None))
    with pa.memory_map(source) as mapped:
        keys = lake_table(pa.ipc.open_file(mapped).read_all())
        names = [quoted(key) for key in keys.column_names]
        same = " AND ".join(f"k.{key} IS NOT DISTINCT FROM r.{key}" for key in names)
        numbered = rows.select(keys.column_names).append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
        kept = duck.run(f"SELECT r.__row FROM r ANTI JOIN k ON {same} ORDER BY r.__row", r=numbered, k=keys)
    if kept.num_rows == rows.num_rows:
        return False, None
    return True, write_lake_file(rows.take(kept.column(0)), folder) if kept.num_rows else None


def write_lake_file(rows: pa.Table, folder: str) -> LakeFile:
    """A new file, on disk before it is named to anybody."""
    path = os.path.join(folder, f"part-{uuid.uuid4().hex}.parquet")
    pq.write_table(rows, path)
    with open(path, "rb") as written:
        os.fsync(written.fileno())
    return LakeFile(path, os.path.getsize(path), rows.num_rows, describe_values(rows))


def describe_values(rows: pa.Table) -> str:
    """What readers of Delta skip files by: how many rows there are, and the least and greatest of whole numbers.

    >>> describe_values(pa.table({"n": [3, None, 1], "text": ["a", "b", None]}))
    '{"numRecords": 3, "minValues": {"n": 1}, "maxValues": {"n": 3}, "nullCount": {"n": 1}}'
    """
    ends = {f.name: pc.min_max(rows.column(f.name)).as_py() for f in rows.schema if pa.types.is_integer(f.type)}
    known = {name: end for name, end in ends.items() if end["min"] is not None}
    return json.dumps(
        {
            "numRecords": rows.num_rows,
            "minValues": {name: end["min"] for name, end in known.items()},
            "maxValues": {name: end["max"] for name, end in known.items()},
            "nullCount": {name: rows.column(name).null_count for name in known},
        }
    )
