"""One value as people read it, in one line; what a stream holds can never control the terminal."""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(value: Any) -> str:
    """One value as text.

    >>> [plain(v) for v in (None, True, 0.5, 2.0, "a\\nb", [1, None], {"a": 1})]
    ['NULL', 'true', '0.5', '2.0', 'a↵b', '[1, NULL]', '{a: 1}']
    >>> plain(dt.datetime(2026, 1, 2, 3, 4, 5, 250_000))
    '2026-01-02 03:04:05.25'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, dt.datetime):
        return moment(value)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{clean(str(key))}: {plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(plain(each) for each in value) + "]"
    return clean(str(value))


def clean(text: str) -> str:
    """The text in one line, with control characters spelled out.

    >>> clean("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return _CONTROL.sub(lambda found: "↵" if found[0] == "\n" else repr(found[0])[1:-1], text)


def moment(value: dt.datetime) -> str:
    """A time without zeros that say nothing.

    >>> moment(dt.datetime(2026, 1, 2, 3, 4, 5))
    '2026-01-02 03:04:05'
    """
    text = value.isoformat(sep=" ")
    return re.sub(r"(\.\d*?)0+(?=$|[+-])", r"\1", text) if value.microsecond else text


def seconds(us: int) -> str:
    """A duration of microseconds.

    >>> seconds(2_500_000)
    '2.5 s'
    """
    return f"{us / 1e6:.6f}".rstrip("0").rstrip(".") + " s"


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return str(value)
    return repr(value) if abs(value) >= 1e15 or float(f"{value:.12g}") == value else f"{value:.12g}"
