"""Where rows come from: sources, taggers, the clock, and views that other views read."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import SEQ, TS, Relation
from tidemill.plan.scalars import Scalar
from tidemill.plan.sources import Column, Schema


@dataclass(frozen=True, eq=False)
class Scan(Relation):
    """The rows of one raw source as an append-only relation, with `__ts` and `__seq`.

    `birth` is the plan version that first read it: a later reader is a different relation, because it
    sees the stream from its creation on only.
    """

    source: str
    columns: Schema
    birth: int = 0
    static: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.columns, Column(TS, "BIGINT"), Column(SEQ, "BIGINT"))


@dataclass(frozen=True, eq=False)
class Constants(Scan):
    """As many numbered rows, from 0, as VALUES has, or one for a SELECT without FROM: a table that needs no files. What
    the query says of each row is computed above it.
    """

    rows: int = 1


@dataclass(frozen=True, eq=False)
class Delivered(Relation):
    """The changes of a view of another site, as they arrive: rows come and go. `__ts` and `__seq` are of changes, not
    of rows, so what reads this takes the other columns only.
    """

    source: str
    columns: Schema
    birth: int = 0

    @cached_property
    def schema(self) -> Schema:
        return (*self.columns, Column(TS, "BIGINT"), Column(SEQ, "BIGINT"))


@dataclass(frozen=True, eq=False)
class Amended(Relation):
    """The rows of a source that accepts late rows: these arrive after the source's frontier has passed their stamp,
    which they keep. Stamps are in no order here, so no rule rewrites below this node.
    """

    input: Relation

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Shed(Relation):
    """The records of a source without those that load shedding drops: while it sheds, each key has at most `updates`
    records in each `every_us` of event time, the first ones to arrive. Records that satisfy `deleted` are never dropped
    and not counted.
    """

    input: Scan
    keys: tuple[str, ...]
    updates: int
    every_us: int
    deleted: Scalar | None = None

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Tag(Relation):
    """The tagger of an update stream: the last record of each key, until a record deletes it.

    `deleted` is a predicate over the input; records that satisfy it remove their key. The merged
    select-tagger is this node with the selection folded into `deleted`.
    """

    input: Relation
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    deleted: Scalar | None = None

    @cached_property
    def schema(self) -> Schema:
        return tuple(Column(c, self.input.type_of(c)) for c in self.columns)


@dataclass(frozen=True, eq=False)
class Clock(Relation):
    """clockStr: one row for each clock unit, at that time."""

    unit_us: int

    @cached_property
    def schema(self) -> Schema:
        return (Column("TimePoint", "BIGINT"),)


@dataclass(frozen=True, eq=False)
class Seed(Relation):
    """The stored contents of a view at the moment a later view began to read it."""

    view: str
    columns: Schema
    birth: int

    @cached_property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True, eq=False)
class SeedSince(Seed):
    """What a view held at an earlier time, and its changes from then until a later view began to read it."""

    since: int


@dataclass(frozen=True, eq=False)
class View(Relation):
    """A created view as an input of another query. Rules do not rewrite below it: it runs in any case.

    `late` when the view ran before its reader began: the reader then takes the view's changes from that moment on.
    """

    name: str
    input: Relation
    late: bool = False

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema
