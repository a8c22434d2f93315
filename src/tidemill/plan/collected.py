"""Collected aggregates: those that only all the values of a group can answer (MEDIAN, LIST, ARG_MAX, SUM(DISTINCT)).

The values are kept with how often each occurs, as structs of everything that the call reads: its arguments, what it is
ordered by, and the times of the rows where the order matters. The call is DuckDB's own over these structs. Equal values
come in one order, that of all fields, so the answer is the same however the rows arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.plan.aggregates import Aggregate

VALUE = "__v"  # the struct in the SQL of a call


@dataclass(frozen=True)
class CollectedAggregate(Aggregate):
    """One call over the structs in its argument; `call` is DuckDB's SQL over `VALUE`, `empty` its answer over none."""

    call: str = ""
    empty: str = "NULL"
    fields: tuple[str, ...] = ()  # types of the fields a0, a1, …

    @property
    def collects(self) -> bool:
        return True


@dataclass(frozen=True)
class CollectedPart:
    """What a grouping computes from kept structs: a column, its SQL, its type, and its value where there are none."""

    name: str
    sql: str
    type: str
    empty: str


def collected_parts(aggregates: Iterable[Aggregate]) -> tuple[CollectedPart, ...]:
    """The calls among some aggregates, in order.

    >>> median = CollectedAggregate("median", "__a", "STRUCT(a0 INTEGER)", "m", "DOUBLE", call="median(__v.a0)")
    >>> collected_parts([median, Aggregate("count", None, None, "n", "BIGINT")])
    (CollectedPart(name='__c_m', sql='median(__v.a0)', type='DOUBLE', empty='NULL'),)
    """
    return tuple(
        CollectedPart(f"__c_{a.name}", a.call, a.type, a.empty) for a in aggregates if isinstance(a, CollectedAggregate)
    )
