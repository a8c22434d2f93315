"""Values as Postgres writes them, in text and in binary. The type of a column says how, not the value."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tidemill.serve.postgres import fields as f
from tidemill.serve.postgres.problems import ProtocolProblem

_DAY_ZERO = dt.date(2000, 1, 1)
_ZERO = dt.datetime(2000, 1, 1)
_US = dt.timedelta(microseconds=1)
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# ---- text --------------------------------------------------------------------------------------


def text_of(value: Any, oid: int) -> str:
    """A value that is not NULL, as text.

    >>> text_of(True, f.BOOL), text_of(2.0, f.FLOAT8), text_of([1, None], 1016), text_of({"a": None}, f.JSON)
    ('t', '2', '{1,NULL}', '{"a": null}')
    """
    write = _TEXTS.get(oid)
    if write is not None:
        return write(value)
    if oid in f.ELEMENTS:
        return array_text(value, f.ELEMENTS[oid])
    return str(value)


def _bool_text(value: Any) -> str:
    return "t" if value else "f"


def _float_text(value: Any) -> str:
    text = repr(float(value))
    return _SPECIAL.get(text) or text.removesuffix(".0")


def _decimal_text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _bytes_text(value: Any) -> str:
    return "\\x" + bytes(value).hex()


def _moment_text(value: Any) -> str:
    """A timestamp or a time of day, without zeros that say nothing."""
    text = value.isoformat(sep=" ") if isinstance(value, dt.datetime) else value.isoformat()
    return text.rstrip("0") if value.microsecond else text


def _zoned_text(value: Any) -> str:
    """A moment on the clock of its zone, with what that is ahead of UTC."""
    east = round((value.utcoffset() or dt.timedelta()).total_seconds())
    hours, seconds = divmod(abs(east), 3600)
    rest = f"{seconds // 60:02}" + (f":{seconds % 60:02}" if seconds % 60 else "")
    text = _moment_text(value.replace(tzinfo=None))
    return f"{text}{'-' if east < 0 else '+'}{hours:02}" + (f":{rest}" if seconds else "")


def interval_text(value: Any) -> str:
    """An interval.

    >>> interval_text(dt.timedelta(days=2, seconds=3_661, microseconds=500_000))
    '2 days 01:01:01.5'
    """
    months, days, us = interval_parts(value)
    years, months = int(months / 12), int(math.fmod(months, 12))
    parts = [
        f"{count} {unit}{'s' * (abs(count) != 1)}"
        for count, unit in ((years, "year"), (months, "mon"), (days, "day"))
        if count
    ]
    if us or not parts:
        seconds, rest = divmod(abs(us), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{rest:06}".rstrip("0") if rest else ""
        parts.append(("-" if us < 0 else "") + clock + fraction)
    return " ".join(parts)


def interval_parts(value: Any) -> tuple[int, int, int]:
    """(months, days, microseconds)."""
    if isinstance(value, dt.timedelta):
        return 0, value.days, value.seconds * 1_000_000 + value.microseconds
    months, days, ns = value
    return int(months), int(days), int(ns) // 1000


def array_text(values: Any, element: int) -> str:
    """An array of one dimension: texts are quoted where they must be."""
    return "{" + ",".join("NULL" if v is None else _quote_element(text_of(v, element)) for v in values) + "}"


def _quote_element(text: str) -> str:
    plain = text and text.upper() != "NULL" and not any(sign in '{},"\\' or sign.isspace() for sign in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def json_text(value: Any) -> str:
    """A struct, a list or a map as JSON; numbers keep all their digits."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(key))}: {json_text(each)}" for key, each in value.items())
        return "{" + inner + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return json.dumps(value if math.isfinite(value) else _float_text(value))
    if isinstance(value, dt.datetime):
        return json.dumps(value.isoformat())
    return json.dumps(_bytes_text(value) if isinstance(value, bytes) else str(value))


_TEXTS: dict[int, Callable[[Any], str]] = {
    f.BOOL: _bool_text,
    f.FLOAT4: _float_text,
    f.FLOAT8: _float_text,
    f.NUMERIC: _decimal_text,
    f.BYTEA: _bytes_text,
    f.TIMESTAMP: _moment_text,
    f.TIMESTAMPTZ: _zoned_text,
    f.TIME: _moment_text,
    f.INTERVAL: interval_text,
    f.JSON: json_text,
}


# ---- binary ------------------------------------------------------------------------------------


def binary_of(value: Any, oid: int) -> bytes:
    """A value that is not NULL, in binary.

    >>> binary_of(1, f.INT4), binary_of(dt.date(2000, 1, 3), f.DATE)
    (b'\\x00\\x00\\x00\\x01', b'\\x00\\x00\\x00\\x02')
    """
    write = _BINARIES.get(oid)
    try:
        if write is not None:
            return write(value)
        if oid in f.ELEMENTS:
            return _array_binary(value, f.ELEMENTS[oid])
    except (struct.error, OverflowError):
        raise ProtocolProblem("22003", f"{value} does not fit into {f.NAMES.get(oid, oid)}") from None
    return text_of(value, oid).encode()


def numeric_binary(value: Any) -> bytes:
    """Digits of base 10,000, with their weight, sign and scale.

    >>> numeric_binary(Decimal("1.5")).hex()
    '000200000000000100011388'
    """
    number = Decimal(value)
    if not number.is_finite():
        return struct.pack(">hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    text = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[i : i + 4]) for i in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight if groups else 0, 0x4000 * sign, scale, *groups)


def _array_binary(values: Any, element: int) -> bytes:
    parts = [b"\xff\xff\xff\xff" if v is None else _with_length(binary_of(v, element)) for v in values]
    has_null = int(any(v is None for v in values))
    dimensions = struct.pack(">ii", len(parts), 1) if parts else b""
    return struct.pack(">iiI", int(bool(parts)), has_null, element) + dimensions + b"".join(parts)


def _with_length(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _since_zero(value: dt.datetime) -> bytes:
    plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return struct.pack(">q", (plain - _ZERO) // _US)


def _time_binary(value: dt.time) -> bytes:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return struct.pack(">q", seconds * 1_000_000 + value.microsecond)


def _interval_binary(value: Any) -> bytes:
    months, days, us = interval_parts(value)
    return struct.pack(">qii", us, days, months)


_BINARIES: dict[int, Callable[[Any], bytes]] = {
    f.BOOL: lambda v: b"\1" if v else b"\0",
    f.INT2: struct.Struct(">h").pack,
    f.INT4: struct.Struct(">i").pack,
    f.INT8: lambda v: struct.pack(">q", int(v)),
    f.OID: struct.Struct(">I").pack,
    f.FLOAT4: struct.Struct(">f").pack,
    f.FLOAT8: struct.Struct(">d").pack,
    f.NUMERIC: numeric_binary,
    f.BYTEA: bytes,
    f.DATE: lambda v: struct.pack(">i", (v - _DAY_ZERO).days),
    f.TIME: _time_binary,
    f.TIMESTAMP: _since_zero,
    f.TIMESTAMPTZ: _since_zero,
    f.INTERVAL: _interval_binary,
    f.UUID: lambda v: (v if isinstance(v, uuid.UUID) else uuid.UUID(str(v))).bytes,
}
