"""Arrow columns as Python values and rows as JSON, for every value that a column can hold.

Python's dates end with the years 1 and 9999, DuckDB's do not: what Python cannot represent becomes text in DuckDB's
spelling, `infinity` for example. Nothing here raises for a value.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_INFINITE = {
    (1 << 31) - 1: "infinity",
    1 - (1 << 31): "-infinity",
    (1 << 63) - 1: "infinity",
    1 - (1 << 63): "-infinity",
}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class Beyond(str):
    """The text of a value that Python has no object for."""


def python_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Like `to_pylist`; a value that Python cannot represent is a `Beyond`, and so is an interval: months have no
    length.

    >>> python_values(pa.array([0, 2**31 - 1, -719529, 3_000_000], pa.int32()).cast(pa.date32()))
    [datetime.date(1970, 1, 1), 'infinity', '0002-12-31 (BC)', '10183-09-21']
    """
    try:
        found = column.to_pylist()
        return [_spell_intervals(value) for value in found] if _has_intervals(column.type) else found
    except (OverflowError, ValueError, pa.ArrowInvalid):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value for chunk in chunks for value in _each(chunk)]


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries, whatever is in them."""
    columns = [python_values(column) for column in table.columns]
    return (
        [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
        if columns
        else [{} for _ in range(table.num_rows)]
    )


def json_text(value: Any) -> str:
    """JSON that every reader takes: numbers that are none (NaN, infinity) and bytes that are no text become strings.

    >>> json_text({"a": float("nan"), "b": b"x\\xff", "c": dt.date(2026, 1, 2)})
    '{"a": "NaN", "b": "x\\\\\\\\xFF", "c": "2026-01-02"}'
    """
    try:
        return json.dumps(value, default=_text, allow_nan=False)
    except ValueError:
        return json.dumps(_spell_non_finite(value), default=_text)


def _spell_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spell_non_finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spell_non_finite(each) for each in value]
    return value


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02X}" for b in value)
    return str(value)


def _each(array: pa.Array) -> Iterator[Any]:
    """The values of an array in which some cannot be represented."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _each(array.dictionary_decode())
    elif pa.types.is_struct(kind):
        fields = [python_values(field) for field in array.flatten()]
        for valid, row in zip(array.is_valid().to_pylist(), zip(*fields, strict=True), strict=True):
            yield {f.name: v for f, v in zip(kind, row, strict=True)} if valid else None
    elif pa.types.is_nested(kind):
        for scalar in array:
            yield None if not scalar.is_valid else python_values(scalar.values)
    else:
        for scalar in array:
            yield _one(scalar, kind)


def _one(scalar: pa.Scalar, kind: pa.DataType) -> Any:
    try:
        return _spell_intervals(scalar.as_py())
    except (OverflowError, ValueError, pa.ArrowInvalid):
        if pa.types.is_date32(kind):
            return Beyond(_date_text(scalar.value))
        if pa.types.is_timestamp(kind):
            return Beyond(_moment_text(scalar.value, kind.unit) + ("+00" if kind.tz else ""))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return Beyond(scalar.as_buffer().to_pybytes().decode("utf-8", "replace"))
        return Beyond(str(getattr(scalar, "value", "?")))


def _has_intervals(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_intervals(kind.field(i).type) for i in range(kind.num_fields))
    return pa.types.is_interval(kind)


def _spell_intervals(value: Any) -> Any:
    """A value with its intervals as text."""
    if isinstance(value, pa.MonthDayNano):
        return Beyond(interval_text(value.months, value.days, value.nanoseconds // 1000))
    if isinstance(value, dict):
        return {key: _spell_intervals(each) for key, each in value.items()}
    return [_spell_intervals(each) for each in value] if isinstance(value, list) else value


def interval_text(months: int, days: int, us: int) -> str:
    """An interval in DuckDB's spelling.

    >>> interval_text(14, 3, 4_500_000), interval_text(0, 0, 0), interval_text(-1, 1, -1)
    ('1 year 2 months 3 days 00:00:04.5', '00:00:00', '-1 month 1 day -00:00:00.000001')
    """
    years = abs(months) // 12 * (1 if months > 0 else -1)
    parts = [
        f"{n} {unit}{'s' * (abs(n) != 1)}"
        for n, unit in ((years, "year"), (months - 12 * years, "month"), (days, "day"))
        if n
    ]
    if us or not parts:
        seconds, fraction = divmod(abs(us), 1_000_000)
        digits = f".{fraction:06d}".rstrip("0") if fraction else ""
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"
        parts.append(f"{'-' * (us < 0)}{clock}")
    return " ".join(parts)


def _moment_text(ticks: int, unit: str) -> str:
    if ticks in _INFINITE:
        return _INFINITE[ticks]
    seconds, fraction = divmod(ticks, _PER_SECOND[unit])
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = f".{fraction:0{_PRECISION[unit]}d}".rstrip("0") if fraction else ""
    return f"{_date_text(days)} {clock}{digits}"


def _date_text(days: int) -> str:
    """A day in DuckDB's spelling; the proleptic Gregorian calendar repeats every 400 years, which are 146,097 days.

    >>> _date_text(-719163), _date_text(107_741_365)
    ('0001-12-31 (BC)', '296955-11-03')
    """
    if days in _INFINITE:
        return _INFINITE[days]
    cycles, rest = divmod(days + 719_162, 146_097)  # since 0001-01-01
    day = dt.date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    shown = f"{year:04d}" if year > 0 else f"{1 - year:04d}"
    return f"{shown}-{day.month:02d}-{day.day:02d}" + ("" if year > 0 else " (BC)")
