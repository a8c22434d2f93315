"""What sharing costs on this machine: a probe (c1 of paper 002), an eviction (c2), and an operation of the final
aggregation (the unit of paper 003).

Each is a difference or a quotient of whole runs, so that what is common to both sides does not count. Other
work disturbs measurements: processor time is taken, not wall time, and the least of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from tidemill.plan.physical import Physical
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.share.lfta import RAW, SUM, Tables, TableSpec
from tidemill.runtime.kernels.share.sliding import WHOLE, slide
from tidemill.runtime.paths import Paths, load_plan, write_json, write_plan
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.reader.reader import Reader
from tidemill.runtime.stage.stage import Stage

ROUNDS, ROWS = 9, 400_000  # the least of the rounds counts
# Few groups in many buckets: hardly a probe collides. A probe costs the difference of one table and `_MORE` more.
_GROUPS, _BUCKETS, _MORE = 2_000, 32_000, 4


class Costs(NamedTuple):
    """Seconds.

    `eviction` is c2 as a configuration can change it: one more eviction of a group that leaves anyway. Readers put
    such entries together, so only the first one is a `journey`: to Arrow, split by shard, as payload, into the fragment
    store. How many journeys there are depends on groups and fragments alone, and no choice of phantoms saves one.
    """

    probe: float
    eviction: float
    journey: float
    operation: float

    @property
    def ratio(self) -> float:
        """c2 / c1 (paper 002, section 8.2).

        >>> Costs(probe=1e-8, eviction=1.5e-7, journey=4e-7, operation=1e-9).ratio
        15.0
        """
        return round(self.eviction / self.probe, 2)


def probe_seconds(rounds: int = ROUNDS, rows: int = ROWS) -> float:
    """c1: what each of four more relations costs a row, with groups enough that rows do not repeat and tables so roomy
    that few collide.
    """
    groups = np.random.default_rng(1).integers(0, _GROUPS, (2, rows))
    few, many = (min(_seconds(partial(_push_groups, n, groups)) for _ in range(rounds)) for n in (1, 1 + _MORE))
    return (many - few) / (_MORE * rows)


def _push_groups(relations: int, groups: np.ndarray) -> None:
    tables = Tables([TableSpec(RAW, (0,), _BUCKETS, True)] * relations, 2, [SUM, SUM])
    tables.map([[0]] * relations, [[0]] * relations)
    none = np.zeros(groups.shape[1], np.int32)
    tables.push(groups, none, none, [None, groups[1]])


def entry_seconds(folder: str, few: Physical, many: Physical, rounds: int = ROUNDS) -> float:
    """What one entry more costs that leaves a hash table: the difference of two plans that evict few and many, from
    the reader's first row to the end of the stage, by the difference of their evictions.

    `folder` becomes a database directory that is good for nothing else.
    """
    taken: dict[int, list[float]] = {few.version: [], many.version: []}
    evicted: dict[int, int] = {}
    for plan in (few, many):
        write_plan(Paths(folder), plan)
    for _ in range(rounds):
        for version in taken:
            seconds, evicted[version] = batch_cost(folder, version)
            taken[version].append(seconds)
    longer = min(taken[many.version]) - min(taken[few.version])
    return longer / (evicted[many.version] - evicted[few.version])


def batch_cost(folder: str, version: int) -> tuple[float, int]:
    """One micro-batch in this process: seconds of its reader and its stage, and how many entries were evicted."""
    write_json(
        Paths(folder).control,
        {
            "plan": version,
            "mode": "finite",
            "run": 1,
            "sources": [s.name for s in load_plan(Paths(folder).plan(version)).sources],
        },
    )
    planner = Planner(folder, 1)
    end = planner.latest(planner.initial())
    (assignment,) = planner.assignments(planner.initial(), end)
    reader = Reader(folder, assignment)
    began = time.process_time()
    messages = list(reader.messages())
    Stage(folder, messages[-1][0], None).step((port, payload) for _, port, payload in messages)
    seconds = time.process_time() - began
    tables = [table for found in reader.lfta.values() for counts in found for table in counts.relations]
    return seconds, sum(t.collisions + t.turnovers + t.flushed for t in tables)


def operation_seconds(rounds: int = ROUNDS, keys: int = 200, fragments: int = 500) -> float:
    """A window of 60 fragments that slides by one, over the fragments of many groups: time by operations."""
    starts = np.tile(np.arange(fragments), keys)
    bounds, counts = np.arange(keys + 1) * fragments, np.ones((1, len(starts)), np.int64)
    window = Window(slide=1, offset=0, after=1, until=61)
    operations = 0

    def once() -> None:
        nonlocal operations
        operations = slide(bounds, starts, None, counts, [SUM], [], [], window, 1, fragments, WHOLE).operations

    return min(_seconds(once) for _ in range(rounds)) / operations


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
