"""Session windows: [SESSION 10 SECONDS PARTITION BY k] on an input, and what it means for the grouping around it.

A session is a group. In a query that aggregates over a session window, `window_start` and `window_end` are keys besides
those of GROUP BY, and without PARTITION BY the keys of GROUP BY are the partition:

    SELECT k, count(*) FROM S [SESSION 10 SECONDS] GROUP BY k
    SELECT k, count(*) FROM S [SESSION 10 SECONDS PARTITION BY k] GROUP BY k, window_start, window_end
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item
from tidemill.plan.scalars import ColumnRef, Scalar
from tidemill.sql.bind.aggregate_calls import find_aggregate_calls, is_grouped
from tidemill.sql.bind.scalar import in_us, stamp_value
from tidemill.sql.bind.scope import Field, Input, problem
from tidemill.sql.dialect.nodes import WindowSpec

BOUNDS = ("window_start", "window_end")


def complete_sessions(select: exp.Select, items: Iterable[exp.Expression]) -> None:
    """Give session windows of FROM their partitions, and the grouping their bounds. The tree is changed."""
    listed = list(items)
    _note_columns(select, listed)
    found = [i for i in listed if _session_of(i) is not None]
    if not found or not is_grouped(select):
        return
    keys = _keys(select, found[0])
    for item in found:
        window = _session_of(item)
        assert window is not None
        if window.partition is None:
            item.set("window", replace(window, partition=tuple(_partition(keys, item, select))))
    group = select.args.get("group") or exp.Group()
    named = {k.name.lower() for k in keys if isinstance(k, exp.Column)}
    bounds = [exp.column(b, table=found[0].alias_or_name or None) for b in BOUNDS if b not in named]
    if group.args.get("all"):
        group.set("all", None)
        group.set("expressions", [*keys, *bounds])
    elif not any(group.args.get(sets) for sets in ("grouping_sets", "rollup", "cube")):
        group.set("expressions", [*group.expressions, *bounds])
    select.set("group", group)


def _note_columns(select: exp.Select, items: list[exp.Expression]) -> None:
    """Tell session windows which columns the query may read, by their names: rows are kept without the others."""
    sessions = [(i, w) for i in items if isinstance(w := i.args.get("window"), WindowSpec) and w.kind == "session"]
    if not sessions:
        return
    stars = [s for s in select.find_all(exp.Star) if not isinstance(s.parent, exp.Count)]
    if stars or any(j.args.get("method") for j in select.args.get("joins") or ()):
        return
    using = {n.name.lower() for j in select.args.get("joins") or () for n in j.args.get("using") or ()}
    read = frozenset(using.union(c.name.lower() for c in select.find_all(exp.Column)))
    for item, window in sessions:
        item.set("window", replace(window, read=read))


def _session_of(item: exp.Expression) -> WindowSpec | None:
    window = item.args.get("window")
    if not isinstance(window, WindowSpec) or window.kind != "session":
        return None
    return window if window.column is None or window.partition is None else None


def _keys(select: exp.Select, item: exp.Expression) -> list[exp.Expression]:
    """The keys of GROUP BY; numbers and names of select items stand for the items."""
    items = [e.this if isinstance(e, exp.Alias) else e for e in select.expressions]
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [i for i in items if not find_aggregate_calls(i) and not isinstance(i, exp.Literal)]
    aliases = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    found = []
    for key in group.expressions:
        inner = key.this if isinstance(key, exp.Alias) else key
        if isinstance(inner, exp.Literal) and inner.is_int and 1 <= int(inner.name) <= len(items):
            inner = items[int(inner.name) - 1]
        elif isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in aliases:
            own = aliases[inner.name.lower()]
            inner = own if isinstance(own, exp.Column) else inner
        found.append(inner)
    return found


def _partition(keys: list[exp.Expression], item: exp.Expression, select: exp.Select) -> list[str]:
    """The columns of an input among the keys of GROUP BY."""
    names = []
    others = bool(select.args.get("joins"))
    for key in keys:
        if not isinstance(key, exp.Column) or (others and not key.table):
            raise problem(
                "the keys of GROUP BY are the partition of a session window, so they must be columns"
                + (" with the name of their input" if others else ""),
                key,
                code="TM202",
                hint="name the partition in the window, for example  [SESSION 10 SECONDS PARTITION BY k]",
            )
        own = not key.table or key.table.lower() == item.alias_or_name.lower()
        if own and key.name.lower() not in BOUNDS:
            names.append(key.name)
    return names


def apply_session(item: Input, window: WindowSpec, unit_us: int, node: exp.Expression) -> Input:
    """[SESSION gap PARTITION BY …] on an input."""
    assert window.size is not None
    partition = [_column(item, name, node) for name in window.partition or ()]
    item = item.with_stamp()
    fields = tuple(f for f in item.fields if window.read is None or f.name.lower() in window.read)
    kept = {*partition, str(item.ts), *(item.keys or ()), *(f.column for f in fields)}
    items = tuple(Item.of(c) for c in item.node.schema if c.name in kept)
    fields = tuple(f for f in item.fields if f.column in kept)
    event = item.event if item.event in kept else None
    item = replace(item, node=r.Project(item.node, items), fields=fields, event=event)
    return with_sessions(item, partition, in_us(window.size, unit_us), unit_us, node)


def with_sessions(item: Input, partition: list[str], gap_us: int, unit_us: int, node: exp.Expression) -> Input:
    """The rows of an input whose session has ended, with its bounds."""
    if r.never_changes(item.node):
        raise problem(
            f'"{item.alias}" has no time: its rows are there before all events',
            node,
            code="TM202",
            hint="a session window needs a stream or a view of streams",
        )
    grain = 1 if item.domain == "timestamp" else unit_us
    sessions = r.Sessions(item.node, tuple(dict.fromkeys(partition)), str(item.ts), gap_us, grain)
    return with_bounds(item, sessions, ColumnRef(r.START), ColumnRef(r.END), unit_us, node)


def with_bounds(
    item: Input, windows: r.Relation, start: Scalar, end: Scalar, unit_us: int, node: exp.Expression
) -> Input:
    """The input with the columns window_start and window_end, of microseconds that `windows` has; its rows have no key:
    one may be in several windows.
    """
    for bound in BOUNDS:
        if item.field(bound) is not None:
            raise problem(
                f'"{item.alias}" has a column {bound} already',
                node,
                code="TM202",
                hint="give that column another name in a subquery",
            )
    kind = "TIMESTAMP" if item.domain == "timestamp" else "BIGINT"
    bounds = [
        Item(name, stamp_value(us, item.domain, unit_us), kind) for name, us in zip(BOUNDS, (start, end), strict=True)
    ]
    shown = r.Project(windows, (*map(Item.of, item.node.schema), *bounds))
    fields = (*item.fields, *(Field(b.name, b.name, b.type) for b in bounds))
    return replace(item, node=shown, fields=fields)


def _column(item: Input, name: str, node: exp.Expression) -> str:
    found = item.field(name)
    if found is None:
        raise problem(
            f'there is no column "{name}" to partition "{item.alias}" by',
            node,
            hint=f"the columns are {', '.join(f.name for f in item.fields[:12])}",
        )
    return found.column
