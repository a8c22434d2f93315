"""Records as lines of text: finding them, and turning CSV and JSON lines into typed rows.

One record a line, ended by LF or CRLF; blank lines are no records. A quoted CSV field cannot hold
a line break: such a record is bad. What becomes of a line never depends on the lines around it,
so a block of text may be cut at any line end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import convert
from tidemill.runtime.sources.records import max_record_bytes, others

LF, CR, OBJECT, ARRAY = 10, 13, ord("{"), ord("[")


@dataclass
class Lines:
    """Records inside a buffer: record i is data[starts[i]:ends[i]], without its line end.

    `whole` says that the buffer holds these records, their line ends and nothing else.
    """

    data: bytes
    starts: np.ndarray
    ends: np.ndarray
    whole: bool = False
    joined: bytes | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, i: int) -> bytes:
        return bytes(self.data[self.starts[i]:self.ends[i]])

    def pick(self, index: np.ndarray) -> Lines:
        """Some of the records; `index` is increasing."""
        if len(index) == len(self):
            return self
        return Lines(self.data, self.starts[index], self.ends[index])

    def text(self) -> bytes:
        """The records one after another, each on its own line; the last line end may be missing."""
        if self.joined is None:
            self.joined = self.data if self.whole else self._join()
        return self.joined

    def _join(self) -> bytes:
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return b"".join([b for start, end in spans for b in (self.data[start:end], b"\n")])

    def strings(self) -> pa.Array:
        """The records as an Arrow column; each may carry its line end. Needs valid UTF-8."""
        text = self.text()
        lengths = np.append(self.starts[1:], len(text)) - self.starts if self.whole else self.ends - self.starts + 1
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(text))


def find_lines(data: bytes) -> Lines:
    """The records of a block that starts at the start of a line."""
    octets = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(octets == LF)
    ends = breaks if data.endswith(b"\n") else np.append(breaks, len(data))
    starts = np.concatenate(([0], breaks + 1))[:len(ends)]
    if b"\r" in data:
        ends = ends - ((ends > starts) & (octets[ends - 1] == CR))
    filled = ends > starts
    if filled.all():
        return Lines(data, starts, ends, whole=True)
    return Lines(data, starts[filled], ends[filled])


@dataclass(frozen=True)
class Layout:
    """How the fields of a CSV record lie: how many, and where each declared column is."""

    width: int
    places: tuple[int, ...]
    delimiter: str = ","
    quote: str = '"'
    null: str = ""


@dataclass
class Fields:
    """Undecoded columns: `raw[c]` row r belongs to record `index[r]`; `bad` says why others are none.

    `undeclared` counts the records with each field that no column is declared for.
    """

    raw: list[pa.ChunkedArray]
    index: np.ndarray
    bad: dict[int, str] = field(default_factory=dict)
    undeclared: dict[str, int] = field(default_factory=dict)


@dataclass
class Decoded:
    """Typed rows, the record of each, the reason of each record that is no row, and what was not declared."""

    rows: pa.Table
    index: np.ndarray
    bad: dict[int, str]
    undeclared: dict[str, int] = field(default_factory=dict)


def declared_layout(spec: SourceSpec) -> Layout:
    """Fields in the order of the declared columns."""
    width = len(spec.columns)
    return layout(spec, width, tuple(range(width)))


def layout(spec: SourceSpec, width: int, places: tuple[int, ...], delimiter: str = ",") -> Layout:
    """A layout with the source's own delimiter, quote and null."""
    options = spec.options
    return Layout(width, places, options.get("delimiter", delimiter), options.get("quote", '"'),
                  options.get("null", ""))


def decode(lines: Lines, spec: SourceSpec, csv: Layout | None, mixed: bool = False,
           plain: bool = True) -> Decoded:
    """Typed rows of CSV lines (with a layout) or JSON lines (without).

    With `mixed`, a line that starts with '{' is JSON even where a layout is given. Records that are `plain` are read
    in blocks first; the others one after the other, as all of them are without it.
    """
    whole = np.arange(len(lines))
    if not plain:
        return _judge(lines, whole, spec, csv, mixed)
    from tidemill.runtime.sources.plain import take_plain

    found = [take_plain(lines, chosen, spec.columns, None if is_json else csv, max_record_bytes(spec))
             for chosen, is_json in _kinds(lines, whole, csv, mixed)]
    parts = [(rows, index) for rows, index, _ in filter(None, found)]
    undeclared = _added(*(fields for _, _, fields in filter(None, found)))
    count = sum(len(index) for _, index in parts)
    if count == len(lines) and parts:
        return _merge(parts, {}, undeclared)
    left = np.setdiff1d(whole, np.concatenate([index for _, index in parts]), True) if parts else whole
    rest = _judge(lines.pick(left), left, spec, csv, mixed)
    return _merge([*parts, (rest.rows, rest.index)], rest.bad, _added(undeclared, rest.undeclared))


def _added(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _judge(lines: Lines, number: np.ndarray, spec: SourceSpec, csv: Layout | None, mixed: bool) -> Decoded:
    """The same, record by record where something is wrong; line i of `lines` is record number[i]."""
    from tidemill.runtime.sources.text_csv import csv_fields
    from tidemill.runtime.sources.text_json import json_fields

    bad = _unreadable(lines, max_record_bytes(spec))
    index = others(len(lines), bad)
    parts, undeclared = [], dict[str, int]()
    for chosen, is_json in _kinds(lines, index, csv, mixed):
        picked = lines.pick(chosen)
        fields = json_fields(picked, spec.columns) if is_json or csv is None else csv_fields(picked, csv, spec.columns)
        undeclared = _added(undeclared, fields.undeclared)
        parts.append(_typed(fields, chosen, spec, bad))
    found = _merge(parts, bad, undeclared)
    wrong = {int(number[i]): reason for i, reason in bad.items()}
    return Decoded(found.rows, number[found.index], wrong, undeclared)


def _unreadable(lines: Lines, limit: int) -> dict[int, str]:
    lengths = lines.ends - lines.starts
    bad = {
        int(i): f"record of {lengths[i]} bytes exceeds {limit} bytes" for i in np.flatnonzero(lengths > limit)
    }
    text = lines.text()
    if text.isascii():
        return bad
    try:
        text.decode()
    except UnicodeDecodeError:
        for i in range(len(lines)):
            if i not in bad and not _is_utf8(lines.record(i)):
                bad[i] = "not valid UTF-8"
    return bad


def _is_utf8(record: bytes) -> bool:
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


def _kinds(lines: Lines, index: np.ndarray, csv: Layout | None, mixed: bool) -> list[tuple[np.ndarray, bool]]:
    if csv is None:
        return [(index, True)]
    if not mixed:
        return [(index, False)]
    first = np.frombuffer(lines.data, np.uint8)[lines.starts[index]] if len(index) else np.empty(0, np.uint8)
    return [(index[first == OBJECT], True), (index[first != OBJECT], False)]


def _typed(fields: Fields, chosen: np.ndarray, spec: SourceSpec, bad: dict[int, str]) -> tuple[pa.Table, np.ndarray]:
    bad.update({int(chosen[i]): reason for i, reason in fields.bad.items()})
    rows, reasons = convert(fields.raw, spec.columns)
    index = chosen[fields.index]
    if reasons:
        bad.update({int(index[i]): reason for i, reason in reasons.items()})
        good = others(len(index), reasons)
        rows, index = rows.take(pa.array(good)), index[good]
    return rows, index


def _merge(parts: list[tuple[pa.Table, np.ndarray]], bad: dict[int, str], undeclared: dict[str, int]) -> Decoded:
    parts = [part for part in parts if len(part[1])] or parts[:1]
    if len(parts) == 1:
        return Decoded(parts[0][0], parts[0][1], bad, undeclared)
    index = np.concatenate([part[1] for part in parts])
    order = np.argsort(index)
    rows = pa.concat_tables([part[0] for part in parts]).take(pa.array(order))
    return Decoded(rows, index[order], bad, undeclared)
