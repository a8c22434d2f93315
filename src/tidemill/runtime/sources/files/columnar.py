"""Parquet and Arrow IPC files: positions are row numbers, and groups of rows are read alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import SourceProblem
from tidemill.plan.python_values import json_text, python_rows
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime import fast_paths
from tidemill.runtime.sources.columns import arrow_schema, convert, event_time_us
from tidemill.runtime.sources.files.absent import drop_absent
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.files.pages import Pages
from tidemill.runtime.sources.files.slab import Slab, lost_slab
from tidemill.runtime.sources.records import good_numbers, position_text
from tidemill.runtime.thresholds import sizes

_IPC_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class FileFooter:
    """The footer of a file: its schema, and the row numbers at which row groups (or record batches) start and end."""

    schema: pa.Schema
    borders: tuple[int, ...]
    parquet: pq.FileMetaData | None

    @property
    def rows(self) -> int:
        return self.borders[-1]


@lru_cache(maxsize=2048)
def read_footer(path: str, kind: str, size: int, mtime_ns: int) -> FileFooter:
    """The footer of a file; size and modification time are only there to make the cache miss when the file changes."""
    if kind == "parquet":
        with pq.ParquetFile(path) as file:
            parquet = file.metadata
            sizes = [parquet.row_group(i).num_rows for i in range(parquet.num_row_groups)]
            return FileFooter(file.schema_arrow, _sums(sizes), parquet)
    with pa.OSFile(path) as source:
        schema, batches = _open_ipc(source, [])
        return FileFooter(schema, _sums([batch.num_rows for batch in batches]), None)


def footer_of(entry: Entry) -> FileFooter:
    """The footer of a listed file."""
    return read_footer(entry.path, entry.format, entry.size, entry.mtime_ns)


def _sums(sizes: list[int]) -> tuple[int, ...]:
    return tuple(np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).tolist())


def _open_ipc(source: pa.NativeFile, names: list[str]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The full schema, and the batches with the named columns (any one column when none is named)."""
    is_file = source.read(len(_IPC_MAGIC)) == _IPC_MAGIC
    source.seek(0)
    opening = pa.ipc.open_file if is_file else pa.ipc.open_stream
    schema = opening(source).schema
    source.seek(0)
    fields = [schema.get_field_index(name) for name in names] or [0]
    reader = opening(source, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
    if is_file:
        return schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
    return schema, iter(reader)


def _names(schema: pa.Schema, columns: Sequence[Column]) -> list[str]:
    """The file's name for each declared column: the exact one, else the first in any case, else ""."""
    folded: dict[str, str] = {}
    for name in schema.names:
        folded.setdefault(name.lower(), name)
    return [c.name if c.name in schema.names else folded.get(c.name.lower(), "") for c in columns]


def mismatch(footer: FileFooter, spec: SourceSpec) -> str | None:
    """Why no row of the file can be read as declared; None when they can."""
    spec = drop_absent(footer.schema.names, spec)
    names = _names(footer.schema, spec.columns)
    for column, name in zip(spec.columns, names, strict=True):
        if not name:
            return f'column "{column.name}" is missing'
    empty = footer.schema.empty_table()
    for column, name in zip(spec.columns, names, strict=True):
        try:
            convert([empty.column(name)], [column])
        except Exception as error:  # DuckDB and Arrow refuse types each in its own way
            return f'column "{column.name}": cannot read {empty.column(name).type} as {column.type}: {error}'
    return None


def without_absent(entry: Entry, spec: SourceSpec) -> SourceSpec:
    """The source without columns that were added later and are not in this file."""
    return drop_absent(footer_of(entry).schema.names, spec) if spec.optional else spec


def read(entry: Entry, start: int, end: int, spec: SourceSpec) -> Iterator[Slab]:
    """Rows start..end; only row groups that hold some of them are decoded."""
    columns = (*spec.columns, *_doubtful(footer_of(entry).schema, spec.unread))
    names = _names(footer_of(entry).schema, columns)
    load = _parquet_groups if entry.format == "parquet" else _ipc_groups
    for first, group in load(entry, start, end, names, spec):
        if isinstance(group, str):
            if start <= first:
                yield lost_slab(entry, first, group, entry.path.encode(), spec)
            continue
        low, high = max(start, first), min(end, first + group.num_rows)
        for at in range(low, high, sizes.chunk_rows):
            piece = group.slice(at - first, min(sizes.chunk_rows, high - at))
            yield _slab(piece, names, at, entry, columns, len(spec.columns))


def _doubtful(schema: pa.Schema, columns: Sequence[Column]) -> list[Column]:
    """Columns with values that may not fit: whether a row is good must not depend on which columns are read."""
    declared = arrow_schema(columns)
    return [
        c
        for c, name in zip(columns, _names(schema, columns), strict=True)
        if name and not _always_fits(schema.field(name).type, declared.field(c.name).type)
    ]


def _parquet_groups(
    entry: Entry, start: int, end: int, names: list[str], spec: SourceSpec
) -> Iterator[tuple[int, pa.Table | str]]:
    """(first row, rows) of each row group in range; a text in place of rows says why it is lost."""
    borders = footer_of(entry).borders
    with open(entry.path, "rb") as source, pq.ParquetFile(entry.path) as file:
        kinds = {name: file.schema_arrow.field(name).type for name in names}
        paged = Pages(source, file.metadata, kinds if fast_paths.is_on("parquet_pages") else {})
        for group, (first, after) in enumerate(pairwise(borders)):
            if first < end and after > start:
                yield first, _load_group(paged, file, group, after, list(kinds), spec)


def _load_group(
    paged: Pages, file: pq.ParquetFile, group: int, after: int, names: list[str], spec: SourceSpec
) -> pa.Table | str:
    # The whole group is decoded even for a part of it: whether it is damaged must not depend on the cut.
    try:
        found = paged.read(group)
        rest = [n for n in names if n not in found]
        table = file.read_row_group(group, columns=rest, use_threads=False) if rest or not found else None
        return pa.table({n: found[n] if table is None or n in found else table.column(n) for n in names})
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise SourceProblem("TM401", f'source "{spec.name}" cannot read a file', detail=str(error)) from error
        return f"rows up to {after} are damaged: {str(error).splitlines()[0]}"


def _ipc_groups(
    entry: Entry, start: int, end: int, names: list[str], spec: SourceSpec
) -> Iterator[tuple[int, pa.Table | str]]:
    borders = footer_of(entry).borders
    wanted = list(dict.fromkeys(names))
    with pa.OSFile(entry.path) as source:
        _, batches = _open_ipc(source, wanted)
        for first, batch in zip(borders, batches, strict=False):
            if first >= end:
                return
            if first + batch.num_rows > start:
                yield first, pa.Table.from_batches([batch])


def _slab(piece: pa.Table, names: list[str], at: int, entry: Entry, columns: Sequence[Column], wanted: int) -> Slab:
    """The rows with the wanted columns, which are the first ones; rows that do not fit are put aside."""
    rows, reasons = convert([piece.column(name) for name in names], columns)
    rows = rows.select(range(wanted))
    if not reasons:
        return Slab(rows, range(at, at + piece.num_rows), [])
    bad = [
        (reasons[i], _raw(piece, i), position_text(file=entry.n, at=at + i, path=entry.path)) for i in sorted(reasons)
    ]
    good = good_numbers(piece.num_rows, reasons)
    return Slab(rows.take(pa.array(good)), at + good, bad)


def _raw(piece: pa.Table, row: int) -> bytes:
    return json_text(python_rows(piece.slice(row, 1))[0]).encode()


def greatest_time(entry: Entry, start: int, end: int, spec: SourceSpec) -> int | None:
    """The greatest event time of rows start..end, exactly; None when the footer does not tell.

    A row put aside would still count in the statistics, so they are used only where every row of
    the file is sure to become a row. Groups cut by the range are looked into.
    """
    footer = footer_of(entry)
    spec = without_absent(entry, spec)
    names = _names(footer.schema, spec.columns)
    declared = arrow_schema(spec.columns)
    if not all(_always_fits(footer.schema.field(n).type, declared.field(i).type) for i, n in enumerate(names)):
        return None
    clock = str(spec.timestamp).lower()
    at = next(i for i, column in enumerate(spec.columns) if column.name.lower() == clock)
    best: int | None = None
    for group, (first, after) in enumerate(pairwise(footer.borders)):
        if first >= end or after <= start:
            continue
        is_cut = first < start or after > end
        found = (
            _time_inside(entry, group, first, start, end, names[at])
            if is_cut
            else _time_in_footer(footer, group, names[at])
        )
        if found is None:
            return None
        column, _ = convert([found], [spec.columns[at]])
        unit = int(spec.options.get("unit_us", 1_000_000))
        times = event_time_us(column.column(0), spec.columns[at].type, unit).drop_null().to_numpy()
        if len(times) < len(found) - found.null_count:
            return None  # a row of this time is put aside; how far the others reach is not known
        if len(times):
            best = max(best, int(times.max())) if best is not None else int(times.max())
    return best


def _time_inside(entry: Entry, group: int, first: int, start: int, end: int, name: str) -> pa.ChunkedArray | None:
    try:
        with pq.ParquetFile(entry.path) as file:
            column = file.read_row_group(group, columns=[name], use_threads=False).column(0)
    except (pa.ArrowException, OSError):
        return None
    low = max(start - first, 0)
    return column.slice(low, min(end - first, len(column)) - low)


def _time_in_footer(footer: FileFooter, group: int, name: str) -> pa.ChunkedArray | None:
    kind = footer.schema.field(name).type
    if footer.parquet is None:
        return None
    described = footer.parquet.row_group(group)
    for i in range(described.num_columns):
        chunk = described.column(i)
        if chunk.path_in_schema != name:
            continue
        without_absent = chunk.statistics
        if without_absent is None:
            return None
        if without_absent.has_min_max:
            try:
                return pa.chunked_array([pa.array([without_absent.max], kind)])
            except (OverflowError, ValueError):  # a time that Python cannot represent, infinity for example
                return None
        if without_absent.has_null_count and without_absent.null_count == described.num_rows:
            return pa.chunked_array([pa.array([None], kind)])
    return None


def _always_fits(given: pa.DataType, declared: pa.DataType) -> bool:
    if given == declared:
        return True
    if pa.types.is_dictionary(given):
        return _always_fits(given.value_type, declared)
    kinds = pa.types
    if kinds.is_signed_integer(given) and kinds.is_signed_integer(declared):
        return given.bit_width <= declared.bit_width
    if kinds.is_unsigned_integer(given) and kinds.is_unsigned_integer(declared):
        return given.bit_width <= declared.bit_width
    if kinds.is_floating(given) and kinds.is_floating(declared):
        return given.bit_width <= declared.bit_width
    if kinds.is_timestamp(given) and kinds.is_timestamp(declared):
        return given.unit in ("us", "ns") and (given.tz is None) == (declared.tz is None)
    return kinds.is_large_string(given) and kinds.is_string(declared)
