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
from tidemill.runtime import fast_paths
from tidemill.runtime.sources.columns import convert
from tidemill.runtime.sources.records import good_numbers, max_record_bytes
from tidemill.runtime.sources.text.lines import OBJECT, Fields, Layout, Lines


@dataclass
class Decoded:
    """Typed rows, the record of each, the reason of each record that is no row, and what was not declared."""

    rows: pa.Table
    index: np.ndarray
    bad: dict[int, str]
    undeclared: dict[str, int] = field(default_factory=dict)


def decode(lines: Lines, spec: SourceSpec, csv: Layout | None, mixed: bool = False, plain: bool = True) -> Decoded:
    """Typed rows of CSV lines (with a layout) or JSON lines (without).

    With `mixed`, a line that starts with '{' is JSON even where a layout is given. Records that are `plain` are read
    in blocks first; the others one after the other, as all of them are without it.
    """
    whole = np.arange(len(lines))
    if not plain or not fast_paths.is_on("plain_text"):
        return _judge(lines, whole, spec, csv, mixed)
    from tidemill.runtime.sources.text.plain import take_plain

    found = [
        take_plain(lines, chosen, spec.columns, None if is_json else csv, max_record_bytes(spec))
        for chosen, is_json in _kinds(lines, whole, csv, mixed)
    ]
    parts = [(rows, index) for rows, index, _ in filter(None, found)]
    undeclared = _add_counts(*(fields for _, _, fields in filter(None, found)))
    count = sum(len(index) for _, index in parts)
    if count == len(lines) and parts:
        return _merge(parts, {}, undeclared)
    left = np.setdiff1d(whole, np.concatenate([index for _, index in parts]), True) if parts else whole
    rest = _judge(lines.pick(left), left, spec, csv, mixed)
    return _merge([*parts, (rest.rows, rest.index)], rest.bad, _add_counts(undeclared, rest.undeclared))


def _add_counts(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _judge(lines: Lines, number: np.ndarray, spec: SourceSpec, csv: Layout | None, mixed: bool) -> Decoded:
    """The same, record by record where something is wrong; line i of `lines` is record number[i]."""
    from tidemill.runtime.sources.text.csv_lines import csv_fields
    from tidemill.runtime.sources.text.json_lines import json_fields

    bad = _unreadable(lines, max_record_bytes(spec))
    index = good_numbers(len(lines), bad)
    parts, undeclared = [], dict[str, int]()
    for chosen, is_json in _kinds(lines, index, csv, mixed):
        picked = lines.pick(chosen)
        fields = json_fields(picked, spec.columns) if is_json or csv is None else csv_fields(picked, csv, spec.columns)
        undeclared = _add_counts(undeclared, fields.undeclared)
        parts.append(_convert_fields(fields, chosen, spec, bad))
    found = _merge(parts, bad, undeclared)
    wrong = {int(number[i]): reason for i, reason in bad.items()}
    return Decoded(found.rows, number[found.index], wrong, undeclared)


def _unreadable(lines: Lines, limit: int) -> dict[int, str]:
    lengths = lines.ends - lines.starts
    bad = {int(i): f"record of {lengths[i]} bytes exceeds {limit} bytes" for i in np.flatnonzero(lengths > limit)}
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


def _convert_fields(
    fields: Fields, chosen: np.ndarray, spec: SourceSpec, bad: dict[int, str]
) -> tuple[pa.Table, np.ndarray]:
    bad.update({int(chosen[i]): reason for i, reason in fields.bad.items()})
    rows, reasons = convert(fields.raw, spec.columns)
    index = chosen[fields.index]
    if reasons:
        bad.update({int(index[i]): reason for i, reason in reasons.items()})
        good = good_numbers(len(index), reasons)
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
