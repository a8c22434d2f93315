"""window_start and window_end: the bounds of the [RANGE … SLIDE …] window that an answer belongs to.

The answer of a window is given at its end, so the bounds follow from the point at which it is given:

    SELECT window_start, k, count(*) FROM S [RANGE 60 SLIDE 10] GROUP BY k
        RSTREAM     at each point p the whole answer, with p - 60
        otherwise   the answer of point p, with p - 60, stands until p + 10: whole answers, each for one slide
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Shift
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.scalar import in_us, stamp_value
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import WindowSpec, copy_tree

NAMES = ("window_start", "window_end")
_POINT = "TS"
_ROWS = "__rows"  # counts the rows of a window that is a group by itself


@dataclass(frozen=True)
class Bounds:
    """Which columns of an answer are bounds: (place, name, which one)."""

    columns: tuple[tuple[int, str, str], ...]
    size: int
    slide: int
    place: exp.Expression

    def over(self, bound: BoundQuery, node: Relation, output: str, unit_us: int) -> Relation:
        """The answer with its bounds; `node` is the query without them."""
        period = bound.rhythm.period
        if period is None or period[0] != self.slide:
            raise problem(
                "window_start and window_end need one window that slides by time",
                self.place,
                code="TM202",
                hint="for example  FROM S [RANGE 60 SECONDS SLIDE 10 SECONDS]",
            )
        if _POINT in node.names:
            raise problem(
                "a query with window_start or window_end cannot have a column TS",
                self.place,
                code="TM202",
                hint="give the column another name, or use window_end",
            )
        whole = r.Rstream(node, period, None, Cast(Hidden("__time"), "BIGINT"), "BIGINT")
        standing = whole if output == "rstream" else r.Temporal(whole, None, Shift(ColumnRef(_POINT), "+", self.slide))
        return r.Project(standing, tuple(self._items(bound, node, output, unit_us)))

    def _items(self, bound: BoundQuery, node: Relation, output: str, unit_us: int) -> list[Item]:
        """The columns in the order of the SELECT; RSTREAM has its time before them."""
        kind = "TIMESTAMP" if bound.domain == "timestamp" else "BIGINT"
        items = [Item.of(c) for c in node.schema if c.name != _ROWS]
        point = ColumnRef(_POINT)
        for place, name, which in self.columns:
            time = point if which == "window_end" else Shift(point, "-", self.size)
            items.insert(place, Item(name, stamp_value(time, bound.domain, unit_us), kind))
        if output == "rstream":
            items.insert(0, Item(_POINT, stamp_value(point, bound.domain, unit_us), kind))
        return items


def remove_bounds(query: exp.Expression, unit_us: int) -> tuple[exp.Expression, Bounds | None]:
    """The query without window_start and window_end, and where these stood."""
    if not isinstance(query, exp.Select) or not any(map(_which, query.expressions)):
        return query, None
    inputs = [query.args.get("from_") or query.args.get("from"), *query.args.get("joins", ())]
    found = [w for i in inputs if i is not None for w in [i.this.args.get("window")] if w is not None]
    windows = [w for w in found if w.kind == "range"]
    asked = next(i for i in query.expressions if _which(i))
    if len(windows) != 1 or query.args.get("distinct"):
        return query, None  # ordinary columns of these names
    query = copy_tree(query)
    columns = tuple(
        (place, item.alias_or_name, str(_which(item))) for place, item in enumerate(query.expressions) if _which(item)
    )
    group = query.args.get("group")
    keys = [_find_selected(g, query.expressions) for g in group.expressions] if group is not None else []
    query.set("expressions", [i for i in query.expressions if not _which(i)])
    if group is not None:
        group.set("expressions", [g for g in keys if not _which(g)])
        if not group.expressions:
            # The window is the group: one row, of aggregates and bounds alone.
            query.set("group", None)
            query.append("expressions", exp.alias_(exp.Count(this=exp.Star()), _ROWS, quoted=True))
    return query, Bounds(columns, *_lengths(windows[0], unit_us), asked)


def _find_selected(key: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """The item of SELECT that a key of GROUP BY names by its number, or by the alias of a bound; or the key itself."""
    if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.this) <= len(items):
        return copy_tree(items[int(key.this) - 1].unalias())
    bounds = [i for i in items if _which(i) and isinstance(key, exp.Column) and not key.table]
    return next((i for i in bounds if i.alias_or_name.lower() == key.name.lower()), key)


def _lengths(window: WindowSpec, unit_us: int) -> tuple[int, int]:
    assert window.size is not None
    size = in_us(window.size, unit_us)
    return size, in_us(window.slide, unit_us) if window.slide is not None else size


def _which(item: exp.Expr) -> str | None:
    """The bound that an item of SELECT or GROUP BY is."""
    inner = item.this if isinstance(item, exp.Alias) else item
    name = inner.name.lower() if isinstance(inner, exp.Column) else ""
    return name if name in NAMES else None
