"""What joins that aggregate cost on this machine: P_n, P_h, U_n, U_h and U_g of paper 000 (table III), and U_r.

The paper measures the time to process 10,000 tuples and divides. Here every constant is a slope or a difference of
such runs of the operator itself, so that what a micro-batch costs before it does anything does not count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.physical import Physical
from tidemill.plan.relations import quoted
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import Evaluation
from tidemill.runtime.state.shard_state import ShardState

K = TypeVar("K", bound=Hashable)
ROUNDS, TUPLES = 5, 10_000  # tuples of an input, enough that setting up a run does not count
UNIT = 1_000_000  # the clock unit: a second
_HASH, _NESTED = "hash", "nested loop"
_DENSE, _SPARSE, _GROUPS = 20, 500, 10  # join values where many and few changes share one; groups in any order


class JoinCosts(NamedTuple):
    """Seconds. `P_h` is for batches of this size: the rows of a join value are fetched once for all that probe it.

    `U_g` is for a joined row that looks for its group, `U_r` for one in the group of the row before, which is at hand;
    infinite where it was not measured.
    """

    P_n: float
    P_h: float
    U_n: float
    U_h: float
    U_g: float
    U_r: float = math.inf

    def nanoseconds(self) -> dict[str, float]:
        """As the cost functions want them.

        >>> JoinCosts(P_n=1e-9, P_h=2e-8, U_n=1e-6, U_h=2e-6, U_g=1.5e-8).nanoseconds()
        {'P_n': 1.0, 'P_h': 20.0, 'U_n': 1000.0, 'U_h': 2000.0, 'U_g': 15.0}
        """
        return {name: round(s * 1e9, 3) for name, s in self._asdict().items() if s < math.inf}


class Arrivals(NamedTuple):
    """One input: λ rows in a unit of time, w rows in its window, groups, and values of the join attribute (1/σ).

    Values are uniform and independent. Inputs whose values do not begin at the same number share none of them.
    """

    rate: int
    window: int
    groups: int
    values: int
    first: int = 0


class SteadyJoin:
    """An aggregation join with full windows: with every row that comes, the oldest one leaves.

    `plan` joins inputs with a join attribute, a grouping attribute (strings) and an argument (a whole number). All
    changes have times of their own. Rows take the form that the plan gives them as in a reader, by the operators
    `partial` and `project`.
    """

    def __init__(self, plan: Physical, inputs: Sequence[Arrivals], seed: int = 1) -> None:
        (self.op,) = (op for op in plan.stage if isinstance(op, p.JoinAggregate))
        specs = self.op.joined
        self.sides = [_side(f"side{i}", spec) for i, spec in enumerate(specs)]
        self.inputs = [
            _Input([c.name for c in (*spec.keys, *spec.args)], arrivals, np.random.default_rng([seed, i]))
            for i, (spec, arrivals) in enumerate(zip(specs, inputs, strict=True))
        ]
        self.state, self.now = ShardState.empty(""), 0
        self.out: Batch | None = None
        self._run([i.fill_window() for i in self.inputs], 1)

    def unit(self, units: int = 1) -> float:
        """Run this many units of time as one micro-batch; processor seconds."""
        slots = 2 * len(self.inputs)
        return self._run(
            [i.move_window(self.now, units, 2 * at, slots) for at, i in enumerate(self.inputs)], units * UNIT
        )

    def nothing(self) -> float:
        """A micro-batch without changes."""
        return self._run([None] * len(self.inputs), 1)

    def _run(self, tables: Sequence[pa.Table | None], lasts: int) -> float:
        self.now += lasts
        feeds = {s.inputs[0]: Batch(rows, self.now) for s, rows in zip(self.sides, tables, strict=True)}
        began = time.process_time()
        reader = Evaluation({s.id: s for s in self.sides}, feeds)
        ports = {port: reader.batch(s.id) for port, s in zip(self.op.inputs, self.sides, strict=True)}
        stage = Evaluation({self.op.id: self.op}, ports, self.state)
        self.out = stage.batch(self.op.id)
        seconds = time.process_time() - began
        counted = stage.notes[self.op.id]
        assert isinstance(counted, JoinCounts)
        self.note = counted
        return seconds


def _side(name: str, spec: p.JoinInput) -> p.Linear:
    """The linear operator that brings one input to its form: the key alone with parts, or the key and the argument."""
    keys, rows = tuple(c.name for c in spec.keys), (f"{name} rows",)
    if not spec.early:
        items = tuple(p.Item(c.name, quoted(c.name)) for c in (*spec.keys, *spec.args))
        return p.Project(name, rows, (), items)
    parts = tuple(p.Item(part.name, part.sql) for part in spec.parts)
    return p.Partial(name, rows, (), keys, "CAST(sum(__diff) AS BIGINT)", parts)


class _Input:
    """The rows of one input: those in the window, oldest first, and those to come."""

    def __init__(self, names: Sequence[str], arrivals: Arrivals, random: np.random.Generator) -> None:
        self.names, self.arrivals, self.random = names, arrivals, random
        kinds = (("j", arrivals.first, arrivals.values), ("g", 0, arrivals.groups))
        self.texts = [pa.array([f"{kind}{first + v:07d}" for v in range(count)]) for kind, first, count in kinds]
        self.rows = self._draw_rows(arrivals.window)

    def fill_window(self) -> pa.Table:
        """All rows of the window come."""
        return self._table(self.rows, np.zeros(self.arrivals.window, np.int64), 1)

    def move_window(self, now: int, units: int, slot: int, slots: int) -> pa.Table:
        """Rows come, evenly spread, and right after each the oldest leaves; of `slots` moments two are this input's."""
        count = self.arrivals.rate * units
        rows = np.concatenate([self.rows, self._draw_rows(count)], axis=1)
        come, leave, self.rows = rows[:, -count:], rows[:, :count], rows[:, count:]
        at = now + np.arange(count) * (UNIT * units) // count // slots * slots + slot
        return pa.concat_tables([self._table(come, at, 1), self._table(leave, at + 1, -1)])

    def _draw_rows(self, count: int) -> np.ndarray:
        each = (self.arrivals.values, self.arrivals.groups, 1_000_000)
        return np.stack([self.random.integers(0, most, count) for most in each])

    def _table(self, rows: np.ndarray, at: np.ndarray, diff: int) -> pa.Table:
        columns = [text.take(pa.array(codes)) for text, codes in zip(self.texts, rows, strict=False)]
        times = [pa.array(at), pa.array(np.full(len(at), diff, np.int64))]
        return pa.table([*columns, pa.array(rows[2].astype(np.int32)), *times], [*self.names, "__time", "__diff"])


def join_costs(hashed: Physical, nested: Physical, rounds: int = ROUNDS, tuples: int = TUPLES) -> JoinCosts:
    """All constants, of late plans of two inputs by either method.

    T is the least time of several rounds. n tuples come and go in a micro-batch, windows have w rows, inputs v join
    values.

    - U_h, U_n: inputs share no join value, so a change is only put into its window: slope of T over changes.
    - P_n: a nested loop with few matches: slope of T over changes · w.
    - P_h, U_g: every change meets w/v rows; s is the slope of T over changes · w/v as w grows. A row is found once for
      a batch and added up for every change that meets it. So with all rows in one group and v small, s is almost only
      adding up, U_r, and with v large P_h more. With v small and g groups in any order, s is U_r for one row in g and
      U_g for the others.
    """
    runs = _Runs.of(tuples)
    plans = runs.plans(hashed, nested)
    joins = {(method, run): SteadyJoin(plan, run.inputs) for method, plan, each in plans for run in each}
    taken = least(joins, rounds)

    def slope(method: str, runs: Sequence[_Run], per: Callable[[_Run], float]) -> float:
        low, high = runs
        return (taken[method, high] - taken[method, low]) / (per(high) - per(low))

    # Of P_h, which is for few changes of each join value, this share is left with many.
    left = _DENSE / _SPARSE
    P_h = (slope(_HASH, runs.found, _Run.pairs) - slope(_HASH, runs.added, _Run.pairs)) / (1 - left)
    U_r = slope(_HASH, runs.added, _Run.pairs) - left * P_h
    turns = slope(_HASH, runs.grouped, _Run.pairs) - left * P_h
    return JoinCosts(
        P_n=slope(_NESTED, runs.compared, lambda run: run.changes * run.window),
        P_h=P_h,
        U_n=slope(_NESTED, runs.alone, lambda run: run.changes),
        U_h=slope(_HASH, runs.alone, lambda run: run.changes),
        U_g=(turns - U_r / _GROUPS) / (1 - 1 / _GROUPS),
        U_r=U_r,
    )


class _Run(NamedTuple):
    """Two inputs alike; `apart` they share no join value."""

    tuples: int
    window: int
    values: int
    groups: int = 1
    apart: bool = False

    @property
    def inputs(self) -> list[Arrivals]:
        each = Arrivals(self.tuples // 2, self.window, self.groups, self.values)
        return [each, each._replace(first=self.values if self.apart else 0)]

    @property
    def changes(self) -> int:
        """Every tuple comes and goes."""
        return 2 * self.tuples

    def pairs(self) -> float:
        return self.changes * self.window / self.values


class _Runs(NamedTuple):
    """The runs that `join_costs` compares, two of each kind."""

    alone: list[_Run]
    compared: list[_Run]
    found: list[_Run]
    added: list[_Run]
    grouped: list[_Run]

    @classmethod
    def of(cls, tuples: int) -> _Runs:
        few = tuples // 5
        return cls(
            alone=[_Run(n, 1, _SPARSE, apart=True) for n in (few, tuples)],
            compared=[_Run(few, w, _SPARSE) for w in (400, 4_000)],
            found=[_Run(tuples, w, _SPARSE) for w in (2_000, 20_000)],
            added=[_Run(tuples, w, _DENSE) for w in (400, 4_000)],
            grouped=[_Run(tuples, w, _DENSE, groups=_GROUPS) for w in (400, 4_000)],
        )

    def plans(self, hashed: Physical, nested: Physical) -> list[tuple[str, Physical, list[_Run]]]:
        """Each method with its plan and the runs that it makes."""
        by_hash = [*self.alone, *self.found, *self.added, *self.grouped]
        return [(_HASH, hashed, by_hash), (_NESTED, nested, [*self.alone, *self.compared])]


def least(joins: Mapping[K, SteadyJoin], rounds: int, units: int = 1) -> dict[K, float]:
    """For each join the least time of several micro-batches. They take turns; the first turn does not count."""
    taken: dict[K, list[float]] = {key: [] for key in joins}
    for turn in range(rounds + 1):
        for key, join in joins.items():
            seconds = join.unit(units)
            if turn:
                taken[key].append(seconds)
    return {key: min(found) for key, found in taken.items()}
