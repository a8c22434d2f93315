"""TUMBLE, HOP and CUMULATE in FROM: each row with the bounds of the windows that it is in, from the end of each on.

With s apart and r long, windows begin at the multiples of s. Let e(j) be the j-th multiple of s after a row's time.

    TUMBLE(s)        e(0)                                          window_start = window_end − s
    HOP(s, r)        e(0), e(1), … e(r/s − 1)                      window_start = window_end − r
    CUMULATE(s, r)   those of e(0), e(1), … up to the multiple of r after the row's time, which is window_start + r

A grouping by the bounds of TUMBLE is one by epochs, and one by the bounds of HOP asks the sliding window
[RANGE r SLIDE s] at each of its points, so these share their work as the other spellings do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.scalars import Ceiling, ColumnRef, Operation, Scalar, Shift
from tidemill.sql.bind.aggregate_calls import find_aggregate_calls, is_grouped
from tidemill.sql.bind.scalar import in_us
from tidemill.sql.bind.scope import Input, Rhythm, TableWindows, problem
from tidemill.sql.bind.sessions import BOUNDS, apply_session, with_bounds
from tidemill.sql.bind.windows import apply_window
from tidemill.sql.dialect.nodes import WindowSpec

MOST_WINDOWS = 100  # that one row is in, where each is a branch of the plan


def slide_hops(select: exp.Select, items: list[exp.Expression]) -> None:
    """Where a query groups the rows of HOP by its bounds and reads them nowhere else below the grouping, let the input
    be a sliding window. The tree is changed.
    """
    window = items[0].args.get("window") if len(items) == 1 else None
    if not isinstance(window, WindowSpec) or window.kind != "hop" or not is_grouped(select):
        return
    group = select.args.get("group")
    if group is None or any(v for k, v in group.args.items() if k != "expressions"):
        return
    below = [n for root in _read_below(select) for n in root.find_all(exp.Column) if n.name.lower() in BOUNDS]
    if not below and any(_is_bound(k) for k in group.expressions):
        items[0].set("window", replace(window, kind="hopping"))


def _read_below(select: exp.Select) -> Iterator[exp.Expression]:
    """What is evaluated on rows, not on groups, and is no key by itself."""
    if select.args.get("where") is not None:
        yield select.args["where"]
    yield from (k for k in select.args["group"].expressions if not _is_bound(k))
    having = select.args.get("having")
    for root in [*select.expressions, *([having] if having is not None else [])]:
        yield from find_aggregate_calls(root)


def _is_bound(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() in BOUNDS


def apply_table_function(item: Input, window: WindowSpec, unit_us: int, node: exp.Expression) -> Input:
    """TUMBLE, HOP, CUMULATE or SESSION over an input."""
    _check_time(item, str(window.column), node)
    size = in_us(window.size, unit_us)  # type: ignore[arg-type]
    if window.kind == "session":
        return apply_session(item, window, unit_us, node)
    slide = size if window.slide is None else in_us(window.slide, unit_us)
    _check_lengths(window, slide, size, 1 if item.domain == "timestamp" else unit_us, node)
    if window.kind in ("hop", "hopping") and slide == size:
        window = replace(window, kind="tumble")
    item = item.with_stamp()
    windows = TableWindows(slide, size)
    if window.kind == "hopping":
        sliding = apply_window(item, replace(window, kind="range"), unit_us)
        shown = with_bounds(sliding, sliding.node, ColumnRef(str(item.ts)), ColumnRef(str(item.ts)), unit_us, node)
        return replace(shown, windows=windows)
    rows = _rows(item, window, slide, size)
    shown = with_bounds(item, rows, ColumnRef(r.START), ColumnRef(r.END), unit_us, node)
    shown = replace(shown, rhythm=Rhythm(period=(slide, 0)))
    return replace(shown, windows=windows) if window.kind == "tumble" else replace(shown, keys=None)


def _rows(item: Input, window: WindowSpec, slide: int, size: int) -> r.Relation:
    """The rows of the input once for each of their windows, from its end on, with `__start` and `__end`."""
    time = ColumnRef(str(item.ts))
    branches: list[r.Relation] = []
    for j in range(size // slide):
        end = Ceiling(Shift(time, "+", j * slide + 1), slide, 0)
        start: Scalar = Shift(end, "-", size)
        rows = item.node
        if window.kind == "cumulate":
            last = Ceiling(Shift(time, "+", 1), size, 0)
            start = Shift(last, "-", size)
            rows = r.Filter(rows, Operation("<=", end, last))
        entered = r.Temporal(rows, end, None, (slide, 0))
        bounds = (r.Item(r.START, start, "BIGINT"), r.Item(r.END, end, "BIGINT"))
        branches.append(r.Project(entered, (*map(r.Item.of, item.node.schema), *bounds)))
        if window.kind == "tumble":
            return branches[0]
    return r.Union(tuple(branches)) if len(branches) > 1 else branches[0]


def _check_time(item: Input, column: str, node: exp.Expression) -> None:
    """Windows are over the time of rows: TS, or the column that it was taken from."""
    if r.never_changes(item.node):
        raise problem(
            f'"{item.alias}" has no time: its rows are there before all events',
            node,
            code="TM202",
            hint="windows need a stream or a view of streams",
        )
    field = item.field(column)
    if (field is None and column.lower() == "ts") or (field is not None and field.column == item.event):
        return
    event = next((f.name for f in item.fields if f.column == item.event), "TS")
    raise problem(
        f'"{column}" is not the time of the rows of "{item.alias}"',
        node,
        code="TM202",
        hint=f"write DESCRIPTOR({event})",
    )


def _check_lengths(window: WindowSpec, slide: int, size: int, grain: int, node: exp.Expression) -> None:
    name, hint = window.kind.upper().replace("HOPPING", "HOP"), None
    if size % slide:
        hint = f"{name} needs a length that is a multiple of the first one"
    elif slide % grain:
        hint = "times of this stream are whole clock units, and so are the bounds of its windows"
    elif size // slide > MOST_WINDOWS and window.kind not in ("hopping", "tumble"):
        hint = f"a row would be in {size // slide:,} windows, of at most {MOST_WINDOWS}: use [RANGE … SLIDE …]"
    if hint is not None:
        raise problem(f"windows of these lengths are not possible in {name}", node, code="TM111", hint=hint)
