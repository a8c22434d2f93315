"""GROUP BY TUMBLE(at, INTERVAL '1' MINUTE), HOP(…) and SESSION(…), an older spelling of windows: it is rewritten.

SELECT k, TUMBLE_START(at, i), count(*) FROM S GROUP BY k, TUMBLE(at, i)
SELECT k, window_start, count(*) FROM TUMBLE(TABLE S, DESCRIPTOR(at), i) GROUP BY k, window_start, window_end
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.sql.bind.scalar import duration_us
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import WindowSpec
from tidemill.sql.lexical.durations import Duration

_LENGTHS = {"TUMBLE": 1, "HOP": 2, "SESSION": 1}
_BOUNDS = {"_START": "window_start", "_END": "window_end"}


def rewrite_group_windows(select: exp.Select, items: list[exp.Expression], unit_us: int) -> None:
    """Move a window of GROUP BY to FROM. The tree is changed."""
    group = select.args.get("group")
    calls = [k for k in group.expressions if _name(k) in _LENGTHS] if group is not None else []
    if group is None or not calls:
        return
    call, item = calls[0], items[0]
    if len(calls) > 1 or len(items) > 1 or not isinstance(item, exp.Table) or item.args.get("window") is not None:
        raise problem(
            f"{_name(call)} in GROUP BY needs one stream or view in FROM, without another window",
            call,
            code="TM202",
            hint="put the window into FROM, for example  TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE)",
        )
    item.set("window", _read(call, unit_us))
    keys = [k for k in group.expressions if k is not call]
    group.set("expressions", [*keys, exp.column("window_start"), exp.column("window_end")])
    having = select.args.get("having")
    for root in [*select.expressions, *([having] if having is not None else [])]:
        _replace_bounds(root, call, select)


def _read(call: exp.Expression, unit_us: int) -> WindowSpec:
    name, (time, *lengths) = _name(call), call.expressions or [None]
    sizes = [duration_us(length, unit_us) for length in lengths]
    if not isinstance(time, exp.Column) or len(sizes) != _LENGTHS[name] or not all(sizes):
        raise problem(
            f"{name} takes the time of a row and {'two lengths' if _LENGTHS[name] == 2 else 'a length'} of time",
            call,
            code="TM111",
            hint="for example  GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)",
        )
    *slide, size = [Duration(us=us) for us in sizes if us]
    kind = {"TUMBLE": "tumble", "HOP": "hop", "SESSION": "session"}[name]
    return WindowSpec(kind, size=size, slide=slide[0] if slide else None, column=time.name)  # type: ignore[arg-type]


def _replace_bounds(root: exp.Expression, call: exp.Expression, select: exp.Select) -> None:
    for node in list(root.find_all(exp.Anonymous)):
        for ending, bound in _BOUNDS.items():
            if _name(node) == _name(call) + ending and node.expressions == call.expressions:
                column = exp.column(bound)
                top = node.parent is select
                node.replace(exp.alias_(column, _name(node).lower()) if top else column)


def _name(node: exp.Expression) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else ""
