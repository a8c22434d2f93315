"""What the experiments of paper 002 share: windows of data, query sets, the statistics of the window before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from benchmarks.experiments.figures import Figure
from benchmarks.experiments.phantoms import data
from benchmarks.experiments.phantoms.data import GROUPS, Columns
from benchmarks.experiments.phantoms.tables import measured_flows
from benchmarks.report import Check, Table
from tidemill.optimize.share.phantoms.choose import Choice, gc
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation, relations
from tidemill.optimize.share.phantoms.epochs import Epochs
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.refinement import refined_allocation
from tidemill.optimize.share.phantoms.space import sl
from tidemill.optimize.share.phantoms.statistics import Statistics

SINGLES, PAIRS = relations("A B C D"), relations("AB BC BD CD")
LENGTHS = (2, 3, 5, 6)
MINUTE_UNIFORM, MINUTE_TRACE = 1_000_000.0, data.PACKETS / data.SECONDS * 60


def groups_of(relation: Relation) -> float:
    """The number of groups that every projection of our data has."""
    return GROUPS[len(relation.attributes)]


@dataclass
class Part:
    """What one family of experiments adds to the result."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def joined(*parts: Part) -> Part:
    """Several parts as one, in order."""
    return Part(
        [figure for part in parts for figure in part.figures],
        [table for part in parts for table in part.tables],
        [check for part in parts for check in part.checks],
    )


@dataclass(frozen=True)
class Workload:
    """A query set over a kind of data: statistics come from the window before, collisions from the present one.

    `groups` has the number of groups of the projections on one to four attributes.
    """

    name: str
    queries: tuple[Relation, ...]
    before: Columns
    now: Columns
    minute: float
    groups: Mapping[int, float] = field(default_factory=lambda: GROUPS)

    def model(self, memory: int, lengths: tuple[int, ...] | None = None, flowless: bool = False) -> Model:
        """The cost model with the group counts and flow lengths of the window before, or with l_a = 1.

        Flow lengths come from running the configuration that was best with the flow lengths known until then, twice.
        """
        statistics = Statistics(lambda relation: self.groups[len(relation.attributes)], tuples=self.minute)
        for _ in range(0 if flowless else 2):
            chosen = gc(self.queries, Model(statistics), memory)
            _, flows = measured_flows(chosen.configuration, chosen.table_sizes, self.groups, self.before)
            statistics = replace(statistics, flows=flows)
        if lengths is None:
            return Model(statistics)
        epochs = Epochs(dict(zip(self.queries, lengths, strict=True)))
        return Model(replace(statistics, tuples=self.minute * epochs.cycle), evictions=epochs)


@dataclass(frozen=True)
class Setting:
    """Sizes of a run and its data, made once."""

    quick: bool

    @property
    def memories(self) -> list[int]:
        return [40_000, 100_000] if self.quick else list(range(20_000, 100_001, 20_000))

    @property
    def ratios(self) -> list[float]:
        """φ of GP."""
        return [0.8, 1.4] if self.quick else [0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0, 2.4]

    @property
    def steps(self) -> int:
        """The granularity of exhaustive allocation: 1 % of M."""
        return 40 if self.quick else 100

    @property
    def draws(self) -> int:
        """Draws of uniform data, each with groups and so hash values of its own."""
        return 2 if self.quick else 6

    @property
    def few(self) -> int:
        """Draws of even uniform data."""
        return 1 if self.quick else 3

    def uniform_draw(self, draw: int, even: bool = False) -> Workload:
        """Uniform tuples over groups in the paper's numbers, or over groups that are even in every projection."""
        size = data.TUPLES // 10 if self.quick else data.TUPLES
        groups = (data.even_group_set if even else data.group_set)(2 + draw)
        before, now = (data.uniform(size, seed + 20 * draw, groups) for seed in (3, 13))
        name = "even uniform data" if even else "uniform data"
        return Workload(name, SINGLES, before, now, MINUTE_UNIFORM, data.counts(groups) if even else GROUPS)

    @cached_property
    def uniform(self) -> Workload:
        return self.uniform_draw(0)

    @cached_property
    def even(self) -> Workload:
        return self.uniform_draw(0, even=True)

    @cached_property
    def traces(self) -> tuple[data.Trace, data.Trace]:
        """The window before, and the present one: the same groups, new flows."""
        return data.trace(seed=4), data.trace(seed=14)

    @cached_property
    def trace(self) -> Workload:
        before, now = self.traces
        return Workload("packet trace", PAIRS, before.columns, now.columns, MINUTE_TRACE)


def gcsl_refined(asked: tuple[Relation, ...], model: Model, memory: int) -> Choice:
    """GCSL's configuration with refined table sizes: what the engine runs (`choose_configuration`)."""
    found = gc(asked, model, memory)
    return Choice.of(found.configuration, refined_allocation()(found.configuration, model, memory), model)


def no_phantom(asked: tuple[Relation, ...], model: Model, memory: int) -> Choice:
    """All memory for the queries alone, divided in the best way."""
    plain = Configuration.without_phantoms(asked)
    return Choice.of(plain, sl(plain, model, memory), model)


def one_bucket_a_group(asked: tuple[Relation, ...], model: Model) -> Choice:
    """Queries alone with as many buckets as groups, whatever the memory: a cost that does not depend on M."""
    plain = Configuration.without_phantoms(asked)
    return Choice.of(plain, [math.ceil(g) for g in model.groups(plain)], model)
