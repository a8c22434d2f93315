"""Operators that keep rows by key: keyed streams, groupings, sets, joins of two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from tidemill.plan.collected import CollectedPart
from tidemill.plan.periods import Every
from tidemill.plan.physical.base import Item, Op, Part
from tidemill.plan.sources import Column
from tidemill.plan.user_aggregates import UserAggregatePart

Rounds = tuple[tuple[int, int], ...]  # periods (every, offset) that a time is rounded up to, one after the other
Beginning = tuple[Rounds, ...] | Literal["static", "first row"]


@dataclass(frozen=True)
class Tagger(Op):
    """The newest record of each key, from records with `__at`, `__seq` and `__gone`."""

    kind: ClassVar[str] = "tagger"

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Shed(Op):
    """Records of `source` without those beyond `updates` for each key and `every_us`; `deleted` tells deletions."""

    kind: ClassVar[str] = "shed"

    source: str
    keys: tuple[str, ...]
    updates: int
    every_us: int
    deleted: str


@dataclass(frozen=True)
class KeptValues:
    """A column of which a grouping keeps every value: `once` names the part that counts different ones (as sets of
    values where `sets`), `low` and `high` say which extremes are needed, `user_aggregates` are those over it,
    `calls` the collected ones.
    """

    column: str
    type: str
    once: str | None = None
    low: bool = False
    high: bool = False
    user_aggregates: tuple[UserAggregatePart, ...] = field(default=(), metadata={"json": "folds"})
    sets: bool = False
    calls: tuple[CollectedPart, ...] = ()
    fields: tuple[str, ...] = ()  # types of the fields a0, a1, … of structs that calls read


@dataclass(frozen=True)
class Group(Op):
    """GROUP BY over partial aggregates (the first input) and changes of kept values (one input for each of `values`).

    `beginning` says when the one row of a keyless answer begins: before all time, with the first row, or at the
    clock's first time rounded up in one of some ways. `at_once`: all rows of a group come at one time, so nothing is
    kept of groups that were shown.
    """

    kind: ClassVar[str] = "group"

    keys: tuple[Column, ...]
    parts: tuple[Part, ...]
    values: tuple[KeptValues, ...]
    beginning: Beginning
    answers: tuple[Item, ...]
    at_once: bool = False


@dataclass(frozen=True)
class NumberedRows(Op):
    """Closed changes in the order of time, with the number of their group (`__g`): what groupings by the same key read
    together. The groups themselves are a pick.
    """

    kind: ClassVar[str] = "numbered_rows"

    keys: tuple[str, ...]


class Addend(NamedTuple):
    """A part that is a sum of whole numbers over single changes: of the column, or (`counts`) of 1 where it has one."""

    part: str
    column: str
    counts: bool


class PlainAnswer(NamedTuple):
    """An answer that is a part, or the count of rows where the part is empty; NULL where the part `guard` is zero."""

    part: str
    guard: str


@dataclass(frozen=True)
class JointGroup(Group):
    """GROUP BY over the changes of `NumberedRows` for which the predicate is true.

    `rows` are its input's columns, `read` those that are its keys, in their order; `sums` are the parts as SQL over
    sets of changes, `addends` the same parts for single ones. `plain` are the answers where all are counts and sums.
    """

    kind: ClassVar[str] = "joint_group"

    rows: tuple[Column, ...] = ()
    read: tuple[str, ...] = ()
    predicate: str | None = None
    sums: tuple[Item, ...] = ()
    addends: tuple[Addend, ...] = ()
    plain: tuple[PlainAnswer, ...] = ()


@dataclass(frozen=True)
class Shift:
    """A row comes at most `us` microseconds after its stamp."""

    tag: ClassVar[str] = "shift"

    us: int


@dataclass(frozen=True)
class Period:
    """A row comes with the first point of a period at or after its stamp."""

    tag: ClassVar[str] = "period"

    every: int
    offset: int


@dataclass(frozen=True)
class Periods:
    """A row comes with the first point of any of several periods at or after its stamp."""

    tag: ClassVar[str] = "periods"

    periods: tuple[Every, ...]


@dataclass(frozen=True)
class PointsInput:
    """A row comes with the first point at or after its stamp of a relation of points: one of the inputs, counted from
    the first that brings points.
    """

    tag: ClassVar[str] = "points"

    number: int


Step = Shift | Period | Periods | PointsInput
Chains = tuple[tuple[Step, ...], ...]  # how rows of a stamp are released, for each path to the operator
Released = dict[str, Chains | None]  # by side, "left" or "right"; None: any time


@dataclass(frozen=True)
class SetCombine(Op):
    """DISTINCT, EXCEPT, INTERSECT, anti-join: the multiplicity of each row from those on both sides.

    The first `sides` inputs are `Counted` changes. Rows whose `stamp` has been `released` on all sides change no more.
    """

    kind: ClassVar[str] = "combine"

    operation: str = field(metadata={"json": "kind"})
    sides: int | None = None  # None: all inputs
    stamp: str | None = None
    released: Released = field(default_factory=dict)


@dataclass(frozen=True)
class JoinSide:
    """One input of a join: rows with a `stamp` can find partners for `keep_us` after it. Rows are not `stored` where no
    later change of the other side can join them.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    stamp: str | None = None
    keep_us: int | None = None
    stored: bool = True


@dataclass(frozen=True)
class JoinAt(Op):
    """Insertions of the first input, joined with the rows of the second one at their time (`before`: just before it),
    or padded with NULL (`outer`).
    """

    kind: ClassVar[str] = "join_at"

    left: JoinSide
    right: JoinSide
    residual: str | None = None
    outer: bool = False
    before: bool = False


@dataclass(frozen=True)
class Join(Op):
    """Inner join of two inputs on equal keys, with a residual predicate; then inputs that bring points."""

    kind: ClassVar[str] = "join"

    left: JoinSide
    right: JoinSide
    residual: str | None = None
    released: Released | None = None
