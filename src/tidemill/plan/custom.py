"""Aggregates that users write in Python: a fold (zero, add, combine, invert, finish) that travels with the plan.

A fragment of such an aggregate is an *object part*: one pickled accumulator for each (fragment, signature, group).
The plan carries the pickled functions as text, so whoever runs a plan has exactly the functions it was made with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.plan.aggregates import Aggregate
from tidemill.plan.sources import Column

ACCUMULATOR = (Column("__part", "VARCHAR"), Column("__pickle", "BLOB"))


@dataclass(frozen=True)
class CustomFunction:
    """What the catalog knows of a user's aggregate: name, types of argument and answer, the pickled fold in base64."""

    name: str
    accepts: str
    returns: str
    body: str


@dataclass(frozen=True)
class CustomAggregate(Aggregate):
    """One call of a user's aggregate; `body` is the pickled fold in base64."""

    body: str = ""

    @property
    def fold(self) -> str | None:
        return self.body


@dataclass(frozen=True)
class ObjectPart:
    """What a fragment holds of one fold over one argument; `type` is that of the finished answer."""

    name: str
    argument: str
    body: str
    type: str


def object_part(aggregate: Aggregate) -> ObjectPart | None:
    """The object part of an aggregate; None for those whose parts are numbers.

    >>> a = CustomAggregate("longest", "__s", "VARCHAR", "l", "VARCHAR", body="gA==")
    >>> object_part(a)
    ObjectPart(name='__s__fold_a64331fc', argument='__s', body='gA==', type='VARCHAR')
    >>> object_part(Aggregate("sum", "__v", "INTEGER", "s", "HUGEINT"))
    """
    if aggregate.fold is None or aggregate.argument is None:
        return None
    digest = hashlib.blake2b(aggregate.fold.encode(), digest_size=4).hexdigest()
    return ObjectPart(f"{aggregate.slug}__fold_{digest}", aggregate.argument, aggregate.fold, aggregate.type)


def object_parts(aggregates: Iterable[Aggregate]) -> tuple[ObjectPart, ...]:
    """The different object parts of some aggregates, in order."""
    found = {p.name: p for a in aggregates if (p := object_part(a)) is not None}
    return tuple(found.values())
