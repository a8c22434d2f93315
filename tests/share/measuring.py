"""Plans of shared windows driven by real rows: what the reader's tables count under a plan, and under every other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tests.properties.streams import Stream
from tests.properties.trial import database
from tidemill.optimize.share.costs import measured_cost, plan_costs
from tidemill.optimize.share.measure import reason_to_change, update_statistics
from tidemill.optimize.share.phantoms.choose import Choice
from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.enumeration import all_configurations
from tidemill.optimize.share.reader_plan import (
    ReaderPlan,
    Settings,
    _build_tree,
    _group_leaves,
    model_for,
    plan_reader,
    shares_of,
)
from tidemill.optimize.share.stored_statistics import WindowStatistics
from tidemill.optimize.share.weave import weave
from tidemill.optimize.share.window_queries import WindowQuery
from tidemill.plan.measured.windows import SourceCounts
from tidemill.plan.physical import Lfta as Tables
from tidemill.plan.sources import Column
from tidemill.runtime.share.reader.lfta import Lfta
from tidemill.runtime.share.sketches import merge_counts

SECOND = 1_000_000
COLUMNS = tuple(Column(name, "INTEGER") for name in ("a", "b", "c", "d", "e", "tm"))
SOURCE = "ASource"


def asked(texts: Sequence[str]) -> tuple[WindowQuery, ...]:
    """Window aggregates over A(a, b, c, d, e) as the engine plans them."""
    row = dict.fromkeys((c.name for c in COLUMNS), 1)
    with database([Stream("A", COLUMNS, (row, {**row, "tm": 2}), format="parquet")], shards=1, cores=1) as db:
        for i, text in enumerate(texts):
            db.execute(f"CREATE VIEW q{i} AS {text}")
        db.run()
        return db.workload.sharing.settings.reader_plans[SOURCE].queries


@dataclass
class Rows:
    """Columns of A and the times of its rows, in microseconds."""

    columns: dict[str, np.ndarray]
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    def cut(self, low: int, high: int) -> Rows:
        return Rows({n: c[low:high] for n, c in self.columns.items()}, self.times[low:high])

    @property
    def table(self) -> pa.Table:
        return pa.table(
            {n: pa.array(self.columns[n].astype(np.int32)) for n in ("a", "b", "c", "d", "e")}
            | {"tm": pa.array((self.times // SECOND).astype(np.int32))}
        )


@dataclass
class Driven:
    """The planning loop of the engine over the tables of its readers, without anything else."""

    queries: tuple[WindowQuery, ...]
    settings: Settings
    readers: int = 2
    parts: int = field(init=False)
    changes: int = 0

    def __post_init__(self) -> None:
        self.parts = len({p.name for q in self.queries for p in q.parts})
        self.plan = plan_reader(SOURCE, self.queries, self.parts, self.settings)

    @property
    def measured(self) -> WindowStatistics:
        return self.settings.statistics.get(SOURCE, {})

    def batch(self, rows: Rows) -> tuple[float, float]:
        """Run a batch and learn from it: (cost as counted, cost that the model says of it with these statistics)."""
        op = self.operator(self.plan)
        note = self.counted(op, rows)
        self.settings.statistics[SOURCE] = update_statistics(op, note, self.measured)
        found = plan_costs(self.plan, self.measured, self.settings)
        if reason_to_change(SOURCE, self.plan, self.settings) is not None:
            self.plan, self.changes = plan_reader(SOURCE, self.queries, self.parts, self.settings), self.changes + 1
        assert found.met is not None
        return found.met, found.tables

    def operator(self, plan: ReaderPlan) -> Tables:
        """The reader's operator of a plan."""
        held = replace(self.settings, pinned=True, reader_plans={SOURCE: plan}, stored_plans={})
        return weave(SOURCE, COLUMNS, self.queries, {}, held).lfta

    def counted(self, op: Tables, rows: Rows) -> SourceCounts:
        """What the readers count in a batch, each in its share."""
        counts = []
        bounds = np.linspace(0, len(rows), self.readers + 1).astype(int)
        for low, high in pairwise(bounds):
            lfta, share = Lfta(op), rows.cut(low, high)
            for _ in lfta.push(share.table, share.times):
                pass
            for _ in lfta.finish():
                pass
            counts.append(lfta.counts())
        return merge_counts(counts)

    def cost(self, plan: ReaderPlan, rows: Rows) -> float:
        """Of one batch under a plan, as counted."""
        op = self.operator(plan)
        found = measured_cost(plan, update_statistics(op, self.counted(op, rows), {}), self.settings.constants)
        assert found is not None
        return found

    def planned_anew(self) -> ReaderPlan:
        """The plan that a search finds now."""
        fresh = replace(self.settings, reader_plans={}, stored_plans={}, searches={})
        return plan_reader(SOURCE, self.queries, self.parts, fresh)

    def said(self, plan: ReaderPlan) -> float:
        """What the model says that the tables of a plan cost for each row."""
        model = model_for(plan, shares_of(plan, self.measured), self.settings)
        return model.cost(plan.chosen.configuration, [node.buckets for node in plan.tree])

    def alternatives(self, plan: ReaderPlan | None = None, most: int | None = None) -> Iterator[tuple[str, ReaderPlan]]:
        """Every configuration of the plan's leaves, or about `most` of them, with sizes by the settings' method."""
        base = plan or self.plan
        leaves = _group_leaves(base.queries, base.groups)
        model = model_for(base, shares_of(base, self.measured), self.settings)
        found = all_configurations(list(leaves))
        for configuration in found[:: 1 if most is None else max(1, len(found) // most)]:
            yield str(configuration), self._with(base, configuration, leaves, model)

    def _with(self, base: ReaderPlan, configuration: Configuration, leaves: Any, model: Any) -> ReaderPlan:
        sizes = self.settings.method.divide(configuration, model, self.settings.memory)
        chosen = Choice.of(configuration, sizes, model)
        return replace(base, chosen=chosen, tree=_build_tree(chosen, leaves))

    def unshared(self) -> ReaderPlan:
        """The plan without phantoms."""
        plain = replace(self.settings, phantoms=False, reader_plans={}, stored_plans={})
        return plan_reader(SOURCE, self.queries, self.parts, plain)
