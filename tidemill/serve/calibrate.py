"""`tidemill calibrate`: measure what sharing costs here, and let the optimizer know."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from tidemill.engine.sharing import keep_costs
from tidemill.engine.workload import Workload
from tidemill.errors import EngineProblem
from tidemill.plan.physical import Physical
from tidemill.runtime import calibrate
from tidemill.runtime.calibrate import Costs
from tidemill.runtime.kernels.warm import warm
from tidemill.runtime.shards import shard_labels
from tidemill.sql.catalog import Catalog
from tidemill.sql.parse import parse

PAPER = 15
_WORKLOAD = """
    REGISTER SOURCE S (a INTEGER, v INTEGER, at TIMESTAMP)
    FROM GENERATE (rate = 1000000, rows = {rows}, a = 'uniform(1,{groups})', v = 'uniform(1,100)')
    WITH (timestamp = 'at');
    CREATE TAGGED STREAM T OVER S;
    CREATE VIEW W AS SELECT a, count(*) AS n, sum(v) AS s FROM T [RANGE 1 HOUR] GROUP BY a
"""
Say = Callable[[str], Any]


def run_calibration(console: Console) -> Costs:
    """Measure, print, and keep for this user."""
    with console.status("…") as line:
        costs = measured(line.update)
    _print(console, costs)
    path = keep_costs(costs.ratio, costs._asdict())
    console.print(Text(f"kept in {path}: databases opened from now on plan with it", style="dim"))
    return costs


def measured(say: Say = lambda text: None, rounds: int = calibrate.ROUNDS, rows: int = calibrate.ROWS) -> Costs:
    """All three costs."""
    say("compiling kernels, where that was not done yet")
    warm()
    say("probes")
    probe = calibrate.probe_seconds(rounds, rows)
    with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
        say("evictions")  # all groups fit, and every row evicts
        eviction = calibrate.entry_seconds(folder, plan_with(1, rows, 1 << 18), plan_with(2, rows, 1), rounds)
        say("journeys to a fragment store")  # all groups fit, few and many
        few, many = plan_with(3, rows, 1 << 22), plan_with(4, rows, 1 << 22, groups=rows // 4)
        journey = calibrate.entry_seconds(folder, few, many, rounds)
    say("aggregate operations")
    costs = Costs(probe, eviction, journey, calibrate.operation_seconds(rounds))
    if min(costs) <= 0:
        raise EngineProblem("TM507", "the machine is too busy to measure anything",
                            hint="try again when it has less to do")
    return costs


def plan_with(version: int, rows: int, memory: int, groups: int = 2_000) -> Physical:
    """One window aggregate over generated rows, its hash table limited to so many units of 4 bytes. Its first window
    ends long after the last row, so nothing is reported.
    """
    workload = Workload(Catalog(), 1_000_000)
    workload.sharing.set("lfta_memory", str(memory))
    source, stream, view = parse(_WORKLOAD.format(rows=rows, groups=groups))
    workload.register(source)  # type: ignore[arg-type]
    workload.create_stream(stream)  # type: ignore[arg-type]
    workload.create_view(view)  # type: ignore[arg-type]
    return workload.physical(version, shard_labels(1), keep=True)


def _print(console: Console, costs: Costs) -> None:
    lines = [
        ("probe (c1)", f"{costs.probe * 1e9:,.1f} ns", ""),
        ("eviction (c2)", f"{costs.eviction * 1e9:,.1f} ns", "one more of a group that leaves anyway"),
        ("journey to a fragment store", f"{costs.journey * 1e9:,.1f} ns", "in this process, without Spark"),
        ("operation of the final aggregation", f"{costs.operation * 1e9:,.1f} ns", ""),
        ("c2 / c1", f"{costs.ratio:,.1f}   ", f"{PAPER} in paper 002, section 8.2"),
    ]
    for name, value, note in lines:
        console.print(Text(f"{name:<36}{value:>12}   {note}".rstrip()))
