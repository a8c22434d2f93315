"""Epochs: keys of GROUP BY that cut the time of a stream into pieces, whose groups are shown when the piece ends.

    GROUP BY time/5                                   pieces of 5 clock units
    GROUP BY date_trunc('minute', at)                 pieces of a minute; weeks begin on Monday
    GROUP BY time_bucket(INTERVAL '5 minutes', at)    pieces of 5 minutes from 2000-01-03 or an origin on
    GROUP BY window_start, window_end                 of TUMBLE or HOP in FROM

All but the last are epochs only of the event time of a stream that takes no rows back, where they are spelled as dates.
The grouping has the number of the epoch as its key, and what users see is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.scalars import (
    Ceiling,
    ColumnRef,
    Epoch,
    Literal,
    Operation,
    Paren,
    Scalar,
    Shift,
    Timestamp,
    shift_of,
)
from tidemill.sql.bind.scalar import Bound, Scalars, duration_us, stamp_value
from tidemill.sql.bind.scope import Field, Input, Rhythm, Scope, TableWindows
from tidemill.sql.lexical.durations import UNITS_US

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_DAY = 86_400_000_000
_MONDAY = 4 * _DAY  # 1970-01-01 was a Thursday
_ORIGIN = 946_857_600_000_000  # 2000-01-03, a Monday: where the buckets of time_bucket begin
_DATES = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")


@dataclass(frozen=True)
class FoundEpoch:
    """A key that is an epoch. `bound` is its number, None where the windows of the input are asked one by one; `shown`
    makes what users see of the number (then of the end of the window), None where that is the number itself.
    """

    bound: Bound | None
    period: tuple[int, int] | None  # of windows that are still to be applied to the rows
    stamp: str = ""
    shown: Callable[[Scalar], Scalar] | None = None
    type: str = "BIGINT"

    def enter(self, node: r.Relation) -> r.Relation:
        """The rows, each from the end of its epoch on."""
        if self.period is None:
            return node
        lower = Ceiling(Shift(ColumnRef(self.stamp), "+", 1), *self.period)
        return r.Temporal(node, lower, None, self.period)

    @property
    def rhythm(self) -> Rhythm | None:
        return None if self.period is None else Rhythm(period=self.period)


def find_epoch(node: exp.Expression, scope: Scope) -> FoundEpoch | None:
    """The epoch that a key of GROUP BY is, if it is one."""
    if isinstance(node, (exp.Div, exp.IntDiv)):
        return _division(node, scope)
    if isinstance(node, exp.Column):
        return _table_window(node, scope)
    return _date(node, scope)


def find_windows(scope: Scope) -> TableWindows | None:
    """The windows that overlap, of the one input of a query that are asked one by one."""
    windows = scope.inputs[0].windows if len(scope.inputs) == 1 else None
    return windows if windows is not None and windows.slide_us != windows.size_us else None


def _division(node: exp.Expression, scope: Scope) -> FoundEpoch | None:
    """time/5: a tumbling epoch of 5 units."""
    divisor = node.expression
    if not isinstance(divisor, exp.Literal) or divisor.is_string or not divisor.name.isdigit():
        return None
    length = duration_us(divisor, scope.unit_us)
    stamp = _time_column(node.this, scope)
    if stamp is None or not length:
        return None  # a division like any other
    type_name = Scalars(scope).bind(node.this).type if scope.domain == "units" else "BIGINT"
    if type_name not in _INTEGERS:
        return None
    shift = shift_of(stamp)
    assert shift is not None, "TS plus or minus a duration"
    period = length, -shift[1] % length  # epochs of TS - 3 end 3 units later
    return FoundEpoch(Bound(Epoch(stamp, length, type_name), type_name), period, shift[0])


def _date(node: exp.Expression, scope: Scope) -> FoundEpoch | None:
    """date_trunc and time_bucket of an event time."""
    piece = _piece(node, scope) if scope.dates else None
    if piece is None or len(scope.inputs) != 1 or scope.domain != "timestamp" or not r.append_only(scope.node):
        return None
    time, length, offset = piece
    stamp = _time_column(time, scope)
    shift = shift_of(stamp) if stamp is not None else None
    if shift is None or shift[1] or Scalars(scope).bind(time).type != "TIMESTAMP":
        return None
    began = Shift(ColumnRef(shift[0]), "-", offset) if offset else ColumnRef(shift[0])

    def show(number: Scalar) -> Scalar:
        start = Paren(Operation("*", number, Literal(str(length))))
        return Timestamp(Shift(start, "+", offset) if offset else start)

    key = Bound(Epoch(began, length, "BIGINT"), "BIGINT")
    return FoundEpoch(key, (length, offset), shift[0], show, "TIMESTAMP")


def _piece(node: exp.Expression, scope: Scope) -> tuple[exp.Expression, int, int] | None:
    """(time, length, offset) of a call that rounds a time down, in microseconds."""
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        unit = node.text("unit").upper()
        if unit not in _DATES:
            return None
        return node.this, UNITS_US[unit], _MONDAY if unit == "WEEK" else 0
    if not isinstance(node, exp.DateBin):
        return None
    length, origin = duration_us(node.this, scope.unit_us), _origin(node.args.get("unit"))
    if not isinstance(node.this, exp.Interval) or not length or origin is None:
        return None
    return node.expression, length, origin % length


def _origin(node: exp.Expression | None) -> int | None:
    """Microseconds of a TIMESTAMP that is written out."""
    if node is None:
        return _ORIGIN
    text = node.this.name if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) else ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1) if moment.tzinfo is None else None
    return None if since is None else (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _table_window(node: exp.Column, scope: Scope) -> FoundEpoch | None:
    """window_start or window_end of the one input of a query."""
    item = scope.inputs[0] if len(scope.inputs) == 1 else None
    name = node.name.lower()
    if item is None or item.windows is None or name not in ("window_start", "window_end") or scope.beside:
        return None
    windows = item.windows
    kind = "TIMESTAMP" if item.domain == "timestamp" else "BIGINT"
    if windows.slide_us != windows.size_us:
        ago = windows.size_us if name == "window_start" else 0
        return FoundEpoch(None, None, shown=lambda end: _time(_shift(end, -ago), item, scope), type=kind)
    ahead = windows.size_us if name == "window_end" else 0
    key = Bound(Epoch(ColumnRef(str(item.ts)), windows.size_us, "BIGINT"), "BIGINT")
    size = Literal(str(windows.size_us))
    return FoundEpoch(
        key, None, shown=lambda n: _time(_shift(Paren(Operation("*", n, size)), ahead), item, scope), type=kind
    )


def _time(us: Scalar, item: Input, scope: Scope) -> Scalar:
    return stamp_value(us, item.domain, scope.unit_us)


def _shift(time: Scalar, us: int) -> Scalar:
    return time if us == 0 else Shift(time, "+" if us > 0 else "-", abs(us))


def _time_column(node: exp.Expression, scope: Scope) -> Scalar | None:
    """Microseconds of the event time when `node` is TS, or the column it was taken from."""
    time = Scalars(scope).time_us(node)
    if time is None and isinstance(node, exp.Column):
        found = scope.resolve(node)
        time = next(
            (ColumnRef(i.ts) for i in scope.inputs if i.ts and isinstance(found, Field) and i.event == found.column),
            None,
        )
    return time
