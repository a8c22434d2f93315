"""Linear operators: stateless, one SELECT each, fused into one statement where nothing is shared.

A linear operator maps changes to changes row by row (or adds rows of equal key and time up), so it may run
beside the source, in a stage, or on any part of a batch, and the results simply go together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted, sync_ceiling
from tidemill.runtime.operators.base import name_list


def _filter(op: Op, source: str) -> str:
    return f"SELECT * FROM {source} WHERE {op.params['predicate']}"


def _project(op: Op, source: str) -> str:
    items = [f"{sql} AS {quoted(name)}" for name, sql in op.params["items"]]
    return f"SELECT {', '.join([*items, '__time', '__diff'])} FROM {source}"


def _synchronize(op: Op, source: str) -> str:
    ceiling = sync_ceiling("__time", op.params["every"], op.params["offset"])
    return f"SELECT * REPLACE ({ceiling} AS __time) FROM {source}"


def _temporal(op: Op, source: str) -> str:
    """A change enters at max(time, lower) and its opposite leaves at upper, if it was ever inside."""
    lower, upper = op.params["lower"], op.params["upper"]
    enter = f"greatest(__time, {lower})" if lower else "__time"
    inside = f"{lower} IS NOT NULL" if lower else "TRUE"
    if upper is None:
        return f"SELECT * REPLACE ({enter} AS __time) FROM {source} WHERE {inside}"
    # A reader may feed fewer columns than the schema lists: whatever comes in goes out.
    return (
        f"SELECT * EXCLUDE (__enter, __leave, __out) REPLACE (CASE WHEN __out THEN __leave ELSE __enter END AS __time,"
        f" CASE WHEN __out THEN -__diff ELSE __diff END AS __diff)"
        f" FROM (SELECT *, {enter} AS __enter, {upper} AS __leave FROM {source} WHERE {inside})"
        f" CROSS JOIN (VALUES (FALSE), (TRUE)) AS __e(__out) WHERE __leave > __enter"
    )


def _partial(op: Op, source: str) -> str:
    """Adds the parts of all aggregates up for each key and time (early aggregation)."""
    keys, shown = _grouped(op.params)
    parts = [f"{sql} AS {quoted(name)}" for name, sql in op.params["parts"]]
    chosen = ", ".join([*shown, "__time", f"{op.params['count']} AS __n", *parts])
    return f"SELECT {chosen} FROM {source} GROUP BY {', '.join([*keys, '__time'])}"


def _grouped(params: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(columns to group by, all key columns): of an extreme the rows that are added up keep one value, of lists of one
    value they keep one list.
    """
    extremes: dict[str, str] = params.get("extremes", {})
    shown = [f"{_kept(extremes[k], quoted(k))} AS {quoted(k)}" if k in extremes else quoted(k) for k in params["keys"]]
    return [quoted(k) for k in params["keys"] if k not in extremes], shown


def _kept(how: str, column: str) -> str:
    return f"list(DISTINCT {column}[1])" if how == "set" else f"{how}({column})"


def _windowed(op: Op, source: str) -> str:
    """Rows of a window, added up for each key and each pair of times at which they enter and leave, then as the change
    that enters and the opposite one that leaves: the same as `temporal`, `synchronize` and `partial` one after the
    other, but a row is looked at once.
    """
    p = op.params
    keys, shown = _grouped(p)
    names = [quoted(k) for k in p["keys"]]
    parts = [f"{sql} AS {quoted(name)}" for name, sql in p["parts"]]
    added = ", ".join([*shown, "__enter", *_leaving(p), f"{p['count']} AS __n", *parts])
    group = ", ".join([*keys, "__enter", *([] if p["length"] else ["__leave"])])
    sums = ["__n", *(quoted(name) for name, _ in p["parts"])]
    signed = [f"CASE WHEN __out THEN -{s} ELSE {s} END AS {s}" for s in sums]
    return (
        f"SELECT {', '.join([*names, 'CASE WHEN __out THEN __leave ELSE __enter END AS __time', *signed])}"
        f" FROM (SELECT {added} FROM {_inside(p, source)} GROUP BY {group})"
        f" CROSS JOIN (VALUES (FALSE), (TRUE)) AS __e(__out)"
    )


def _leaving(p: dict[str, Any]) -> list[str]:
    return [f"__enter + {p['length']} AS __leave"] if p["length"] else ["__leave"]


def _inside(p: dict[str, Any], source: str) -> str:
    """The rows that are ever inside, with the times at which they enter and, where that is not a constant later, leave.
    """
    items = [f"{sql} AS {quoted(name)}" for name, sql in p["items"]]
    where = f"({p['where']})" if p["where"] else "TRUE"
    if p["length"]:
        return f"(SELECT {', '.join([*items, p['lower'] + ' AS __enter', '__diff'])} FROM {source} WHERE {where})"
    enter = f"greatest(__time, {p['lower']})" if p["lower"] else "__time"
    known = f" AND {p['lower']} IS NOT NULL" if p["lower"] else ""
    times = [f"{enter} AS __enter", f"{p['upper']} AS __leave", "__diff"]
    rows = f"(SELECT {', '.join([*items, *times])} FROM {source} WHERE {where}{known})"
    for every, offset in p["points"]:
        rounded = ", ".join(f"{sync_ceiling(t, every, offset)} AS {t}" for t in ("__enter", "__leave"))
        rows = f"(SELECT * REPLACE ({rounded}) FROM {rows})"
    return f"(SELECT * FROM {rows} WHERE __leave > __enter)"


def _values(op: Op, source: str) -> str:
    """How often each value of one column appears for each key and time."""
    keys = [quoted(k) for k in op.params["keys"]]
    value = quoted(op.params["value"])
    group = ", ".join([*keys, "__time", value])
    chosen = ", ".join([*keys, "__time", f"{value} AS __v", "CAST(sum(__diff) AS BIGINT) AS __n"])
    return f"SELECT {chosen} FROM {source} WHERE {value} IS NOT NULL GROUP BY {group} HAVING sum(__diff) <> 0"


def _counted(op: Op, source: str) -> str:
    """Multiplicity changes of whole rows, on the left (0) or right (1) side of a set operator."""
    names = name_list(op.params["columns"])
    sides = ("CAST(sum(__diff) AS BIGINT)", "CAST(0 AS BIGINT)")
    left, right = sides if op.params["side"] == 0 else sides[::-1]
    renamed = ", ".join(
        f"CAST({quoted(old)} AS {type_}) AS {quoted(new)}"
        for old, new, type_ in zip(op.params["from"], op.params["columns"], op.params["types"], strict=True)
    )
    inner = f"(SELECT {renamed}, __time, __diff FROM {source})"
    group = f"{names}, __time" if names else "__time"
    return f"SELECT {group}, {left} AS __l, {right} AS __r FROM {inner} GROUP BY {group} HAVING sum(__diff) <> 0"


def _latest(op: Op, source: str) -> str:
    """Of several records of one key at one time only the last one counts (presynchronization)."""
    keys = name_list(op.params["keys"])
    return (
        f"SELECT * FROM {source} QUALIFY row_number() OVER"
        f" (PARTITION BY {keys}, __time ORDER BY __at DESC, __seq DESC) = 1"
    )


RENDER: dict[str, Callable[[Op, str], str]] = {
    "filter": _filter,
    "project": _project,
    "synchronize": _synchronize,
    "temporal": _temporal,
    "partial": _partial,
    "windowed": _windowed,
    "values": _values,
    "counted": _counted,
    "latest": _latest,
}
