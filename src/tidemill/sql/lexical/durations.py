"""Lengths of time: 5, 2 MINUTES, INTERVAL '5' MINUTE, '5 seconds'."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from sqlglot.tokens import TokenType

from tidemill.sql.lexical.cursor import Cursor
from tidemill.sql.lexical.tokens import did_you_mean

LONGEST_US = 2**63 - 1

_NAMED = {
    ("us", "microsecond", "microseconds"): 1,
    ("ms", "millisecond", "milliseconds"): 1_000,
    ("s", "sec", "second", "seconds"): 1_000_000,
    ("min", "minute", "minutes"): 60_000_000,
    ("hour", "hours"): 3_600_000_000,
    ("day", "days"): 86_400_000_000,
    ("week", "weeks"): 604_800_000_000,
}
UNITS_US = {name.upper(): us for names, us in _NAMED.items() for name in names}
_LONG_UNITS = tuple(unit for unit in UNITS_US if len(unit) > 4)
_NOT_FIXED = ("MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS")
_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*")
_HINT = "write 5 (clock units), 2 MINUTES, INTERVAL '5' MINUTE or '5 seconds'"


@dataclass(frozen=True)
class Duration:
    """A positive length of time; exactly one of clock units and microseconds is given."""

    units: int | None = None
    us: int | None = None

    def __post_init__(self) -> None:
        if (self.units is None) == (self.us is None):
            raise ValueError("give either units or us")

    def sql(self) -> str:
        """The shortest spelling that means the same.

        >>> Duration(us=120_000_000).sql(), Duration(units=5).sql()
        ('2 MINUTES', '5')
        """
        if self.us is None:
            return str(self.units)
        names, size = max(
            ((names, size) for names, size in _NAMED.items() if self.us % size == 0), key=lambda pair: pair[1]
        )
        return f"{self.us // size} {names[-1].upper()}"


def duration_from_text(text: str) -> Duration:
    """The length of time in a string; ValueError says what is wrong with it.

    >>> duration_from_text("1 hour 30 minutes").us
    5400000000
    >>> duration_from_text("5")
    Duration(units=5, us=None)
    """
    if re.fullmatch(r"\s*\d{1,18}\s*", text):
        return _check_positive(Duration(units=int(text)))
    total, end = Fraction(0), 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            raise ValueError("not a length of time")
        total += _amount_us(part[1], part[2])
        end = part.end()
    return _from_us(total)


def parse_duration(cursor: Cursor) -> Duration:
    """Read a length of time."""
    begin = cursor.index
    explicit = cursor.take("INTERVAL")
    try:
        return _parse(cursor, explicit)
    except ValueError as error:
        cursor.index = begin
        cursor.fail(str(error), code="TM111", hint=_HINT)


def _parse(cursor: Cursor, explicit: bool) -> Duration:
    token = cursor.token
    if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
        cursor.fail_expecting("a length of time", hint=_HINT)
    cursor.advance()
    if cursor.word() in UNITS_US and re.fullmatch(r"\s*[\d._]+\s*", token.text):
        return _from_us(_amount_us(token.text.strip(), cursor.advance().text))
    if token.token_type == TokenType.NUMBER:
        if explicit:
            cursor.fail_expecting("a unit of time", known=tuple(UNITS_US), hint=_HINT)
        if not re.fullmatch(r"\d{1,18}", token.text):
            raise ValueError("a length of time in clock units must be a whole number")
        _check_unit(cursor)
        return _check_positive(Duration(units=int(token.text)))
    return duration_from_text(token.text)


def _check_unit(cursor: Cursor) -> None:
    """A word after clock units is an alias; refuse one that looks like a misspelled unit."""
    word = cursor.word()
    if word in _NOT_FIXED:
        raise ValueError(f'"{word}" is not a unit of time of fixed length')
    if len(word) > 4 and did_you_mean(word, _LONG_UNITS):
        cursor.fail_expecting("a unit of time", known=_LONG_UNITS)


def _amount_us(number: str, unit: str) -> Fraction | int:
    size = UNITS_US.get(unit.upper())
    if size is None:
        raise ValueError(f'"{unit}" is not a unit of time of fixed length')
    if not re.fullmatch(r"\d{1,18}(\.\d{1,9})?", number):
        raise ValueError("not a length of time")
    return Fraction(number) * size if "." in number else int(number) * size


def _from_us(total: Fraction | int) -> Duration:
    if total.denominator != 1:
        raise ValueError("a length of time must be whole microseconds")
    if total > LONGEST_US:
        raise ValueError("a length of time that is too long")
    return _check_positive(Duration(us=int(total)))


def _check_positive(duration: Duration) -> Duration:
    if not (duration.units or duration.us):
        raise ValueError("a length of time must be greater than zero")
    return duration
