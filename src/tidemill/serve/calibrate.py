"""`tidemill calibrate`: measure the costs of sharing, joins and pipelines on this machine for the optimizer."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tidemill.engine.adapt.calibration import (
    Costs,
    JoinCosts,
    PipelineCosts,
    measure_joins,
    measure_pipelines,
    measure_sharing,
)
from tidemill.engine.adapt.sharing import keep_costs

PAPER = 15
_JOINS = (
    ("P_h", "row found by a hash join", "for each change that finds it, in batches of 10,000 tuples"),
    ("P_n", "row compared by a nested loop", ""),
    ("U_h", "change of a window, hashed", "consolidated, looked up, stored"),
    ("U_n", "change of a window, nested loop", ""),
    ("U_g", "joined row added to its group", ""),
    ("U_r", "the same, as the row before it", "its group is at hand"),
)
_PIPELINES = (
    ("filter", "row that reaches a filter", ""),
    ("synchronizer", "record that is synchronized", "the last one of a key stays"),
    ("tagger", "record that reaches a tagger", "looked up, compared, stored"),
    ("grouping", "change that reaches a grouping", "added up by group"),
    ("finer", "change that reaches a finer grouping", "added up by more columns"),
    ("joint", "change that reaches a grouping which reads with others", "walked, its group is known"),
)


def run_calibration(console: Console) -> Costs:
    """Measure, print, and keep for this user."""
    with console.status("…") as line:
        costs = measure_sharing(line.update)
        joins = measure_joins(line.update)
        pipelines = measure_pipelines(line.update)
    _print(console, costs, joins, pipelines)
    path = keep_costs(costs.ratio, costs._asdict(), joins.nanoseconds(), pipelines.nanoseconds())
    console.print(Text(f"kept in {path}: databases opened from now on plan with it", style="dim"))
    return costs


def _print(console: Console, costs: Costs, joins: JoinCosts, pipelines: PipelineCosts) -> None:
    lines = [
        ("probe (c1)", f"{costs.probe * 1e9:,.1f} ns", ""),
        ("eviction (c2)", f"{costs.eviction * 1e9:,.1f} ns", "one more of a group that leaves anyway"),
        ("journey to a fragment store", f"{costs.journey * 1e9:,.1f} ns", "in this process, without Spark"),
        ("operation of the final aggregation", f"{costs.operation * 1e9:,.1f} ns", ""),
        ("c2 / c1", f"{costs.ratio:,.1f}   ", f"{PAPER} in paper 002, section 8.2"),
        *((f"{what} ({name})", f"{getattr(joins, name) * 1e9:,.1f} ns", note) for name, what, note in _JOINS),
        *((what, f"{getattr(pipelines, name) * 1e9:,.1f} ns", note) for name, what, note in _PIPELINES),
    ]
    for name, value, note in lines:
        console.print(Text(f"{name:<36}{value:>12}   {note}".rstrip()))
