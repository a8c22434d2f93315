"""Measures what sharing, joins and pipelines over keyed streams cost on this machine, with plans of the engine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from tidemill.engine.workload import Workload
from tidemill.errors import EngineProblem
from tidemill.plan.physical import Physical
from tidemill.runtime.calibrate import joins, pipelines, sharing
from tidemill.runtime.calibrate.joins import JoinCosts, join_costs
from tidemill.runtime.calibrate.pipelines import PipelineCosts, pipeline_costs
from tidemill.runtime.calibrate.sharing import Costs
from tidemill.runtime.kernels.compiling.warm import warm
from tidemill.runtime.spark.shard_labels import shard_labels
from tidemill.sql.catalog import Catalog
from tidemill.sql.parse.statements import parse

__all__ = [
    "Costs",
    "JoinCosts",
    "PipelineCosts",
    "join_plan",
    "measure_joins",
    "measure_pipelines",
    "measure_sharing",
    "tagger_plan",
    "window_plan",
]

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
_KEYED = """
    REGISTER SOURCE S (k INTEGER, b INTEGER, v INTEGER, at TIMESTAMP) FROM GENERATE (rows = 1) WITH (timestamp = 'at');
    CREATE TAGGED STREAM T OVER S KEY k;
    CREATE VIEW W AS SELECT b, count(*) AS n, sum(v) AS s FROM T SYNC EVERY 1 SECOND GROUP BY b
"""
Say = Callable[[str], Any]


def measure_sharing(say: Say = lambda text: None, rounds: int = sharing.ROUNDS, rows: int = sharing.ROWS) -> Costs:
    """Measure the costs of a probe, an eviction, a journey to the fragment store and an aggregate operation."""
    say("compiling kernels, where that was not done yet")
    warm()
    say("probes")
    probe = sharing.probe_seconds(rounds, rows)
    with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
        say("evictions")  # all groups fit, and every row evicts
        eviction = sharing.entry_seconds(folder, window_plan(1, rows, 1 << 18), window_plan(2, rows, 1), rounds)
        say("journeys to a fragment store")  # all groups fit, few and many
        few, many = window_plan(3, rows, 1 << 22), window_plan(4, rows, 1 << 22, groups=rows // 4)
        journey = sharing.entry_seconds(folder, few, many, rounds)
    say("aggregate operations")
    costs = Costs(probe, eviction, journey, sharing.operation_seconds(rounds))
    _check(costs)
    return costs


def measure_joins(say: Say = lambda text: None, rounds: int = joins.ROUNDS, tuples: int = joins.TUPLES) -> JoinCosts:
    """Measure the constants of aggregation joins."""
    warm()
    say("joins")
    costs = join_costs(join_plan("00"), join_plan("00", "nested loop"), rounds, tuples)
    _check(costs)
    return costs


def measure_pipelines(
    say: Say = lambda text: None, rounds: int = pipelines.ROUNDS, rows: int = pipelines.ROWS
) -> PipelineCosts:
    """Measure what a row costs a filter, a synchronizer, a tagger and a grouping."""
    warm()
    say("pipelines")
    costs = pipeline_costs(tagger_plan(), rounds, rows)
    _check(costs)
    return costs


def _check(costs: tuple[float, ...]) -> None:
    if min(costs) <= 0:
        raise EngineProblem(
            "TM507", "the machine is too busy to measure anything", hint="try again when it has less to do"
        )


def join_plan(early: str, method: str = "hash") -> Physical:
    """Figure 3 of paper 000 over as many streams as the plan has bits: G_1, …, SUM(A_1), …, all joined on J."""
    workload, numbers = Workload(Catalog(), 1_000_000), range(1, len(early) + 1)
    workload.join_planning.set("early_aggregation", early)
    workload.join_planning.set("join_method", method)
    keys, sums = ([text.format(i=i) for i in numbers] for text in ("R{i}.G AS G{i}", "sum(R{i}.A) AS A{i}"))
    view = (
        f"CREATE VIEW W AS SELECT {', '.join([*keys, *sums])}"
        f" FROM {', '.join(f'T{i} AS R{i} [WINDOW 10 SECONDS]' for i in numbers)}"
        f" WHERE {' AND '.join(f'R1.J = R{i}.J' for i in numbers[1:])}"
        f" GROUP BY {', '.join(f'R{i}.G' for i in numbers)}"
    )
    *streams, last = parse("".join(_STREAM.format(i=i) for i in numbers) + view)
    for source, stream in zip(streams[::2], streams[1::2], strict=True):
        workload.register(source)  # type: ignore[arg-type]
        workload.create_stream(stream)  # type: ignore[arg-type]
    workload.create_view(last)  # type: ignore[arg-type]
    return workload.physical(1, shard_labels(1), keep=True)


def tagger_plan() -> Physical:
    """One keyed stream, synchronized, with a grouping above it."""
    return _plan_of(Workload(Catalog(), 1_000_000), 1, _KEYED)


def window_plan(version: int, rows: int, memory: int, groups: int = 2_000) -> Physical:
    """One window aggregate over generated rows, its hash table limited to `memory` units of 4 bytes. Its first
    window ends long after the last row, so nothing is reported.
    """
    workload = Workload(Catalog(), 1_000_000)
    workload.sharing.set("lfta_memory", str(memory))
    workload.sharing.settings.budget = None  # entries are combined before they leave, as in a reader with enough memory
    return _plan_of(workload, version, _WORKLOAD.format(rows=rows, groups=groups))


def _plan_of(workload: Workload, version: int, text: str) -> Physical:
    """The plan of a source, a stream and a view."""
    source, stream, view = parse(text)
    workload.register(source)  # type: ignore[arg-type]
    workload.create_stream(stream)  # type: ignore[arg-type]
    workload.create_view(view)  # type: ignore[arg-type]
    return workload.physical(version, shard_labels(1), keep=True)
