"""Shared window aggregates: the hash tables of the readers, and the fragment stores of the shards.

Relations, queries, stores, attributes and predicates of one `Lfta` refer to each other by their positions; -1 is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import ids
from tidemill.plan.physical.base import Op, Part
from tidemill.plan.row_programs import RowProgram
from tidemill.plan.sources import Column
from tidemill.plan.user_aggregates import UserAggregatePart
from tidemill.plan.windows import Window

Edges = tuple[tuple[int, int], ...]  # (slide, phase) of the times at which fragments end
Mode = Literal["whole", "changes", "partials"]  # answers at each point, their differences, or the fragments themselves
Program = list[Any]  # nested lists, as `plan.predicate_programs` compiles and interprets them


@dataclass(frozen=True)
class LftaExpression:
    """A group attribute or an argument of an aggregate, over the rows of the source.

    `columns_read` is None in a plan that was written before they were noted, here and in `LftaPredicate`.
    """

    name: str
    sql: str
    type: str
    columns_read: tuple[str, ...] | None = None

    @property
    def column(self) -> str | None:
        """The column, where the expression is just a column."""
        if self.columns_read is None or len(self.columns_read) != 1:
            return None
        (name,) = self.columns_read
        return name if self.sql == '"' + name.replace('"', '""') + '"' else None


@dataclass(frozen=True)
class LftaPredicate:
    """A predicate over the rows of the source, and its program where it has one."""

    sql: str
    program: Program | None = None
    columns_read: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LftaQuery:
    """A query of the readers. `bit` is its bit in the signatures of its store. `uses` numbers the expressions that it
    evaluates (attributes, arguments, user aggregates, in this order): it fails on a row where one of them does.
    `accumulators` (of user aggregates) and `parts` are names.
    """

    id: str
    bit: int
    predicate: int
    uses: tuple[int, ...]
    edges: Edges = ()
    accumulators: tuple[str, ...] = field(default=(), metadata={"json": "objects"})
    parts: tuple[str, ...] | None = None  # None: all


@dataclass(frozen=True)
class LftaStore:
    """Where the fragments of a store go: leaf operator `op`, that of users' accumulators, words of its signatures,
    names of its parts.
    """

    op: str
    accumulators: str = field(metadata={"json": "objects"})
    words: tuple[int, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class LftaRelation:
    """A node of the configuration: a hash table, or none where `buckets` is 0. `queries` pass through it; for those in
    `own` it emits fragments to the store `emits`.
    """

    label: str
    parent: int
    buckets: int
    attributes: tuple[int, ...]
    edges: Edges
    emits: int
    queries: tuple[int, ...]
    own: tuple[int, ...]


@dataclass(frozen=True)
class HashTables(Op):
    """All window aggregates of one source: its rows through predicates, fragments and a configuration of tables.

    `candidates` are sets of attributes whose groups are counted, `assumed` says that the configuration was chosen
    without statistics, `budget` limits the bytes that are kept beside the tables.
    """

    attributes: tuple[LftaExpression, ...]
    arguments: tuple[LftaExpression, ...]
    parts: tuple[FragmentPart, ...]
    predicates: tuple[LftaPredicate, ...]
    queries: tuple[LftaQuery, ...]
    stores: tuple[LftaStore, ...]
    relations: tuple[LftaRelation, ...]
    candidates: tuple[tuple[int, ...], ...] = ()
    accumulators: tuple[UserAggregatePart, ...] = field(default=(), metadata={"json": "objects"})
    assumed: bool = False
    budget: int | None = None

    @property
    def reads(self) -> tuple[str, ...] | None:
        """Columns of the source that its expressions name; None where that was not noted."""
        noted = [e.columns_read for e in (*self.attributes, *self.arguments)]
        noted += [predicate.columns_read for predicate in self.predicates]
        return None if None in noted else tuple(dict.fromkeys(c for columns in noted for c in columns or ()))


@dataclass(frozen=True)
class Lfta(HashTables):
    """The hash tables of a source in its readers."""

    kind: ClassVar[str] = "lfta"

    @property
    def source(self) -> str:
        return ids.source_of(self.id)


@dataclass(frozen=True)
class Numbering(HashTables):
    """The same where windows count rows: in the one shard that numbers them, with numbers for times."""

    kind: ClassVar[str] = "numbering"


@dataclass(frozen=True)
class Leaf(Op):
    """The fragments, or users' accumulators, of one store that leave the hash tables."""

    kind: ClassVar[str] = "leaf"


@dataclass(frozen=True)
class Layer:
    """A SELECT over the layer before: of the items `sql`, or of all columns where `sql` holds.

    `program` is the select list for arrays, where that is possible.
    """

    what: Literal["select", "where"]
    sql: str
    program: RowProgram | None = field(default=None, compare=False)


@dataclass(frozen=True)
class WeaveQuery:
    """One query of a fragment store in one mode, for the operator `id` that picks its rows.

    `query` names the query and its mode, under which the store keeps how far it has reported. `layers` make rows from
    (group, parts).
    """

    id: str
    query: str
    bit: int
    mode: Mode
    window: Window
    parts: tuple[str, ...]
    layers: tuple[Layer, ...]
    accumulators: tuple[str, ...] = field(default=(), metadata={"json": "objects"})


@dataclass(frozen=True)
class Weave(Op):
    """A fragment store, and the final aggregation of its queries. `words` are those of its signatures; parts in
    `decoded` are doubles that came as integers of the same order.
    """

    kind: ClassVar[str] = "weave"

    keys: tuple[Column, ...]
    words: tuple[int, ...]
    parts: tuple[Part, ...]
    decoded: tuple[str, ...] = ()
    accumulators: tuple[UserAggregatePart, ...] = field(default=(), metadata={"json": "objects"})
    queries: tuple[WeaveQuery, ...] = ()


@dataclass(frozen=True)
class WeaveNumbered(Weave):
    """A fragment store whose times are row numbers; it takes these leaves from a `Numbering`."""

    kind: ClassVar[str] = "weave_numbered"

    leaf: str = ""
    accumulator_leaf: str = field(default="", metadata={"json": "object leaf"})


@dataclass(frozen=True)
class Weaved(Op):
    """The rows that a fragment store makes for one query."""

    kind: ClassVar[str] = "weaved"
