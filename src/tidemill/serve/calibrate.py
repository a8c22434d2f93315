"""`tidemill calibrate`: measure what sharing and joins cost here, and let the optimizer know."""

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
from tidemill.runtime import calibrate, calibrate_joins
from tidemill.runtime.calibrate import Costs
from tidemill.runtime.calibrate_joins import JoinCosts, join_costs
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
_STREAM = """
    REGISTER SOURCE S{i} (J VARCHAR, G VARCHAR, A INTEGER, at TIMESTAMP) FROM GENERATE (rows = 1)
    WITH (timestamp = 'at');
    CREATE TAGGED STREAM T{i} OVER S{i};
"""
_JOINS = (
    ("P_h", "row found by a hash join", "for each change that finds it, in batches of 10,000 tuples"),
    ("P_n", "row compared by a nested loop", ""),
    ("U_h", "change of a window, hashed", "consolidated, looked up, stored"),
    ("U_n", "change of a window, nested loop", ""),
    ("U_g", "joined row added to its group", ""),
    ("U_r", "the same, as the row before it", "its group is at hand"),
)
Say = Callable[[str], Any]


def run_calibration(console: Console) -> Costs:
    """Measure, print, and keep for this user."""
    with console.status("…") as line:
        costs = measured(line.update)
        joins = measured_joins(line.update)
    _print(console, costs, joins)
    path = keep_costs(costs.ratio, costs._asdict(), joins.nanoseconds())
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
    _check(costs)
    return costs


def measured_joins(say: Say = lambda text: None, rounds: int = calibrate_joins.ROUNDS,
                   tuples: int = calibrate_joins.TUPLES) -> JoinCosts:
    """The constants of joins that aggregate."""
    warm()
    say("joins")
    costs = join_costs(join_plan("00"), join_plan("00", "nested loop"), rounds, tuples)
    _check(costs)
    return costs


def _check(costs: tuple[float, ...]) -> None:
    if min(costs) <= 0:
        raise EngineProblem("TM507", "the machine is too busy to measure anything",
                            hint="try again when it has less to do")


def join_plan(early: str, method: str = "hash") -> Physical:
    """Figure 3 of paper 000 over as many streams as the plan has bits: G_1, …, SUM(A_1), …, all joined on J."""
    workload, numbers = Workload(Catalog(), 1_000_000), range(1, len(early) + 1)
    workload.joining.set("early_aggregation", early)
    workload.joining.set("join_method", method)
    keys, sums = ([text.format(i=i) for i in numbers] for text in ("R{i}.G AS G{i}", "sum(R{i}.A) AS A{i}"))
    view = (f"CREATE VIEW W AS SELECT {', '.join([*keys, *sums])}"
            f" FROM {', '.join(f'T{i} AS R{i} [WINDOW 10 SECONDS]' for i in numbers)}"
            f" WHERE {' AND '.join(f'R1.J = R{i}.J' for i in numbers[1:])}"
            f" GROUP BY {', '.join(f'R{i}.G' for i in numbers)}")
    *streams, last = parse("".join(_STREAM.format(i=i) for i in numbers) + view)
    for source, stream in zip(streams[::2], streams[1::2], strict=True):
        workload.register(source)  # type: ignore[arg-type]
        workload.create_stream(stream)  # type: ignore[arg-type]
    workload.create_view(last)  # type: ignore[arg-type]
    return workload.physical(1, shard_labels(1), keep=True)


def plan_with(version: int, rows: int, memory: int, groups: int = 2_000) -> Physical:
    """One window aggregate over generated rows, its hash table limited to so many units of 4 bytes. Its first window
    ends long after the last row, so nothing is reported.
    """
    workload = Workload(Catalog(), 1_000_000)
    workload.sharing.set("lfta_memory", str(memory))
    workload.sharing.settings.budget = None  # entries wait and are put together as in a roomy reader
    source, stream, view = parse(_WORKLOAD.format(rows=rows, groups=groups))
    workload.register(source)  # type: ignore[arg-type]
    workload.create_stream(stream)  # type: ignore[arg-type]
    workload.create_view(view)  # type: ignore[arg-type]
    return workload.physical(version, shard_labels(1), keep=True)


def _print(console: Console, costs: Costs, joins: JoinCosts) -> None:
    lines = [
        ("probe (c1)", f"{costs.probe * 1e9:,.1f} ns", ""),
        ("eviction (c2)", f"{costs.eviction * 1e9:,.1f} ns", "one more of a group that leaves anyway"),
        ("journey to a fragment store", f"{costs.journey * 1e9:,.1f} ns", "in this process, without Spark"),
        ("operation of the final aggregation", f"{costs.operation * 1e9:,.1f} ns", ""),
        ("c2 / c1", f"{costs.ratio:,.1f}   ", f"{PAPER} in paper 002, section 8.2"),
        *((f"{what} ({name})", f"{getattr(joins, name) * 1e9:,.1f} ns", note) for name, what, note in _JOINS),
    ]
    for name, value, note in lines:
        console.print(Text(f"{name:<36}{value:>12}   {note}".rstrip()))
