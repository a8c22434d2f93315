"""Window aggregates in canonical form: what two queries share has the same name in both.

A group attribute or an argument that is a plain column keeps its name; any other expression is named by its text.
Queries over the same source with the same attributes meet in one *fragment store*, whatever their windows, predicates
and aggregates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

from tidemill.plan.aggregates import Aggregate, finish, parts
from tidemill.plan.custom import ObjectPart, object_part, object_parts
from tidemill.plan.fragments import COUNT, FragmentPart, assembled, fragment_parts
from tidemill.plan.relations import Item, WindowAggregate, quoted, sync_ceiling
from tidemill.plan.windows import Window


@dataclass(frozen=True)
class Asked:
    """One window aggregate over one source."""

    id: str  # the fingerprint of the node
    source: str
    predicate: str | None
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
    def objects(self) -> tuple[ObjectPart, ...]:
        """Parts that are accumulators of users' aggregates."""
        return object_parts(self.aggregates)

    def answer(self) -> tuple[str, str]:
        """Two select lists, one over the other: parts to the columns that `finish` reads, those to the answer's."""
        inner = {name: sql for a in self.aggregates for name, sql in assembled(a)}
        inner |= {p.name: quoted(p.name) for p in self.objects}  # finished before SQL sees them
        kept = [*(quoted(n) for n in self.names), "__n"]
        first = ", ".join([*kept, *(f"{sql} AS {quoted(name)}" for name, sql in inner.items())])
        keys = [f"{quoted(a)} AS {quoted(n)}" for a, n in self.renames]
        answers = [f"CAST({_finished(a)} AS {a.type}) AS {quoted(a.name)}" for a in self.aggregates]
        return first, ", ".join([*keys, *answers])


    def partials(self) -> tuple[str, str]:
        """The same for a landmark window: fragments to the partial aggregates that a grouping adds up."""
        inner = f"{self.answer()[0]}, __time"
        keys = [f"{quoted(a)} AS {quoted(n)}" for a, n in self.renames]
        point = sync_ceiling(f"(__time + {self.window.after})", self.window.slide, self.window.offset)
        needed = {p.name: p for a in self.aggregates for p in parts(a, True)}
        columns = [f"CAST({quoted(p.name)} AS {p.type}) AS {quoted(p.name)}" for p in needed.values()]
        return inner, ", ".join([*keys, f"{point} AS __time", "__n", *columns])


def asked(node: WindowAggregate, instance: str) -> Asked:
    """The canonical form of a node over source instance `instance`, or over the numbered rows of that name."""
    keys = [(k, _named(k, "")) for k in node.keys]
    arguments = {a.name: _named(a, "__") for a in node.arguments}
    aggregates = tuple(
        replace(a, argument=arguments[a.argument].name) if a.argument is not None else a for a in node.aggregates
    )
    used = {a.argument for a in aggregates}
    return Asked(
        id=node.fingerprint, source=instance, predicate=node.predicate,
        attributes=tuple(sorted({c.name: c for _, c in keys}.values(), key=lambda c: c.name)),
        arguments=tuple({a.name: a for a in arguments.values() if a.name in used}.values()),
        aggregates=aggregates, window=node.window, once=node.once,
        renames=tuple((c.name, k.name) for k, c in keys),
        types=tuple((c.name, c.type) for c in node.input.schema),
    )


def _finished(aggregate: Aggregate) -> str:
    part = object_part(aggregate)
    return finish(aggregate) if part is None else quoted(part.name)


def _named(item: Item, prefix: str) -> Item:
    plain = item.sql[1:-1].replace('""', '"')
    if item.sql == quoted(plain) and not plain.startswith("__"):
        return Item(prefix + plain, item.sql, item.type)
    digest = hashlib.blake2b(f"{item.sql}\x00{item.type}".encode(), digest_size=5).hexdigest()
    return Item(f"{prefix}expr_{digest}", item.sql, item.type)
