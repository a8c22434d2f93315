"""Rows of append-only views, written by the shards into files that the store keeps as they are.

Shards compute side by side, but one process puts their rows into tables: with millions of answers that would be the
longest step of a micro-batch. So a shard writes one Parquet file for all view outputs whose columns are the same, the
rows of an output together. A description of the file is all that travels, and all that `answer_files/index.py` stores.

Rules: a name is never used again; a file is complete before a message names it; it belongs to the store from the
commit of its batch on; files that no committed batch names are removed.

The fast path `answer_files`: a view holds exactly the rows that it would hold in tables; rows that are too few, or
cannot be written like this, travel in messages.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as t

from tidemill.runtime.duckdb.wide_integers import narrow_table
from tidemill.runtime.integrity import arrow_file, checksum
from tidemill.runtime.row_references import concat_rows, keep_dictionaries, write_out
from tidemill.runtime.thresholds import sizes

ANSWERS = "answers"  # the port of messages about files
WHOSE = "__whose"
_DICTIONARY_BYTES = 1 << 20  # of a dictionary of texts, as usual in Parquet: behind it they are written one by one

OwnedRows = tuple[str, pa.Table]  # a view output or the label of views, and its rows


@dataclass(frozen=True)
class AnswerFile:
    """What is known of a file: its columns, whether every row counts once (then `__diff` is left out), and for each
    owner how many rows and how many copies of rows there are, in the order in which they lie.
    """

    file: str
    look: str
    once: bool
    runs: list[tuple[str, int, int]]
    size: int
    sum: int


def write_files(folder: str, outputs: Iterable[OwnedRows], least: int) -> tuple[list[AnswerFile], list[OwnedRows]]:
    """The files written, and the outputs whose rows are too few or cannot be written like this.

    Rows of one look are enough if there are `least` of them; 0 stands for never.
    """
    alike: dict[pa.Schema, list[OwnedRows]] = {}
    for output, rows in outputs:
        alike.setdefault(rows.schema.remove_metadata(), []).append((output, rows.replace_schema_metadata(None)))
    files: list[AnswerFile] = []
    rest: list[OwnedRows] = []
    for members in alike.values():
        enough = 0 < least <= sum(rows.num_rows for _, rows in members)
        file = write_file(folder, members) if enough else None
        if file is None:
            rest += members
        else:
            files.append(file)
    return files, rest


def send(files: list[AnswerFile]) -> Iterator[tuple[str, bytes]]:
    """(port, payload) of the message that names the files to the outlet."""
    if files:
        yield ANSWERS, json.dumps(files, default=vars).encode()


def receive(sent: Iterable[tuple[str, bytes]]) -> list[AnswerFile]:
    """The files that messages name.

    >>> one = AnswerFile("a.parquet", "[]", True, [("g", 2, 2)], 10, 7)
    >>> receive(send([one])) == [one]
    True
    """
    return [_decode(found) for port, payload in sent if port == ANSWERS for found in json.loads(payload)]


def _decode(found: dict[str, Any]) -> AnswerFile:
    return AnswerFile(**{**found, "runs": [(owner, rows, copies) for owner, rows, copies in found["runs"]]})


def write_file(folder: str, members: Sequence[OwnedRows]) -> AnswerFile | None:
    """Rows with an owner each, in a new file; None if a column would not come back as it is."""
    members = sorted(members, key=lambda member: member[0])  # so that the owners in a row group are neighbours
    table = narrow_table(concat_rows([rows for _, rows in members]))
    if not all(_survives_parquet(field.type) for field in table.schema):
        return None
    counts = [rows.num_rows for _, rows in members]
    diffs = table.column("__diff").to_numpy()
    once = bool((diffs == 1).all())
    copies = counts if once else [int(part.sum()) for part in np.split(diffs, np.cumsum(counts)[:-1])]
    table = table.drop_columns(["__diff"]) if once else table
    look = json.dumps([[field.name, str(field.type)] for field in write_out(table.slice(0, 0)).schema])
    owners = pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
    names = pa.array([owner for owner, _ in members], pa.string())
    name = f"{uuid.uuid4().hex}.parquet"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    _write(table.append_column(WHOSE, pa.DictionaryArray.from_arrays(owners, names)), path)
    runs = [(owner, rows, n) for (owner, _), rows, n in zip(members, counts, copies, strict=True)]
    return AnswerFile(name, look, once, runs, os.path.getsize(path), checksum(path))


def read(folder: str, file: AnswerFile, wanted: set[str]) -> list[OwnedRows]:
    """Rows of some owners, as they were given."""
    whole = read_whole(folder, file.file, file.once)
    start, found = 0, []
    for owner, rows, _ in file.runs:
        if owner in wanted:
            found.append((owner, whole.slice(start, rows)))
        start += rows
    return found


def read_whole(folder: str, name: str, once: bool) -> pa.Table:
    """All rows of a file, without their owners; `once`: `__diff` was left out."""
    path = os.path.join(folder, name)
    with arrow_file(path):
        whole = write_out(pq.read_table(path, partitioning=None).drop_columns([WHOSE]))
    return whole.append_column("__diff", pa.array(np.ones(whole.num_rows, np.int64))) if once else whole


def _write(table: pa.Table, path: str) -> None:
    """Whole numbers and times as packed differences: small, and faster than writing all their bytes."""
    table, largest = keep_dictionaries(table, min(table.num_rows, sizes.row_group_rows))
    packed = [f.name for f in table.schema if t.is_integer(f.type) or t.is_temporal(f.type)]
    others = [f.name for f in table.schema if f.name not in packed]
    pq.write_table(
        table,
        path,
        row_group_size=sizes.row_group_rows,
        write_statistics=[WHOSE],
        use_dictionary=others,
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        compression={f.name: "NONE" if f.name in packed else "SNAPPY" for f in table.schema},
        dictionary_pagesize_limit=max(_DICTIONARY_BYTES, 2 * largest),
    )


def _survives_parquet(kind: pa.DataType) -> bool:
    """Whether values of a type are the same after a Parquet file and DuckDB. A decimal without places may be a whole
    number of 128 bits.

    >>> [_survives_parquet(kind) for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.list_(pa.int8()))]
    [True, False, False]
    """
    if t.is_dictionary(kind):
        return _survives_parquet(kind.value_type)
    if t.is_decimal128(kind):
        return kind.scale > 0
    plain = t.is_integer(kind) or t.is_float64(kind) or t.is_float32(kind) or t.is_boolean(kind) or t.is_date32(kind)
    return plain or t.is_string(kind) or t.is_large_string(kind) or kind == pa.timestamp("us")
