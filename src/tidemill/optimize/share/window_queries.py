"""Window aggregates in canonical form: what two queries share has the same name in both.

A group attribute or an argument that is a plain column keeps its name; any other expression is named by its text.
Queries over the same source with the same attributes share one *fragment store*, whatever their windows, predicates and
aggregates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.optimize.rendering import SelectList
from tidemill.plan.aggregates import Aggregate, finish, parts
from tidemill.plan.fragments import COUNT, FragmentPart, assemble_parts, fragment_parts
from tidemill.plan.relations import Item, WindowAggregate
from tidemill.plan.scalars import Cast, Ceiling, ColumnRef, Hidden, Scalar, Shift
from tidemill.plan.user_aggregates import UserAggregatePart, user_aggregate_part, user_aggregate_parts
from tidemill.plan.windows import Window


@dataclass(frozen=True)
class WindowQuery:
    """One window aggregate over one source."""

    id: str  # the fingerprint of the node
    source: str
    predicate: Scalar | None
    attributes: tuple[Item, ...]  # sorted by name
    arguments: tuple[Item, ...]
    aggregates: tuple[Aggregate, ...]  # over canonical argument names
    window: Window
    once: bool
    renames: tuple[tuple[str, str], ...]  # (attribute, column of the answer), in the order of the answer
    types: tuple[tuple[str, str], ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @cached_property
    def store(self) -> str:
        """The fragment store of all queries with these attributes; the same in every plan."""
        text = "\x00".join([self.source, *self.names])
        return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()

    @cached_property
    def parts(self) -> tuple[FragmentPart, ...]:
        """The parts that the answer needs, the count of rows first."""
        found = {p.name: p for a in self.aggregates for p in fragment_parts(a)}
        return (COUNT, *found.values())

    @cached_property
    def accumulators(self) -> tuple[UserAggregatePart, ...]:
        """Parts that are accumulators of user aggregates."""
        return user_aggregate_parts(self.aggregates)

    def answer(self) -> tuple[SelectList, SelectList]:
        """Two select lists, one over the other: parts to the columns that `finish` reads, those to the answer's."""
        made = {name: value for a in self.aggregates for name, value in assemble_parts(a)}
        made |= {p.name: ColumnRef(p.name) for p in self.accumulators}  # finished before SQL sees them
        kept = [*((n, ColumnRef(n)) for n in self.names), ("__n", Hidden("__n"))]
        answers = [(a.name, Cast(_finish(a), a.type)) for a in self.aggregates]
        return (*kept, *made.items()), (*self._keys, *answers)

    def partials(self) -> tuple[SelectList, SelectList]:
        """The same for a landmark window: fragments to the partial aggregates that a grouping adds up."""
        inner = (*self.answer()[0], ("__time", Hidden("__time")))
        point = Ceiling(Shift(Hidden("__time"), "+", self.window.after), self.window.slide, self.window.offset)
        needed = {p.name: p for a in self.aggregates for p in parts(a, True)}
        columns = [(p.name, Cast(ColumnRef(p.name), p.type)) for p in needed.values()]
        return inner, (*self._keys, ("__time", point), ("__n", Hidden("__n")), *columns)

    @property
    def _keys(self) -> SelectList:
        return tuple((n, ColumnRef(a)) for a, n in self.renames)


def canonicalize(node: WindowAggregate, instance: str) -> WindowQuery:
    """The canonical form of a node over source instance `instance`, or over the numbered rows of that name."""
    keys = [(k, _canonical_item(k, "")) for k in node.keys]
    arguments = {a.name: _canonical_item(a, "__") for a in node.arguments}
    aggregates = tuple(
        replace(a, argument=arguments[a.argument].name) if a.argument is not None else a for a in node.aggregates
    )
    used = {a.argument for a in aggregates}
    return WindowQuery(
        id=node.fingerprint,
        source=instance,
        predicate=node.predicate,
        attributes=tuple(sorted({c.name: c for _, c in keys}.values(), key=lambda c: c.name)),
        arguments=tuple({a.name: a for a in arguments.values() if a.name in used}.values()),
        aggregates=aggregates,
        window=node.window,
        once=node.once,
        renames=tuple((c.name, k.name) for k, c in keys),
        types=tuple((c.name, c.type) for c in node.input.schema),
    )


def _finish(aggregate: Aggregate) -> Scalar:
    part = user_aggregate_part(aggregate)
    return finish(aggregate) if part is None else ColumnRef(part.name)


def _canonical_item(item: Item, prefix: str) -> Item:
    value = item.value
    if isinstance(value, ColumnRef) and not value.name.startswith("__"):
        return Item(prefix + value.name, value, item.type)
    digest = hashlib.blake2b(f"{item.sql}\x00{item.type}".encode(), digest_size=5).hexdigest()
    return Item(f"{prefix}expr_{digest}", value, item.type)
