"""Select lists that only rename, widen and complete columns, on Arrow arrays: a million rows in milliseconds.

Most answers are made so: columns under other names, counts and sums as whole numbers of 64 or 128 bits, a sum, a least
or a greatest value where there was something to see, a time as a timestamp. All else, and every value on which DuckDB
might see more than is seen here, is DuckDB's: then there is no `Shape`, or it gives None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WIDE = pa.decimal128(38, 0)  # what HUGEINT is in Arrow
_TOKEN = re.compile(r"""\s*("(?:[^"]|"")*"|\w+|[(),>])""")
_KINDS = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "HUGEINT": WIDE,
    "DOUBLE": pa.float64(),
}
_NARROWER = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
# Types that come out of DuckDB as they go in.
_KEPT = {*_NARROWER, pa.bool_(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string(), WIDE}
_EARLIEST, _LATEST = -(1 << 62), 1 << 62  # times that are timestamps beyond doubt

Layers = Sequence[tuple[str, str]]
# ("column", name), ("cast", expression, type), ("where", column of counts, expression), ("moment", expression)
Expression = tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """The columns of a select list by name, as expressions over a table."""

    items: Mapping[str, Expression]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(layers: tuple[tuple[str, str], ...], hidden: tuple[str, ...] = ()) -> Shape | None:
        """SELECTs, each over the one before; `hidden` columns pass all of them. None where one is not simple.

        >>> list(Shape.of((("select", '"a" AS "x"'), ("select", '"x", CAST("x" AS BIGINT) AS "y"'))).items.items())
        [('x', ('column', 'a')), ('y', ('cast', ('column', 'a'), 'BIGINT'))]
        """
        passing: dict[str, Expression] = {name: ("column", name) for name in hidden}
        known: dict[str, Expression] | None = None
        for what, text in layers:
            found = _items(text) if what == "select" else None
            if found is None or (known is not None and not all(n in known for e in found.values() for n in _names(e))):
                return None
            made = found if known is None else {name: _over(known, e) for name, e in found.items()}
            known = made | passing
        return None if known is None else Shape(known)

    def table(self, rows: pa.Table) -> pa.Table | None:
        """The rows in this shape; None where a value needs a closer look."""
        columns = {name: _evaluated(e, rows) for name, e in self.items.items()}
        return None if any(c is None for c in columns.values()) else pa.table(columns)


def _evaluated(expression: Expression, rows: pa.Table) -> pa.ChunkedArray | None:
    what, *rest = expression
    if what == "column":
        found = rows.column(rest[0]) if rest[0] in rows.column_names else None
        return found if found is not None and found.type in _KEPT else None
    if what == "where":
        counts = _evaluated(rest[0], rows)
        whole = counts is not None and counts.type == pa.int64() and _all_positive(counts)
        return _evaluated(rest[1], rows) if whole else None
    below = _evaluated(rest[0], rows)
    if below is None:
        return None
    if what == "cast":
        return _cast(below, _KINDS[rest[1]])
    times = below.type == pa.int64() and below.null_count == 0 and _within(below, _EARLIEST, _LATEST)
    return below.cast(pa.timestamp("us")) if times else None


def _all_positive(counts: pa.ChunkedArray) -> bool:
    return counts.null_count == 0 and _within(counts, 1, _LATEST)


def _within(column: pa.ChunkedArray, low: int, high: int) -> bool:
    ends = pc.min_max(column).as_py()
    return len(column) == 0 or (low <= ends["min"] and ends["max"] <= high)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    if column.type == kind:
        return column
    if column.type not in _NARROWER or column.null_count or kind == pa.float64():
        return None
    if kind != WIDE:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:  # a value that does not fit: DuckDB says so
            return None
    return pa.chunked_array([_widened(c) for c in column.cast(pa.int64()).chunks], WIDE)


def _widened(numbers: pa.Array) -> pa.Array:
    """64-bit integers with 128 bits: the high half repeats the sign."""
    low = numbers.to_numpy()
    words = np.empty((len(low), 2), np.int64)
    words[:, 0] = low
    np.right_shift(low, 63, out=words[:, 1])
    return pa.Array.from_buffers(WIDE, len(low), [None, pa.py_buffer(words)])


# ---- reading select lists --------------------------------------------------------------------------


def _names(expression: Expression) -> set[str]:
    if expression[0] == "column":
        return {expression[1]}
    return {n for part in expression[1:] if isinstance(part, tuple) for n in _names(part)}


def _over(known: Mapping[str, Expression], expression: Expression) -> Expression:
    """The expression with its columns replaced by what they are below."""
    if expression[0] == "column":
        return known[expression[1]]
    return tuple(_over(known, part) if isinstance(part, tuple) else part for part in expression)


def _items(text: str) -> dict[str, Expression] | None:
    """The items of a select list; None where one is not simple.

    >>> _items('__n, CAST(CASE WHEN "c" > 0 THEN "s" END AS HUGEINT) AS "total"')["total"]
    ('cast', ('where', ('column', 'c'), ('column', 's')), 'HUGEINT')
    >>> _items('"a" + 1 AS "b"')
    """
    tokens, at = [], 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        tokens.append(found.group(1))
        at = found.end()
    try:
        return _Reading(tokens).items()
    except (IndexError, ValueError):
        return None


class _Reading:
    """Goes through the tokens of a select list once; ValueError or IndexError where it is not simple."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def items(self) -> dict[str, Expression]:
        found: dict[str, Expression] = {}
        while True:
            expression = self._expression()
            if self._comes("AS"):
                name = _name(self._next())
            elif expression[0] == "column":
                name = expression[1]
            else:
                raise ValueError("an item without a name")
            found[name] = expression
            if self.at == len(self.tokens):
                return found
            self._expect(",")

    def _expression(self) -> Expression:
        token = self._next()
        if token == "CAST":
            self._expect("(")
            below = self._expression()
            self._expect("AS")
            kind = self._next()
            self._expect(")")
            if kind not in _KINDS:
                raise ValueError(kind)
            return "cast", below, kind
        if token == "CASE":
            self._expect("WHEN")
            count = ("column", _name(self._next()))
            for expected in (">", "0", "THEN"):
                self._expect(expected)
            then = self._expression()
            self._expect("END")
            return "where", count, then
        if token == "make_timestamp":
            self._expect("(")
            below = self._expression()
            self._expect(")")
            return "moment", below
        return "column", _name(token)

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _comes(self, token: str) -> bool:
        here = self.at < len(self.tokens) and self.tokens[self.at] == token
        self.at += here
        return here

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise ValueError(token)


def _name(token: str) -> str:
    """A column: a quoted name, or a hidden one as it is."""
    if token.startswith('"'):
        return token[1:-1].replace('""', '"')
    if not token.startswith("__"):
        raise ValueError(token)
    return token
