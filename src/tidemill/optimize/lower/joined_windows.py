"""The window of a join's input, read down to the rows that it is a window of."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tidemill.optimize.rendering import columns_read
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef, Scalar, conjunction, shift_of, sql_of, undo_rounding


@dataclass(frozen=True)
class Windowed:
    """The rows below the window, and what the linear operator `Windowed` does to them."""

    rows: Relation
    items: tuple[p.Item, ...]
    where: str | None
    lower: str | None
    upper: str
    points: tuple[tuple[int, int], ...]
    length: int | None
    columns_read: tuple[str, ...]

    def add_up(self, partial: p.Partial) -> p.Windowed:
        """The window and an early aggregation of its rows as one operator."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rows"}
        return p.Windowed(**{**vars(partial), **own})


def read_window(node: Relation, names: list[str]) -> Windowed | None:
    """Project, Filter and Synchronize over a window that rows leave again, as one operator that yields `names`.

        Project[e]                     windowed[e; p; lower, upper; points]
          Synchronize[points]            R
            Filter[p]            →
              Temporal[lower, upper]
                R

    None where the input is something else. Sound because all of them treat every row alike: they can be applied to a
    row in one step, and rows that enter and leave at the same times can be added up before they become two changes.
    """
    columns: dict[str, Scalar] = {n: ColumnRef(n) for n in names}
    predicates: list[Scalar] = []
    points: list[tuple[int, int]] = []
    while not isinstance(node, r.Temporal):
        if isinstance(node, r.Project):
            below = {i.name: i.value for i in node.items}
            columns = {n: value.over(below) for n, value in columns.items()}
            predicates = [predicate.over(below) for predicate in predicates]
        elif isinstance(node, r.Filter):
            predicates.append(node.predicate)
        elif isinstance(node, r.Synchronize):
            points.append((node.every_us, node.offset_us))
        else:
            return None
        node = node.input
    if node.upper is None:
        return None
    where = conjunction(*predicates)
    return Windowed(
        node.input,
        tuple(p.Item(n, value.sql) for n, value in columns.items()),
        sql_of(where),
        sql_of(node.lower),
        node.upper.sql,
        tuple(points[::-1]),
        None if points else _length(node),
        columns_read(*columns.values(), where, node.lower, node.upper),
    )


def _length(window: r.Temporal) -> int | None:
    """How long every row stays, where that is the same for all: the window's length is a multiple of its slide, and a
    row arrives at its own time, before it enters the window.
    """
    if window.period is None or window.lower is None or window.upper is None:
        return None
    below = window.input
    while isinstance(below, (r.Filter, r.Project)):
        below = below.input
    times = [undo_rounding(b, window.period) for b in (window.lower, window.upper)]
    shifts = [shift_of(t) for t in times if t is not None]
    known = [s[1] for s in shifts if s is not None and s[0] == r.TS]
    if not isinstance(below, r.Scan) or below.static or len(known) != 2 or known[0] < 0:
        return None
    stays = known[1] - known[0]
    return stays if stays > 0 and stays % window.period[0] == 0 else None
