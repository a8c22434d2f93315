"""The algebra: every standing query is a tree of these nodes.

A relation is a multiset of rows that changes over time. Scalar expressions are DuckDB SQL over the
quoted column names of the input; they were parsed, checked and typed by `sql.bind`. Hidden columns
begin with two underscores: `__ts` is the paper's TS in microseconds, `__seq` the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tidemill.plan.aggregates import Aggregate
from tidemill.plan.node import Node, walk
from tidemill.plan.sources import Column, Schema
from tidemill.plan.windows import Window

TS = "__ts"
SEQ = "__seq"
STATIC_TIME = -62_135_596_800_000_000  # rows of a table were always there: since the year 1

SetKind = Literal["distinct", "except_all", "except", "intersect_all", "intersect", "anti"]


@dataclass(frozen=True, eq=False)
class Relation(Node):
    """A node whose value at every time is a multiset of rows of `schema`."""

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(c.name for c in self.schema)

    def type_of(self, name: str) -> str:
        """DuckDB type of a column."""
        return next(c.type for c in self.schema if c.name == name)


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

    @property
    def schema(self) -> Schema:
        return (*self.columns, Column(TS, "BIGINT"), Column(SEQ, "BIGINT"))


@dataclass(frozen=True, eq=False)
class Tag(Relation):
    """The tagger of an update stream: the last record of each key, until a record deletes it.

    `deleted` is a predicate over the input; records that satisfy it remove their key. The merged
    select-tagger is this node with the selection folded into `deleted`.
    """

    input: Relation
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    deleted: str | None = None

    @property
    def schema(self) -> Schema:
        return tuple(Column(c, self.input.type_of(c)) for c in self.columns)


@dataclass(frozen=True, eq=False)
class Clock(Relation):
    """clockStr: one row for each clock unit, at that time."""

    unit_us: int

    @property
    def schema(self) -> Schema:
        return (Column("TimePoint", "BIGINT"),)


@dataclass(frozen=True, eq=False)
class Seed(Relation):
    """The stored contents of a view at the moment a later view began to read it."""

    view: str
    columns: Schema
    birth: int

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True, eq=False)
class View(Relation):
    """A created view as an input of another query. Rules do not look below it: it runs anyway.

    `late` when the view ran before its reader began: the reader then takes what the view lets out from that moment on.
    """

    name: str
    input: Relation
    late: bool = False

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Filter(Relation):
    """Rows that satisfy the predicate; times and multiplicities stay."""

    input: Relation
    predicate: str

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Item:
    """One output column of a projection: a name, its SQL, its type."""

    name: str
    sql: str
    type: str


@dataclass(frozen=True, eq=False)
class Project(Relation):
    """One output row for each input row; times and multiplicities stay."""

    input: Relation
    items: tuple[Item, ...]

    @property
    def schema(self) -> Schema:
        return tuple(Column(i.name, i.type) for i in self.items)

    def passes(self, name: str) -> str | None:
        """The input column that output column `name` copies, if it is a plain copy."""
        for item in self.items:
            if item.name == name:
                return next((c for c in self.input.names if item.sql == quoted(c)), None)
        return None


@dataclass(frozen=True, eq=False)
class Union(Relation):
    """All rows of all inputs, whose schemas agree."""

    inputs: tuple[Relation, ...]

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True, eq=False)
class Temporal(Relation):
    """NOW window: a row is inside from time `lower` (inclusive) until `upper` (exclusive).

    Both are BIGINT microsecond expressions over the row; None means unbounded. `period` is set when
    windows report at fixed points (RANGE … SLIDE …): (every, offset) in microseconds.
    """

    input: Relation
    lower: str | None
    upper: str | None
    period: tuple[int, int] | None = None

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Synchronize(Relation):
    """Periodic synchronizer: each change waits for the next multiple of `every_us` (+ offset)."""

    input: Relation
    every_us: int
    offset_us: int = 0

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class SynchronizeOn(Relation):
    """Event synchronizer: each change waits for the next time point of `points`."""

    input: Relation
    points: Relation

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class RowPoints(Relation):
    """Time points at which the number of rows inserted so far passes a multiple of `rows`."""

    input: Relation
    rows: int

    @property
    def schema(self) -> Schema:
        return (Column("TimePoint", "BIGINT"),)


@dataclass(frozen=True, eq=False)
class RowsWindow(Relation):
    """The last `rows` rows in time order, refreshed each `slide` rows; ties are ordered by value."""

    input: Relation
    rows: int
    slide: int = 1

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Join(Relation):
    """Inner equi-join with an optional residual predicate; column names of both sides differ.

    `keep_left_us` / `keep_right_us`: a row of that side cannot match any more once the clock is this far
    past its `__ts`-column named in `left_ts` / `right_ts` (band joins); None keeps it as long as it lives.
    """

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...]
    residual: str | None = None
    left_ts: str | None = None
    right_ts: str | None = None
    keep_left_us: int | None = None
    keep_right_us: int | None = None

    @property
    def schema(self) -> Schema:
        return (*self.left.schema, *self.right.schema)

    def check(self) -> None:
        names = [c.name for c in self.schema]
        assert len(set(names)) == len(names), f"join sides share column names: {names}"


@dataclass(frozen=True, eq=False)
class SetCombine(Relation):
    """Multiplicity of each row from its multiplicities left (l) and right (r).

    distinct [l>0] · except_all max(l-r,0) · except [l>0 and r=0] · intersect_all min(l,r) ·
    intersect [l>0 and r>0] · anti l if r=0 else 0.
    """

    kind: SetKind
    left: Relation
    right: Relation | None = None

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True, eq=False)
class GroupBy(Relation):
    """One row for each group that holds at least one input row; without keys, one row in all."""

    input: Relation
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def schema(self) -> Schema:
        keys = tuple(Column(k, self.input.type_of(k)) for k in self.keys)
        return (*keys, *(Column(a.name, a.type) for a in self.aggregates))


@dataclass(frozen=True, eq=False)
class WindowAggregate(Relation):
    """GROUP BY over a window of a stream: one row for each group that the window holds at a point.

    The same as Filter, Temporal, Project and GroupBy over `input` (`unshared` writes it so), in one node that can
    share its work with others over the same stream. `keys` and `arguments` are expressions over `input`; aggregates
    name arguments. With `once`, each group is reported when its window ends and stays for ever (`GROUP BY time/5`).
    Over a RowsWindow the window counts rows: `window` says the same of row numbers, not of times.
    """

    input: Relation
    predicate: str | None
    keys: tuple[Item, ...]
    arguments: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]
    window: Window
    once: bool = False

    @property
    def schema(self) -> Schema:
        keys = tuple(Column(k.name, k.type) for k in self.keys)
        return (*keys, *(Column(a.name, a.type) for a in self.aggregates))

    @property
    def counts_rows(self) -> bool:
        """True when the points and lengths of the window are numbers of rows."""
        return isinstance(self.input, RowsWindow)


@dataclass(frozen=True, eq=False)
class JoinAggregate(Relation):
    """GROUP BY over an inner join of several inputs: one row for each group of joined rows.

    The same as Join, Filter, Project and GroupBy over the inputs (`plan.aggregation_joins.late` writes it so), in one
    node that may aggregate any of its inputs before they meet (paper 000). All column names of all inputs differ; `on`
    are equalities between columns of different inputs; `keys` and `arguments` are expressions over all columns. The
    rows of input `spread` are split over the shards by their content, and all other inputs are copied.
    """

    inputs: tuple[Relation, ...]
    on: tuple[tuple[str, str], ...]
    residual: str | None
    keys: tuple[Item, ...]
    arguments: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]
    spread: int | None = None

    @property
    def schema(self) -> Schema:
        keys = tuple(Column(k.name, k.type) for k in self.keys)
        return (*keys, *(Column(a.name, a.type) for a in self.aggregates))

    @property
    def labels(self) -> tuple[str, ...]:
        """What the inputs are called: the first part of their columns' names."""
        return tuple(next((n.partition(".")[0] for n in i.names if not n.startswith("__")), f"input {k + 1}")
                     for k, i in enumerate(self.inputs))

    def check(self) -> None:
        names = [n for i in self.inputs for n in i.names]
        assert len(set(names)) == len(names), f"inputs share column names: {names}"


@dataclass(frozen=True, eq=False)
class Stamp(Relation):
    """Adds `__ts`: the time at which this copy of the row appeared (oldest copies leave first)."""

    input: Relation

    @property
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
    stamp: str
    stamp_type: str

    @property
    def schema(self) -> Schema:
        return (Column("TS", self.stamp_type), *self.input.schema)


def quoted(name: str) -> str:
    """A column name as SQL text.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def insert_only(node: Relation) -> bool:
    """True when no change of this relation ever takes a row away."""
    if isinstance(node, (Scan, Clock, Rstream, RowPoints, Seed)):
        return True
    if isinstance(node, Temporal):
        return node.upper is None and insert_only(node.input)
    if isinstance(node, WindowAggregate):
        return node.once
    if isinstance(node, Union):
        return all(insert_only(i) for i in node.inputs)
    if isinstance(node, Join):
        return insert_only(node.left) and insert_only(node.right)
    if isinstance(node, SetCombine):
        return node.kind in ("distinct", "intersect", "intersect_all") and all(
            insert_only(c) for c in node.children if isinstance(c, Relation)
        )
    if isinstance(node, (Filter, Project, Synchronize, SynchronizeOn, Stamp, View)):
        return insert_only(node.input)
    return False


def never_changes(node: Relation) -> bool:
    """True for tables and what is made of tables alone: complete after their first batch."""
    if isinstance(node, Scan):
        return node.static
    children = [c for c in node.children if isinstance(c, Relation)]
    return bool(children) and all(never_changes(c) for c in children)


def beginning(node: Relation) -> tuple[int, int] | Literal["first row"] | None:
    """When an answer that has a row even for no input begins: with the clock (None), or at the first point of the
    one period by which all below it refreshes. Where points come from data, or the
    clock ran before, it begins with the first input row.
    """
    periods: set[tuple[int, int]] = set()
    for below in walk(node):
        if isinstance(below, (SynchronizeOn, RowPoints, Rstream, Seed)):
            return "first row"
        if isinstance(below, Synchronize):
            periods.add((below.every_us, below.offset_us))
        if isinstance(below, Temporal) and below.period:
            periods.add(below.period)
        if isinstance(below, WindowAggregate) and not below.counts_rows:
            periods.add((below.window.slide, below.window.offset))
    if len(periods) > 1:
        return "first row"
    return periods.pop() if periods else None


def with_children(node: Relation, *children: Relation) -> Relation:
    """The same node over other inputs, given in the order of `children`."""
    if isinstance(node, (Union, JoinAggregate)):
        return replace(node, inputs=tuple(children))
    names = [f for f in node.__dataclass_fields__ if isinstance(getattr(node, f), Relation)]
    return replace(node, **dict(zip(names, children, strict=True)))


def sync_ceiling(time: str, every: int, offset: int) -> str:
    """SQL for the least synchronization point at or after `time`; right for negative times too."""
    left = f"(({offset} - {time}) % {every})"  # has the sign of the dividend; DuckDB computes it once
    return f"({time} + {left} + CASE WHEN {left} < 0 THEN {every} ELSE 0 END)"
