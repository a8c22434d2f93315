"""The window of a join's input, read down to the rows that it is a window of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.plan import relations as r
from tidemill.plan.bounds import ceiling_of, shift_of
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.scalars import columns_of, conjunction, substitute


@dataclass(frozen=True)
class Windowed:
    """The rows below the window, and the parameters of the linear operator `windowed` over them."""

    rows: Relation
    params: dict[str, Any]


def read_window(node: Relation, names: list[str]) -> Windowed | None:
    """Project, Filter and Synchronize over a window that rows leave again, as one operator that yields `names`.

        Project[e]                     windowed[e; p; lower, upper; points]
          Synchronize[points]            R
            Filter[p]            →
              Temporal[lower, upper]
                R

    None where the input is something else. Sound because all of them treat every row alike: they can be applied to a
    row in one go, and what enters and leaves at the same times can be added up before it is made into two changes.
    """
    columns = {n: quoted(n) for n in names}
    predicates: list[str] = []
    points: list[list[int]] = []
    while not isinstance(node, r.Temporal):
        if isinstance(node, r.Project):
            below = {i.name: i.sql for i in node.items}
            columns = {n: _over(sql, below) for n, sql in columns.items()}
            predicates = [_over(p, below) for p in predicates]
        elif isinstance(node, r.Filter):
            predicates.append(node.predicate)
        elif isinstance(node, r.Synchronize):
            points.append([node.every_us, node.offset_us])
        else:
            return None
        node = node.input
    if node.upper is None:
        return None
    return Windowed(node.input, {
        "items": [[n, sql] for n, sql in columns.items()], "where": conjunction(*predicates), "lower": node.lower,
        "upper": node.upper, "points": points[::-1], "length": None if points else _length(node),
    })


def _length(window: r.Temporal) -> int | None:
    """How long every row stays, where that is the same for all: the window's length is a multiple of its slide, and
    rows come at their own time, which is before they enter.
    """
    if window.period is None or window.lower is None or window.upper is None:
        return None
    below = window.input
    while isinstance(below, (r.Filter, r.Project)):
        below = below.input
    times = [ceiling_of(b, *window.period) for b in (window.lower, window.upper)]
    shifts = [shift_of(t) for t in times if t is not None]
    known = [s[1] for s in shifts if s is not None and s[0] == r.TS]
    if not isinstance(below, r.Scan) or below.static or len(known) != 2 or known[0] < 0:
        return None
    stays = known[1] - known[0]
    return stays if stays > 0 and stays % window.period[0] == 0 else None


def _over(sql: str, below: dict[str, str]) -> str:
    whole = next((c for c in columns_of(sql) if sql == quoted(c)), None)
    return substitute(sql, below) if whole is None else below[whole]
