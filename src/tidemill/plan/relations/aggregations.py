"""Groupings: over any relation, over a window of a stream, over a join."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.aggregates import Aggregate
from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Item, Relation
from tidemill.plan.relations.times import RowsWindow
from tidemill.plan.scalars import Scalar
from tidemill.plan.sources import Column, Schema
from tidemill.plan.windows import Window


@dataclass(frozen=True, eq=False)
class GroupBy(Relation):
    """One row for each group that holds at least one input row; without keys, one row in all."""

    input: Relation
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(Column(k, self.input.type_of(k)) for k in self.keys)
        return (*keys, *(Column(a.name, a.type) for a in self.aggregates))


@dataclass(frozen=True, eq=False)
class WindowAggregate(Relation):
    """GROUP BY over a window of a stream: one row for each group that the window holds at a point.

    Equivalent to Filter, Temporal, Project and GroupBy over `input` (see `plan.unshared.expand_window_aggregate`), in
    one node that can share its work with others over the same stream. `keys` and `arguments` are expressions over
    `input`; aggregates name arguments. With `once`, each group is reported when its window ends and stays for ever
    (`GROUP BY time/5`). Over a RowsWindow the window counts rows: `window` is in row numbers, not in times.
    """

    input: Relation
    predicate: Scalar | None
    keys: tuple[Item, ...]
    arguments: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]
    window: Window
    once: bool = False

    @cached_property
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

    Equivalent to Join, Filter, Project and GroupBy over the inputs (`plan.aggregation_joins.expand_join_aggregate`), in
    one node that may aggregate any of its inputs before the join (paper 000). All column names of all inputs differ;
    `on` are equalities between columns of different inputs; `keys` and `arguments` are expressions over all columns.
    The rows of input `spread` are split over the shards by their content, and all other inputs are copied.
    """

    inputs: tuple[Relation, ...]
    on: tuple[tuple[str, str], ...]
    residual: Scalar | None
    keys: tuple[Item, ...]
    arguments: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]
    spread: int | None = None

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(Column(k.name, k.type) for k in self.keys)
        return (*keys, *(Column(a.name, a.type) for a in self.aggregates))

    @property
    def labels(self) -> tuple[str, ...]:
        """What the inputs are called: the first part of their columns' names."""
        return tuple(
            next((n.partition(".")[0] for n in i.names if not n.startswith("__")), f"input {k + 1}")
            for k, i in enumerate(self.inputs)
        )

    def check(self) -> None:
        names = [n for i in self.inputs for n in i.names]
        assert len(set(names)) == len(names), f"inputs share column names: {names}"
