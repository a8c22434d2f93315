"""Rows that only ever come, written by the shards into files that the store keeps as they are.

Shards compute side by side, but one process puts their rows into tables: with millions of answers that would be the
longest step of a micro-batch. So a shard *seals* them: one Parquet file for all gates whose rows look alike, the rows
of a gate together. A note about the file is all that travels, and all that `runtime/sealed.py` writes down.

Rules: a name is never used again; a file is complete before a note names it; it belongs to the store from the commit of
its batch on; files that no committed batch names are removed.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from tidemill.runtime.damage import arrow_file, checksum
from tidemill.runtime.narrow import narrowed
from tidemill.runtime.thresholds import sizes

SEALED = "sealed"
WHOSE = "__whose"

Gate = tuple[str, pa.Table]
Note = dict[str, Any]


def seal(folder: str, gates: Iterable[Gate], least: int) -> tuple[list[Note], list[Gate]]:
    """Notes about the files written, and the gates whose rows are too few or cannot be written like this.

    Rows of one look are enough if there are `least` of them; 0 stands for never.
    """
    alike: dict[pa.Schema, list[Gate]] = {}
    for gate, rows in gates:
        alike.setdefault(rows.schema.remove_metadata(), []).append((gate, rows.replace_schema_metadata(None)))
    notes: list[Note] = []
    rest: list[Gate] = []
    for members in alike.values():
        enough = 0 < least <= sum(rows.num_rows for _, rows in members)
        note = write(folder, members) if enough else None
        if note is None:
            rest += members
        else:
            notes.append(note)
    return notes, rest


def messages(notes: list[Note]) -> Iterator[tuple[str, bytes]]:
    """(port, payload) of what brings notes to the outlet."""
    if notes:
        yield SEALED, json.dumps(notes).encode()


def received(sent: Iterable[tuple[str, bytes]]) -> list[Note]:
    """The notes among messages."""
    return [note for port, payload in sent if port == SEALED for note in json.loads(payload)]


def write(folder: str, members: Sequence[Gate]) -> Note | None:
    """Rows with an owner each, in a new file; None if a column would not come back as it is.

    The note: its name, what its columns are, whether every row counts once (then `__diff` is left out), and for each
    owner how many rows and how many copies of rows there are.
    """
    members = sorted(members, key=lambda member: member[0])  # so that the owners in a row group are neighbours
    table = narrowed(pa.concat_tables([rows for _, rows in members]))
    if not all(_comes_back(field.type) for field in table.schema):
        return None
    counts = [rows.num_rows for _, rows in members]
    diffs = table.column("__diff").to_numpy()
    once = bool((diffs == 1).all())
    copies = counts if once else [int(part.sum()) for part in np.split(diffs, np.cumsum(counts)[:-1])]
    table = table.drop_columns(["__diff"]) if once else table
    look = json.dumps([[field.name, str(field.type)] for field in table.schema])
    owners = pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
    names = pa.array([owner for owner, _ in members], pa.string())
    name = f"{uuid.uuid4().hex}.parquet"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    _write(table.append_column(WHOSE, pa.DictionaryArray.from_arrays(owners, names)), path)
    runs = [[owner, rows, n] for (owner, _), rows, n in zip(members, counts, copies, strict=True)]
    return {"file": name, "look": look, "once": once, "runs": runs, "size": os.path.getsize(path),
            "sum": checksum(path)}


def read(folder: str, note: Note, wanted: set[str]) -> list[Gate]:
    """Rows of some owners, as they were given."""
    whole = opened(folder, note["file"], note["once"])
    start, found = 0, []
    for owner, rows, _ in note["runs"]:
        if owner in wanted:
            found.append((owner, whole.slice(start, rows)))
        start += rows
    return found


def opened(folder: str, name: str, once: bool) -> pa.Table:
    """All rows of a file, without their owners; `once` says that `__diff` was left out."""
    path = os.path.join(folder, name)
    with arrow_file(path):
        whole = pq.read_table(path, partitioning=None).drop_columns([WHOSE])
    return whole.append_column("__diff", pa.array(np.ones(whole.num_rows, np.int64))) if once else whole


def _write(table: pa.Table, path: str) -> None:
    """Whole numbers and times as packed differences: small, and faster than writing all their bytes."""
    packed = [f.name for f in table.schema if t.is_integer(f.type) or t.is_temporal(f.type)]
    others = [f.name for f in table.schema if f.name not in packed]
    pq.write_table(
        table, path, row_group_size=sizes.row_group_rows, write_statistics=[WHOSE], use_dictionary=others,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        compression={f.name: "NONE" if f.name in packed else "SNAPPY" for f in table.schema},
    )


def _comes_back(kind: pa.DataType) -> bool:
    """Whether values of a type are the same after a Parquet file and DuckDB.

    >>> _comes_back(pa.timestamp("us")), _comes_back(pa.timestamp("us", "UTC")), _comes_back(pa.list_(pa.int8()))
    (True, False, False)
    """
    if t.is_dictionary(kind):
        return _comes_back(kind.value_type)
    plain = t.is_integer(kind) or t.is_float64(kind) or t.is_float32(kind) or t.is_boolean(kind) or t.is_date32(kind)
    return plain or t.is_string(kind) or t.is_large_string(kind) or kind == pa.timestamp("us")
