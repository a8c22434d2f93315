"""Whether another plan may take over from the one in force of a join between sites, and from when on.

A plan that begins later has not seen what came before. Where every item has a window of some length, all rows that
count have come after its beginning once the longest window has passed; so only such joins change plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from tidemill.engine.sites.placing import PlacedItem
from tidemill.plan.sites import SiteQuery, earliest_switch
from tidemill.sql.bind.scalar import in_us

_EXACT = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)
_ROUNDED = ("DOUBLE", "FLOAT", "REAL")
_NOT_PLAIN = ("order", "limit", "offset", "qualify", "with_", "distinct_on")


def may_change(statement: exp.Expression, query: SiteQuery, items: Mapping[str, PlacedItem], unit_us: int) -> bool:
    """Whether all plans of a join give the same answer, to the last digit, once their windows have filled: the answer
    is one of the rows that count, whatever came before, and no aggregate depends on an order.
    """
    if any(count_us(item, unit_us) is None for item in items.values()):
        return False
    if any(statement.args.get(part) for part in _NOT_PLAIN) or statement.find(exp.Window) is not None:
        return False
    if {c.name.lower() for c in statement.find_all(exp.Column)} & {"window_start", "window_end"}:
        return False
    found = [node for node in statement.walk() if isinstance(node, (exp.AggFunc, exp.Anonymous))]
    if any(not isinstance(node, _EXACT) or isinstance(node.parent, exp.Filter) for node in found):
        return False
    sums = any(isinstance(node, (exp.Sum, exp.Avg)) for node in found)
    if sums and any(c.type.startswith(_ROUNDED) for i in query.inputs for c in i.columns):
        return False  # sums of such numbers depend on the order in which they are added
    return not found or statement.args.get("group") is not None


def count_us(item: PlacedItem, unit_us: int) -> int | None:
    """So long after its stamp a row of an item counts at most; None where that has no bound."""
    window, sync = item.window, item.sync
    if item.found.is_view or item.found.key or item.found.operation is not None:
        return None
    if window is None or window.kind not in ("window", "range") or window.size is None:
        return None
    size = in_us(window.size, unit_us)
    slide = in_us(window.slide, unit_us) if window.slide is not None else size
    entered = unit_us if item.domain == "units" else 1  # so long after its stamp a row enters a [WINDOW …]
    found = size + (slide if window.kind == "range" else entered)
    if sync is not None:
        if sync.every is None:
            return None
        found += in_us(sync.every, unit_us)
    return found


def agree_on_time(begun: Iterable[int], counts: Iterable[int], closed: int) -> int:
    """The time from which a plan holds all rows that count, and that no answer has passed: its parts take into account
    all rows with stamps after `begun`, and answers are closed before `closed`.

    >>> agree_on_time([5, 9], [3, 4], closed=0), agree_on_time([5, 9], [3, 4], closed=50)
    (15, 50)
    """
    first = earliest_switch(1 + max(begun), counts)
    assert first is not None, "every item has a bound"
    return max(first + 1, closed)
