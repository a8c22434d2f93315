"""Operators that depend on the times of changes: windows, synchronizers, TS, RSTREAM, ISTREAM and DSTREAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.plan.cached import cached_property
from tidemill.plan.periods import Every
from tidemill.plan.relations.base import TS, Relation
from tidemill.plan.scalars import Scalar
from tidemill.plan.sources import Column, Schema


@dataclass(frozen=True, eq=False)
class Temporal(Relation):
    """NOW window: a row is inside from time `lower` (inclusive) until `upper` (exclusive).

    Both are BIGINT microsecond expressions over the row; None means unbounded. `period` is set when
    windows report at fixed points (RANGE … SLIDE …): (every, offset) in microseconds.
    """

    input: Relation
    lower: Scalar | None
    upper: Scalar | None
    period: tuple[int, int] | None = None

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Synchronize(Relation):
    """Periodic synchronizer: each change waits for the next multiple of `every_us` (+ offset)."""

    input: Relation
    every_us: int
    offset_us: int = 0

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class SynchronizePeriods(Relation):
    """Synchronizer of several periods: each change waits for the next point of any of them."""

    input: Relation
    periods: tuple[Every, ...]

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    def check(self) -> None:
        assert self.periods, "a synchronizer needs points"


@dataclass(frozen=True, eq=False)
class SynchronizeOn(Relation):
    """Event synchronizer: each change waits for the next time point of `points`."""

    input: Relation
    points: Relation

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class CatchUp(Relation):
    """The answer of a query that reads `sources` a second time, from the beginning, shown once they have caught up.

    What is present at `moment` appears then, as one change; later changes keep their times.
    """

    input: Relation
    sources: tuple[str, ...]
    moment: int

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class RowPoints(Relation):
    """Time points at which the number of rows inserted so far passes a multiple of `rows`."""

    input: Relation
    rows: int

    @cached_property
    def schema(self) -> Schema:
        return (Column("TimePoint", "BIGINT"),)


@dataclass(frozen=True, eq=False)
class RowsWindow(Relation):
    """The last `rows` rows in time order, refreshed each `slide` rows; ties are ordered by value."""

    input: Relation
    rows: int
    slide: int = 1

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Stamp(Relation):
    """Adds `__ts`: the time at which this copy of the row appeared (oldest copies leave first)."""

    input: Relation

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, Column(TS, "BIGINT"))


@dataclass(frozen=True, eq=False)
class Rstream(Relation):
    """The whole answer again at each synchronization point, as an append-only relation with `TS`.

    `period` (every, offset) or `points` gives the points; with neither, every time the answer changes.
    """

    input: Relation
    period: tuple[int, int] | None
    points: Relation | None
    stamp: Scalar
    stamp_type: str

    @cached_property
    def schema(self) -> Schema:
        return (Column("TS", self.stamp_type), *self.input.schema)


@dataclass(frozen=True, eq=False)
class ChangeStream(Relation):
    """CQL's Istream and Dstream: the rows that come or go at each time, as an append-only relation with `TS`.

    As multisets, with R(t) the input at time t and R(t-) what it was just before,

        inserted: R(t) - R(t-)        deleted: R(t-) - R(t)

    so a row that is replaced gives its new values in the first and its old ones in the second, and what comes and goes
    at one time is in neither.
    """

    input: Relation
    rows: Literal["inserted", "deleted"]
    stamp: Scalar
    stamp_type: str

    @cached_property
    def schema(self) -> Schema:
        return (Column("TS", self.stamp_type), *self.input.schema)
