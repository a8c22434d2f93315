"""JSON lines into undecoded columns: an object by key, or an array in the declared order.

A missing key is NULL; keys are matched exactly first, then in any case. A nested value is its
JSON text. Fields that no column is declared for are counted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import query
from tidemill.runtime.sources.text.lines import ARRAY, OBJECT, Fields, Lines
from tidemill.runtime.sources.text.plain import undeclared_fields

_NOT_JSON = "not valid JSON"

_Raw = tuple[list[pa.ChunkedArray], np.ndarray]  # columns of texts, and the lines that they are of
_How = Callable[[pa.Table, np.ndarray, Sequence[Column], dict[int, str]], _Raw]


def json_fields(lines: Lines, columns: Sequence[Column]) -> Fields:
    """The declared columns as text."""
    bad: dict[int, str] = {}
    objects, arrays = _shapes(lines, bad)
    parts = [
        _extract(lines, objects, columns, bad, _object_columns),
        _extract(lines, arrays, columns, bad, _array_columns),
    ]
    filled = [part for part in parts if len(part[1])]
    if not filled:
        return Fields([pa.chunked_array([], pa.string()) for _ in columns], np.empty(0, np.int64), bad)
    undeclared = undeclared_fields(lines, parts[0][1], columns) if len(parts[0][1]) else {}
    raw = [
        pa.chunked_array([c for part in filled for c in part[0][i].chunks], pa.string()) for i in range(len(columns))
    ]
    index = np.concatenate([part[1] for part in filled])
    if len(filled) == 2:
        order = np.argsort(index)
        raw, index = [column.take(pa.array(order)) for column in raw], index[order]
    return Fields(raw, index, bad, undeclared)


def _shapes(lines: Lines, bad: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
    if not len(lines):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = np.frombuffer(lines.data, np.uint8)[lines.starts].copy()
    for i in np.flatnonzero((first != OBJECT) & (first != ARRAY)).tolist():
        first[i] = ord(lines.record(i).lstrip(b" \t")[:1] or b"x")
        if first[i] not in (OBJECT, ARRAY):
            bad[i] = "neither a JSON object nor a JSON array"
    return np.flatnonzero(first == OBJECT), np.flatnonzero(first == ARRAY)


def _extract(lines: Lines, index: np.ndarray, columns: Sequence[Column], bad: dict[int, str], how: _How) -> _Raw:
    if not len(index):
        return [], index
    table = pa.table({"line": lines.pick(index).strings()})
    try:
        return how(table, index, columns, bad)
    except (duckdb.Error, UnicodeDecodeError):
        # The second: DuckDB cuts the record in its message at any byte. Its message is about the first bad record only
        # and is left out: a record's reason must not depend on the records around it.
        if len(index) == 1:
            bad[int(index[0])] = _NOT_JSON
            return [], index[:0]
    valid = query("SELECT json_valid(line) AS ok FROM lines", "lines", table).column("ok").to_numpy()
    bad.update({int(i): _NOT_JSON for i in index[~valid]})
    good = index[valid]
    if len(good) < len(index):
        return _extract(lines, good, columns, bad, how)
    half = len(index) // 2
    left = _extract(lines, index[:half], columns, bad, how)
    right = _extract(lines, index[half:], columns, bad, how)
    both = [part for part in (left, right) if len(part[1])]
    raw = [pa.chunked_array([c for part in both for c in part[0][i].chunks], pa.string()) for i in range(len(columns))]
    return raw, np.concatenate([left[1], right[1]])


def _object_columns(table: pa.Table, index: np.ndarray, columns: Sequence[Column], bad: dict[int, str]) -> _Raw:
    exact = [[column.name] for column in columns]
    raw = _by_pointer(table, [[_pointer(name) for name in names] for names in exact])
    missing = [i for i, column in enumerate(raw) if column.null_count]
    if missing:
        spellings = _spellings(table, [columns[i].name for i in missing])
        if any(spellings):
            names = [[columns[i].name, *found] for i, found in zip(missing, spellings, strict=True)]
            again = _by_pointer(table, [[_pointer(name) for name in group] for group in names])
            for i, column in zip(missing, again, strict=True):
                raw[i] = column
    return raw, index


def _array_columns(table: pa.Table, index: np.ndarray, columns: Sequence[Column], bad: dict[int, str]) -> _Raw:
    lengths = query("SELECT json_array_length(line) AS n FROM lines", "lines", table).column("n").to_numpy()
    right = lengths == len(columns)
    for i in np.flatnonzero(~right):
        bad[int(index[i])] = f"{lengths[i]} fields where {len(columns)} were expected"
    raw = _by_pointer(table.filter(pa.array(right)), [[f"/{i}"] for i in range(len(columns))])
    return raw, index[right]


def _by_pointer(table: pa.Table, pointers: list[list[str]]) -> list[pa.ChunkedArray]:
    flat = [pointer for group in pointers for pointer in group]
    items, at = [], 1
    for i, group in enumerate(pointers):
        places = ", ".join(f"x[{at + k}]" for k in range(len(group)))
        items.append(f"coalesce({places}) AS c{i}" if len(group) > 1 else f"{places} AS c{i}")
        at += len(group)
    paths = ", ".join(_quote(pointer) for pointer in flat)
    sql = f"SELECT {', '.join(items)} FROM (SELECT json_extract_string(line, [{paths}]) AS x FROM lines)"
    return query(sql, "lines", table).columns


def _spellings(table: pa.Table, names: list[str]) -> list[list[str]]:
    """Other spellings of each name among the keys, sorted: absent ones read as NULL in any row."""
    keys = query("SELECT DISTINCT unnest(json_keys(line)) AS k FROM lines", "lines", table).column("k").to_pylist()
    return [sorted(k for k in keys if k != name and k.lower() == name.lower()) for name in names]


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
