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
from tidemill.optimize.share.asked import Asked
from tidemill.optimize.share.costs import costs, met_cost
from tidemill.optimize.share.measure import reason_to_change, statistics
from tidemill.optimize.share.phantoms.choose import Chosen
from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.enumeration import every_configuration
from tidemill.optimize.share.shape import Settings, Shape, _leaves, _tree, model_for, shape_of, shares_of
from tidemill.optimize.share.weave import weave
from tidemill.plan.physical import Op
from tidemill.plan.sources import Column
from tidemill.runtime.lfta import Lfta
from tidemill.runtime.sketches import merged

SECOND = 1_000_000
COLUMNS = tuple(Column(name, "INTEGER") for name in ("a", "b", "c", "d", "e", "tm"))
SOURCE = "ASource"


def asked(texts: Sequence[str]) -> tuple[Asked, ...]:
    """Window aggregates over A(a, b, c, d, e) as the engine plans them."""
    row = dict.fromkeys((c.name for c in COLUMNS), 1)
    with database([Stream("A", COLUMNS, (row, {**row, "tm": 2}), format="parquet")], shards=1, cores=1) as db:
        for i, text in enumerate(texts):
            db.execute(f"CREATE VIEW q{i} AS {text}")
        db.run()
        return db.workload.sharing.settings.shapes[SOURCE].queries


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
        return pa.table({n: pa.array(self.columns[n].astype(np.int32)) for n in ("a", "b", "c", "d", "e")}
                        | {"tm": pa.array((self.times // SECOND).astype(np.int32))})


@dataclass
class Driven:
    """The planning loop of the engine over the tables of its readers, without anything else."""

    queries: tuple[Asked, ...]
    settings: Settings
    readers: int = 2
    parts: int = field(init=False)
    changes: int = 0

    def __post_init__(self) -> None:
        self.parts = len({p.name for q in self.queries for p in q.parts})
        self.shape = shape_of(SOURCE, self.queries, self.parts, self.settings)

    @property
    def measured(self) -> dict[str, Any]:
        return self.settings.statistics.get(SOURCE, {})

    def batch(self, rows: Rows) -> tuple[float, float]:
        """Run a batch and learn from it: (cost as counted, cost that the model says of it with these statistics)."""
        op = self.operator(self.shape)
        note = self.counted(op, rows)
        self.settings.statistics[SOURCE] = statistics(op.params, note, self.measured)
        found = costs(self.shape, self.measured, self.settings)
        if reason_to_change(SOURCE, self.shape, self.settings) is not None:
            self.shape, self.changes = shape_of(SOURCE, self.queries, self.parts, self.settings), self.changes + 1
        assert found.met is not None
        return found.met, found.tables

    def operator(self, shape: Shape) -> Op:
        """The reader's operator of a plan."""
        held = replace(self.settings, pinned=True, shapes={SOURCE: shape}, kept={})
        return weave(SOURCE, COLUMNS, self.queries, {}, held).lfta

    def counted(self, op: Op, rows: Rows) -> dict[str, Any]:
        """What the readers count in a batch, each in its share."""
        notes = []
        bounds = np.linspace(0, len(rows), self.readers + 1).astype(int)
        for low, high in pairwise(bounds):
            lfta, share = Lfta(op), rows.cut(low, high)
            for _ in lfta.push(share.table, share.times):
                pass
            for _ in lfta.finish():
                pass
            notes.append(lfta.note())
        return merged(notes)

    def cost(self, shape: Shape, rows: Rows) -> float:
        """Of one batch under a plan, as counted."""
        op = self.operator(shape)
        found = met_cost(shape, statistics(op.params, self.counted(op, rows), {}), self.settings.constants)
        assert found is not None
        return found

    def alternatives(self, shape: Shape | None = None) -> Iterator[tuple[str, Shape]]:
        """Every configuration of the plan's leaves, with sizes by the settings' method."""
        base = shape or self.shape
        leaves = _leaves(base.queries, base.groups)
        model = model_for(base, shares_of(base, self.measured), self.settings)
        for configuration in every_configuration(list(leaves)):
            yield str(configuration), self._with(base, configuration, leaves, model)

    def _with(self, base: Shape, configuration: Configuration, leaves: Any, model: Any) -> Shape:
        sizes = self.settings.method.divided(configuration, model, self.settings.memory)
        chosen = Chosen.of(configuration, sizes, model)
        return replace(base, chosen=chosen, tree=_tree(chosen, leaves))

    def unshared(self) -> Shape:
        """The plan without phantoms."""
        plain = replace(self.settings, phantoms=False, shapes={}, kept={})
        return shape_of(SOURCE, self.queries, self.parts, plain)
