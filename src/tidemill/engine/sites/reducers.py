"""What the reducers in force let pass: rows a second of event time on the edges of a join, as they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidemill.engine.sites.placing import PlacedItem
from tidemill.engine.sites.traffic import Traffic
from tidemill.engine.views.ways import SITE_PLAN
from tidemill.plan.sites import SiteQuery
from tidemill.sql.bind.imported_names import IMPORTS, PLACED, item_of

SPAN_US = 10_000_000  # of event time, at least, between two looks at an edge
Passed = Mapping[tuple[str, str], float]  # input and the one by whose join values it is reduced → rows a second
FindTraffic = Callable[[str], Traffic | None]  # of an edge, whichever way it goes


class Reducers:
    """Counts rows between two looks: what has changed since shows, what was before does not."""

    def __init__(self, find_traffic: FindTraffic) -> None:
        self._find_traffic = find_traffic
        self._marks: dict[str, tuple[int, int]] = {}  # edge → its rows and time at the last look
        self._rates: dict[str, float] = {}

    def count(self, options: Mapping[str, Any], query: SiteQuery, items: Mapping[str, PlacedItem]) -> Passed:
        """Rows a second of the reduced inputs of a plan in force. Those with conditions of their own are left out: what
        these leave out is not known.
        """
        found = {}
        for alias, by, edge in _list_reduced(options, items):
            rate = self._rate_of(edge) if not query.input(alias).filter else None
            if rate is not None:
                found[alias, by] = rate
        return found

    def _rate_of(self, edge: str) -> float | None:
        traffic = self._find_traffic(edge)
        if traffic is None or traffic.first == traffic.last:
            return self._rates.get(edge)
        rows, time = self._marks.setdefault(edge, (traffic.rows, traffic.last))
        if traffic.last - time >= SPAN_US:
            self._rates[edge] = (traffic.rows - rows) * 1e6 / (traffic.last - time)
            self._marks[edge] = traffic.rows, traffic.last
        return self._rates.get(edge)


def _list_reduced(options: Mapping[str, Any], items: Mapping[str, PlacedItem]) -> Iterator[tuple[str, str, str]]:
    """The inputs of which only some rows are shipped, by whose join values, and on which edge."""
    plan = options.get(SITE_PLAN, {"methods": {}})
    answer = next(iter(options.get(PLACED, ())), "")
    for alias, (name, by) in plan["methods"].items():
        item = items[alias]
        here = options.get(IMPORTS, {}).get(item_of(f"{item.site}.{item.found.name}", alias))
        edge = f"{answer.removesuffix('answer')}{alias}_rows" if answer else here
        if name != "whole" and edge is not None:
            yield alias, by, edge
