"""Linear operators: stateless, one SELECT each, fused into one statement where nothing is shared.

A linear operator maps changes to changes row by row (or adds rows of equal key and time up), so it may run
beside the source, in a stage, or on any part of a batch, and the results are concatenated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.plan import physical as p
from tidemill.plan.periods import Every
from tidemill.plan.scalars import Ceiling, Extreme, Hidden, Scalar, quoted
from tidemill.runtime.duckdb.sql_text import name_list


def _filter(op: p.Filter, source: str) -> str:
    return f"SELECT * FROM {source} WHERE {op.predicate}"


def _project(op: p.Project, source: str) -> str:
    items = [f"{sql} AS {quoted(name)}" for name, sql in op.items]
    return f"SELECT {', '.join([*items, '__time', '__diff'])} FROM {source}"


def _unnest(op: p.Unnest, source: str) -> str:
    """Lists of one row are taken apart side by side: the elements, and their numbers."""
    found = f"SELECT *, {op.list} AS __list FROM {source}"
    if op.outer:
        some = "CASE WHEN len(__list) > 0 THEN __list ELSE [NULL] END"
        found = f"SELECT * REPLACE ({some} AS __list), len(__list) > 0 AS __any FROM ({found})"
    columns = [f"unnest(__list) AS {quoted(op.element)}"]
    columns += [f"generate_subscripts(__list, 1) AS {quoted(op.number)}"] if op.number else []
    rows = f"SELECT *, {', '.join(columns)} FROM ({found})"
    if not op.outer:
        return f"SELECT * EXCLUDE (__list) FROM ({rows})"
    numbers = f" REPLACE (CASE WHEN __any THEN {quoted(op.number)} END AS {quoted(op.number)})" if op.number else ""
    return f"SELECT * EXCLUDE (__list, __any){numbers} FROM ({rows})"


def _synchronize(op: p.Synchronize, source: str) -> str:
    ceiling = Ceiling(Hidden("__time"), op.every, op.offset).sql
    return f"SELECT * REPLACE ({ceiling} AS __time) FROM {source}"


def _synchronize_periods(op: p.SynchronizePeriods, source: str) -> str:
    points = Extreme("least", tuple(_next_point(period) for period in op.periods))
    return f"SELECT * REPLACE ({points.sql} AS __time) FROM {source}"


def _next_point(period: Every) -> Scalar:
    """The first point of a period at or after the time of a change."""
    point = Ceiling(Hidden("__time"), period.every_us, period.offset_us)
    return point if period.since_us is None else Extreme("greatest", (point, Hidden(str(period.since_us))))


def _temporal(op: p.Temporal, source: str) -> str:
    """A change enters at max(time, lower) and its opposite leaves at upper, if it was ever inside."""
    lower, upper = op.lower, op.upper
    enter = f"greatest(__time, {lower})" if lower else "__time"
    inside = f"{lower} IS NOT NULL" if lower else "TRUE"
    if upper is None:
        return f"SELECT * REPLACE ({enter} AS __time) FROM {source} WHERE {inside}"
    # A reader may feed fewer columns than the schema lists: the output has the columns of the input.
    return (
        f"SELECT * EXCLUDE (__enter, __leave, __out) REPLACE (CASE WHEN __out THEN __leave ELSE __enter END AS __time,"
        f" CASE WHEN __out THEN -__diff ELSE __diff END AS __diff)"
        f" FROM (SELECT *, {enter} AS __enter, {upper} AS __leave FROM {source} WHERE {inside})"
        f" CROSS JOIN (VALUES (FALSE), (TRUE)) AS __e(__out) WHERE __leave > __enter"
    )


def _partial(op: p.Partial | p.Finer, source: str) -> str:
    """Adds the parts of all aggregates up for each key and time (early aggregation)."""
    keys, shown = _key_columns(op)
    count = "__diff" if isinstance(op, p.Finer) else "__n"
    parts = [f"{sql} AS {quoted(name)}" for name, sql in op.parts]
    chosen = ", ".join([*shown, "__time", f"{op.count} AS {count}", *parts])
    return f"SELECT {chosen} FROM {source} GROUP BY {', '.join([*keys, '__time'])}"


def _key_columns(op: p.EarlyAggregation) -> tuple[list[str], list[str]]:
    """(columns to group by, all key columns). A key of which only the MIN or MAX is needed, or the set of its values,
    is not grouped by: the rows that are added up keep one extreme, or one list.
    """
    extremes = op.extremes
    shown = [f"{_combine_sql(extremes[k], quoted(k))} AS {quoted(k)}" if k in extremes else quoted(k) for k in op.keys]
    return [quoted(k) for k in op.keys if k not in extremes], shown


def _combine_sql(how: str, column: str) -> str:
    return f"list(DISTINCT {column}[1])" if how == "set" else f"{how}({column})"


def _window_rows(op: p.Windowed, source: str) -> str:
    """Rows of a window, added up for each key and each pair of times at which they enter and leave, then as the change
    that enters and the opposite one that leaves: the same as `temporal`, `synchronize` and `partial` one after the
    other, but each row is read once.
    """
    keys, shown = _key_columns(op)
    names = [quoted(k) for k in op.keys]
    parts = [f"{sql} AS {quoted(name)}" for name, sql in op.parts]
    added = ", ".join([*shown, "__enter", *_leave_columns(op), f"{op.count} AS __n", *parts])
    group = ", ".join([*keys, "__enter", *([] if op.length else ["__leave"])])
    sums = ["__n", *(quoted(name) for name, _ in op.parts)]
    signed = [f"CASE WHEN __out THEN -{s} ELSE {s} END AS {s}" for s in sums]
    return (
        f"SELECT {', '.join([*names, 'CASE WHEN __out THEN __leave ELSE __enter END AS __time', *signed])}"
        f" FROM (SELECT {added} FROM {_rows_inside(op, source)} GROUP BY {group})"
        f" CROSS JOIN (VALUES (FALSE), (TRUE)) AS __e(__out)"
    )


def _leave_columns(op: p.Windowed) -> list[str]:
    return [f"__enter + {op.length} AS __leave"] if op.length else ["__leave"]


def _rows_inside(op: p.Windowed, source: str) -> str:
    """The rows that are ever inside, with their times of entry and, where it varies by row, of exit."""
    items = [f"{sql} AS {quoted(name)}" for name, sql in op.items]
    where = f"({op.where})" if op.where else "TRUE"
    if op.length:
        return f"(SELECT {', '.join([*items, f'{op.lower} AS __enter', '__diff'])} FROM {source} WHERE {where})"
    enter = f"greatest(__time, {op.lower})" if op.lower else "__time"
    known = f" AND {op.lower} IS NOT NULL" if op.lower else ""
    times = [f"{enter} AS __enter", f"{op.upper} AS __leave", "__diff"]
    rows = f"(SELECT {', '.join([*items, *times])} FROM {source} WHERE {where}{known})"
    for every, offset in op.points:
        rounded = ", ".join(f"{Ceiling(Hidden(t), every, offset).sql} AS {t}" for t in ("__enter", "__leave"))
        rows = f"(SELECT * REPLACE ({rounded}) FROM {rows})"
    return f"(SELECT * FROM {rows} WHERE __leave > __enter)"


def _values(op: p.Values, source: str) -> str:
    """How often each value of one column appears for each key and time."""
    keys = [quoted(k) for k in op.keys]
    value = quoted(op.value)
    group = ", ".join([*keys, "__time", value])
    chosen = ", ".join([*keys, "__time", f"{value} AS __v", "CAST(sum(__diff) AS BIGINT) AS __n"])
    return f"SELECT {chosen} FROM {source} WHERE {value} IS NOT NULL GROUP BY {group} HAVING sum(__diff) <> 0"


def _count_rows(op: p.Counted, source: str) -> str:
    """Multiplicity changes of whole rows, on the left (0) or right (1) side of a set operator."""
    names = name_list(op.columns)
    sides = ("CAST(sum(__diff) AS BIGINT)", "CAST(0 AS BIGINT)")
    left, right = sides if op.side == 0 else sides[::-1]
    renamed = ", ".join(
        f"CAST({quoted(old)} AS {type_}) AS {quoted(new)}"
        for old, new, type_ in zip(op.sources, op.columns, op.types, strict=True)
    )
    inner = f"(SELECT {renamed}, __time, __diff FROM {source})"
    group = f"{names}, __time" if names else "__time"
    return f"SELECT {group}, {left} AS __l, {right} AS __r FROM {inner} GROUP BY {group} HAVING sum(__diff) <> 0"


def _latest(op: p.Latest, source: str) -> str:
    """Of several records of one key at one time only the last one counts (presynchronization)."""
    keys = name_list(op.keys)
    return (
        f"SELECT * FROM {source} QUALIFY row_number() OVER"
        f" (PARTITION BY {keys}, __time ORDER BY __at DESC, __seq DESC) = 1"
    )


_RENDER: dict[type[p.Op], Callable[[Any, str], str]] = {
    p.Filter: _filter,
    p.Project: _project,
    p.Unnest: _unnest,
    p.Synchronize: _synchronize,
    p.SynchronizePeriods: _synchronize_periods,
    p.Temporal: _temporal,
    p.Partial: _partial,
    p.Finer: _partial,
    p.Windowed: _window_rows,
    p.Values: _values,
    p.Counted: _count_rows,
    p.Latest: _latest,
}


def render(op: p.Linear, source: str) -> str:
    """The SELECT of a linear operator over SQL that yields its input."""
    return _RENDER[type(op)](op, source)
