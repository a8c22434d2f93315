"""User aggregates: aggregates that users write in Python (zero, add, combine, invert, finish), carried by the plan.

A fragment of such an aggregate has a *user aggregate part*: one pickled accumulator for each (fragment, signature,
group). The plan has the pickled functions as text, so a worker runs exactly the functions that the plan was made with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tidemill.plan.aggregates import Aggregate
from tidemill.plan.sources import Column

ACCUMULATOR = (Column("__part", "VARCHAR"), Column("__pickle", "BLOB"))


@dataclass(frozen=True)
class UserAggregateDefinition:
    """A user aggregate in the catalog: name, types of argument and answer, the pickled functions in base64."""

    name: str
    accepts: str
    returns: str
    body: str


@dataclass(frozen=True)
class UserAggregate(Aggregate):
    """One call of a user aggregate; `body` is its pickled functions in base64."""

    STORED_NAME: ClassVar[str] = "CustomAggregate"  # in fingerprints, which name stored state

    body: str = ""

    @property
    def user_functions(self) -> str | None:
        return self.body


@dataclass(frozen=True)
class UserAggregatePart:
    """What a fragment holds of one user aggregate over one argument; `type` is that of the finished answer."""

    name: str
    argument: str
    body: str
    type: str


def user_aggregate_part(aggregate: Aggregate) -> UserAggregatePart | None:
    """The user aggregate part of an aggregate; None for aggregates whose parts are numbers.

    >>> a = UserAggregate("longest", "__s", "VARCHAR", "l", "VARCHAR", body="gA==")
    >>> user_aggregate_part(a)
    UserAggregatePart(name='__s__fold_a64331fc', argument='__s', body='gA==', type='VARCHAR')
    >>> user_aggregate_part(Aggregate("sum", "__v", "INTEGER", "s", "HUGEINT"))
    """
    if aggregate.user_functions is None or aggregate.argument is None:
        return None
    digest = hashlib.blake2b(aggregate.user_functions.encode(), digest_size=4).hexdigest()
    return UserAggregatePart(
        f"{aggregate.slug}__fold_{digest}", aggregate.argument, aggregate.user_functions, aggregate.type
    )


def user_aggregate_parts(aggregates: Iterable[Aggregate]) -> tuple[UserAggregatePart, ...]:
    """The distinct user aggregate parts of some aggregates, in order."""
    found = {p.name: p for a in aggregates if (p := user_aggregate_part(a)) is not None}
    return tuple(found.values())
