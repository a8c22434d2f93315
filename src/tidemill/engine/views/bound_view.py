"""A standing query as the engine holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.errors import PlanProblem
from tidemill.optimize.views.answer import Answer
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import Cast, Hidden
from tidemill.plan.statements import STREAM_OUTPUTS
from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.stored_view import StoredView
from tidemill.sql.bind.query import BoundQuery
from tidemill.sql.bind.scalar import stamp_value
from tidemill.sql.catalog import Entry
from tidemill.sql.lexical.durations import duration_from_text

Trace = tuple[tuple[str, str], ...]  # rules that fired: name, what became what


@dataclass(frozen=True)
class BoundView:
    """A standing query: its relation after optimization, and what is stored of it."""

    entry: Entry
    query: BoundQuery
    node: Relation
    stored: StoredView
    trace: Trace
    answer: Answer


@dataclass(frozen=True)
class PlannedQuery:
    """A query that was bound, checked and optimized."""

    bound: BoundQuery
    node: Relation
    trace: Trace
    answer: Answer  # the bound query with the parts that other views answer


def bind_view(entry: Entry, planned: PlannedQuery, unit_us: int, sinks: tuple[Sink, ...]) -> BoundView:
    """The view of a planned query, with the layout of its stored answers."""
    bound, node = planned.bound, planned.node
    retain = entry.options.get("retain")
    keys = None if entry.output in STREAM_OUTPUTS else bound.keys
    stored = StoredView(
        entry.id,
        entry.name,
        entry.output,  # type: ignore[arg-type]  # the parser gives one of them
        node.schema,
        keys,
        stamp_value(Hidden("__time"), bound.domain, unit_us).sql,
        stamp_type(bound),
        r.append_only(node),
        _retain_us(retain, unit_us),
        sinks,
    )
    return BoundView(entry, bound, node, stored, planned.trace, planned.answer)


def stream_of(node: Relation, output: str, bound: BoundQuery, unit_us: int) -> Relation:
    """What a view shows of the answer of its query: the answer itself, or a stream that is made of it."""
    stamp = stamp_value(Cast(Hidden("__time"), "BIGINT"), bound.domain, unit_us)
    if output == "rstream":
        return r.Rstream(node, bound.rhythm.period, bound.rhythm.points, stamp, stamp_type(bound))
    if output in ("istream", "dstream"):
        return r.ChangeStream(node, "inserted" if output == "istream" else "deleted", stamp, stamp_type(bound))
    return node


def stamp_type(bound: BoundQuery) -> str:
    """The SQL type of the time stamps of a query's answers."""
    return "TIMESTAMP" if bound.domain == "timestamp" else "BIGINT"


def _retain_us(text: Any, unit_us: int) -> int | None:
    """WITH (retain = …) in microseconds; None keeps everything."""
    if text is None:
        return None
    try:
        length = duration_from_text(str(text))
    except ValueError as error:
        raise PlanProblem("TM213", f"retain: {error}", hint="for example WITH (retain = '1 day')") from None
    return length.us if length.us is not None else int(length.units or 0) * unit_us
