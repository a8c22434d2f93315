"""Operators about time: points, windows that count rows, whole answers, streams of changes, the output of a view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tidemill.plan.physical.base import Op
from tidemill.plan.sources import Column


@dataclass(frozen=True)
class Clock(Op):
    """A point for each `unit_us` of the clock."""

    kind: ClassVar[str] = "clock"

    unit_us: int = field(metadata={"json": "unit"})


@dataclass(frozen=True)
class SynchronizeOn(Op):
    """Changes of the first input at the points that the second one brings."""

    kind: ClassVar[str] = "synchronize_on"


@dataclass(frozen=True)
class RowPoints(Op):
    """A point after every `rows` rows of an input with these columns."""

    kind: ClassVar[str] = "row_points"

    rows: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class RowsWindow(Op):
    """The last `rows` rows, after every `slide` rows."""

    kind: ClassVar[str] = "rows_window"

    rows: int
    slide: int


@dataclass(frozen=True)
class Stamp(Op):
    """Each row with the time at which it came."""

    kind: ClassVar[str] = "stamp"


@dataclass(frozen=True)
class Rstream(Op):
    """All rows again at each point: of a `period`, of the second input where there is one, else of every change."""

    kind: ClassVar[str] = "rstream"

    period: tuple[int, int] | None
    stamp: str


@dataclass(frozen=True)
class ChangeStream(Op):
    """The rows that come, or those that go (`deleted`), at each time, with the time as `TS`."""

    kind: ClassVar[str] = "change_stream"

    stamp: str
    deleted: bool


@dataclass(frozen=True)
class CatchUp(Op):
    """Changes, those before `moment` at that time; none is closed before the `sources` have caught up."""

    kind: ClassVar[str] = "catch_up"

    sources: tuple[str, ...]
    moment: int


@dataclass(frozen=True)
class Alternatives(Op):
    """The changes of the first input, or from a time on, at least `agreed`, those of the second; `plans` are the
    numbers of both.
    """

    kind: ClassVar[str] = "alternatives"

    plans: tuple[int, ...]
    agreed: int | None


@dataclass(frozen=True)
class ViewOutput(Op):
    """A view's changes, net, once their time is closed; `closed`: the input has only such."""

    kind: ClassVar[str] = "gate"

    closed: bool = False
