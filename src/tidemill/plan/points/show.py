"""Points in words, for EXPLAIN and DESCRIBE."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from tidemill.plan.periods import Every
from tidemill.plan.points.algebra import AnyOf, EveryChange, Never, On, Points, Rows, is_contained
from tidemill.plan.points.derive import all_points, full_points
from tidemill.plan.relations import CatchUp, Relation, View
from tidemill.plan.value_text import moment, seconds

Domain = Literal["units", "timestamp"] | None
_EPOCH = dt.datetime(1970, 1, 1)


def show_relation_points(node: Relation, unit_us: int, domain: Domain) -> str:
    """The points of a relation, and which of them are full where not all are.

    >>> from tidemill.plan import relations as r
    >>> halves, thirds = (r.Synchronize(r.Clock(1), every * 1_000_000) for every in (2, 3))
    >>> show_relation_points(r.Union((halves, thirds)), 1_000_000, "units")
    'every 2 s ∪ every 3 s; full: every 6 s'
    >>> show_relation_points(halves, 1_000_000, "units")
    'every 2 s'
    """
    node = node.input if isinstance(node, CatchUp) else node
    points, full = all_points(node), full_points(node)
    shown = show_points(points, unit_us, domain)
    return shown if is_contained(points, full) else f"{shown}; full: {show_points(full, unit_us, domain)}"


def show_points(points: Points, unit_us: int, domain: Domain) -> str:
    """A set of points in words; the first point of a period that begins is a clock unit or a time, as users write it.

    >>> show_points(Every(5_000_000, 2_000_000, 0), 1_000_000, "units")
    'every 5 s + 2 s from 2'
    >>> show_points(Every(5_000_000, 2_000_000, 0), 1_000_000, "timestamp")
    'every 5 s + 2 s from 1970-01-01 00:00:02'
    >>> show_points(AnyOf((Every(2), EveryChange())), 1, "units")
    'every 0.000002 s ∪ every change'
    """
    if isinstance(points, EveryChange):
        return "every change"
    if isinstance(points, Never):
        return "never"
    if isinstance(points, Every):
        return _show_period(points, unit_us, domain)
    if isinstance(points, Rows):
        return f"every {points.n} rows"
    if isinstance(points, On):
        return f"on {_name_of(points.relation)}"
    parts = [show_points(part, unit_us, domain) for part in points.parts]
    if isinstance(points, AnyOf):
        return " ∪ ".join(parts)
    inner = [f"({text})" if isinstance(p, AnyOf) else text for p, text in zip(points.parts, parts, strict=True)]
    return " ∩ ".join(inner)


def _show_period(period: Every, unit_us: int, domain: Domain) -> str:
    text = f"every {seconds(period.every_us)}" + (f" + {seconds(period.offset_us)}" if period.offset_us else "")
    if period.since_us is None:
        return text
    since = period.since_us
    return f"{text} from {since // unit_us if domain == 'units' else moment(_EPOCH + dt.timedelta(microseconds=since))}"


def _name_of(relation: Relation) -> str:
    """The view that a relation of points was made of."""
    while not isinstance(relation, View):
        inputs = [c for c in relation.children if isinstance(c, Relation)]
        if len(inputs) != 1:
            return "points of data"
        relation = inputs[0]
    return relation.name


__all__ = ["Domain", "show_points", "show_relation_points"]
