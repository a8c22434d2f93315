"""CSV and JSON files, compressed or not: positions are byte offsets of line starts in the text."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files.absent import drop_absent
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.files.names import inner_name, packing
from tidemill.runtime.sources.files.packed import Text, open_text
from tidemill.runtime.sources.files.slab import Slab, lost_slab
from tidemill.runtime.sources.records import RAW_BYTES, max_record_bytes, position_text
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import Layout, Lines, declared_layout, find_lines, layout
from tidemill.runtime.thresholds import sizes

_SAMPLE = 64 << 10  # bytes that are read to find the layout and the ends of lines: any value longer than most lines
_BOM = b"\xef\xbb\xbf"


def _has_header(kind: str, spec: SourceSpec) -> bool:
    choice = spec.options.get("header", True)
    return kind == "csv" and (choice if isinstance(choice, bool) else str(choice).lower() in ("true", "1", "yes"))


def _delimiter(path: str) -> str:
    return "\t" if inner_name(path).lower().endswith(".tsv") else ","


def _first_line(file: Text, limit: int) -> tuple[bytes, int]:
    """The first line without its end, and where the second starts."""
    line = file.readline(limit + 2)
    return line.removeprefix(_BOM).rstrip(b"\r\n"), len(line)


def without_absent(entry: Entry, spec: SourceSpec) -> SourceSpec:
    """The source without columns that were added later and are not in this file; a JSON field may always be missing."""
    if not spec.optional or not _has_header(entry.format, spec):
        return spec
    with open_text(entry.path) as file:
        return drop_absent(_header(entry.path, _first_line(file, max_record_bytes(spec))[0], spec), spec)


def _header(path: str, line: bytes, spec: SourceSpec) -> list[str]:
    """The names of the fields; ValueError when the line cannot be read."""
    base = layout(spec, 1, (0,), _delimiter(path))
    quoting = {"quotechar": base.quote} if base.quote else {"quoting": csv.QUOTE_NONE}
    try:
        return [n.strip() for n in next(csv.reader([line.decode()], delimiter=base.delimiter, **quoting), [])]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"header cannot be read: {error}") from None


def _header_layout(path: str, line: bytes, spec: SourceSpec) -> Layout:
    """Where the header puts the declared columns; ValueError when it does not have one."""
    names = _header(path, line, spec)
    folded = [name.lower() for name in names]
    places = []
    for column in spec.columns:
        if column.name.lower() not in folded:
            raise ValueError(f'column "{column.name}" is missing')
        places.append(names.index(column.name) if column.name in names else folded.index(column.name.lower()))
    return layout(spec, len(names), tuple(places), layout(spec, 1, (0,), _delimiter(path)).delimiter)


def header_problem(path: str, kind: str, spec: SourceSpec) -> str | None:
    """Why the file cannot be read as a whole; None when it can."""
    if not _has_header(kind, spec):
        return None
    with open_text(path) as file:
        limit = max_record_bytes(spec)
        line, _ = _first_line(file, limit)
    if len(line) > limit:
        return f"header exceeds {limit} bytes"
    try:
        _header_layout(path, line, drop_absent(_header(path, line, spec), spec))
    except ValueError as problem:
        return str(problem)
    return None


def whole_end(path: str, begin: int, end: int) -> int:
    """Behind the last line end between two bytes of a file; `begin` where there is none."""
    with open(path, "rb") as file:
        while begin < end:
            low = max(begin, end - _SAMPLE)
            file.seek(low)
            found = file.read(end - low).rfind(b"\n")
            if found >= 0:
                return low + found + 1
            end = low
    return begin


def line_end(path: str, at: int, end: int) -> int:
    """The first line start at or behind `at`, at most `end`."""
    if at <= 0:
        return 0
    with open_text(path) as file:
        # A line starts at `at` exactly when the byte before it ends one.
        at -= 1
        while at < end:
            file.seek(at)
            block = file.read(min(_SAMPLE, end - at))
            found = block.find(b"\n")
            if found >= 0:
                return min(at + found + 1, end)
            if not block:
                break
            at += len(block)
    return end


def admit(entry: Entry, start: int, rows: int, spec: SourceSpec) -> tuple[int, int]:
    """(position, estimated rows) that takes about `rows` lines from `start`, at least one.

    A file that cannot be opened any more is taken whole: its reader reports the error.
    """
    try:
        return _admit(entry, start, rows, spec)
    except OSError:
        return entry.length, rows


def _admit(entry: Entry, start: int, rows: int, spec: SourceSpec) -> tuple[int, int]:
    packed = packing(entry.path) is not None
    with open_text(entry.path) as file:
        first = _first_line(file, max_record_bytes(spec))[1] if _has_header(entry.format, spec) else 0
        begin = max(start, first, entry.begin)
        if not packed:  # seeking inside a compressed file is slow: sample its beginning only
            file.seek(begin)
        sample = file.read(min(_SAMPLE, max(entry.length - begin, 0)))
    lines = max(sample.count(b"\n"), 1)
    average = max(len(sample) / lines, 1.0)
    if packed and entry.length <= sizes.unpacked_bytes:
        end = entry.length
    else:
        end = line_end(entry.path, max(begin + int(rows * average), begin + 1), entry.length)
    return end, max(1, round((end - begin) / average))


def read(entry: Entry, start: int, end: int, spec: SourceSpec) -> Iterator[Slab]:
    """The records of bytes start..end, both at line starts."""
    fields, skip = _layout(entry, spec)
    with open_text(entry.path) as file:
        for at, block, length in _blocks(file, max(start, skip), end, max_record_bytes(spec)):
            if length is not None:
                reason = f"record of {length} bytes exceeds {max_record_bytes(spec)} bytes"
                yield lost_slab(entry, at, reason, block, spec)
                continue
            lines = find_lines(block)
            for i in range(0, len(lines), sizes.chunk_lines):
                some = lines.pick(np.arange(i, min(i + sizes.chunk_lines, len(lines))))
                yield _slab(entry, at, some, fields, spec)


def _layout(entry: Entry, spec: SourceSpec) -> tuple[Layout | None, int]:
    """The fields of each line, and how many bytes at the start of the file are no record."""
    with open_text(entry.path) as file:
        mark = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(0)
        if entry.format == "json":
            return None, mark
        if not _has_header(entry.format, spec):
            width = len(spec.columns)
            return layout(spec, width, declared_layout(spec).places, _delimiter(entry.path)), mark
        line, after = _first_line(file, max_record_bytes(spec))
        return _header_layout(entry.path, line, spec), after


def _blocks(file: Text, start: int, end: int, limit: int) -> Iterator[tuple[int, bytes, int | None]]:
    """(offset, whole lines, None), or (offset, first bytes, full length) of a line longer than a block."""
    size = max(sizes.block_bytes, limit + 2)
    while start < end:
        file.seek(start)
        block = file.read(min(size, end - start))
        if not block:
            return
        cut = len(block) if start + len(block) >= end else block.rfind(b"\n") + 1
        if cut:
            yield start, block[:cut], None
            start += cut
        else:
            after = _line_after(file, end)
            yield start, block[:RAW_BYTES], _line_length(file, start, after)
            start = after


def _line_after(file: Text, end: int) -> int:
    at = file.tell()
    while at < end:
        block = file.read(min(sizes.block_bytes, end - at))
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not block:
            break
        at += len(block)
    return end


def _line_length(file: Text, start: int, after: int) -> int:
    file.seek(after - 2)
    tail = file.read(2)
    return after - start - (2 if tail == b"\r\n" else 1 if tail.endswith(b"\n") else 0)


def _slab(entry: Entry, at: int, lines: Lines, fields: Layout | None, spec: SourceSpec) -> Slab:
    decoded = decode(lines, spec, fields)
    bad = [
        (
            decoded.bad[i],
            lines.record(i)[:RAW_BYTES],
            position_text(file=entry.n, at=at + int(lines.starts[i]), path=entry.path),
        )
        for i in sorted(decoded.bad)
    ]
    return Slab(decoded.rows, at + lines.starts[decoded.index], bad, decoded.undeclared)


def line_number(path: str, at: int) -> int:
    """The number of the line that starts at byte `at`, from 1."""
    number = 1
    with open_text(path) as file:
        while at > 0:
            block = file.read(min(sizes.block_bytes, at))
            if not block:
                break
            number += block.count(b"\n")
            at -= len(block)
    return number
