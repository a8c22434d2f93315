"""Tuples through real hash tables: the collision rates that a configuration actually meets (option 2, section 8.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.experiments.phantoms.data import ATTRIBUTES, Columns
from tidemill.optimize.share.phantoms.choose import Choice
from tidemill.optimize.share.phantoms.collisions import flow_length
from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.model import Model
from tidemill.runtime.kernels.share.lfta import RAW, Tables, TableSpec


def measured_rates(configuration: Configuration, buckets: Sequence[int], columns: Columns) -> list[float]:
    """Collisions for each probe of each relation, over one epoch without its end."""
    specs = [
        TableSpec(
            RAW if parent < 0 else parent, tuple(ATTRIBUTES.index(a) for a in sorted(relation.attributes)), count, emits
        )
        for relation, parent, count, emits in zip(
            configuration.relations, configuration.parents, buckets, configuration.emits, strict=True
        )
    ]
    tables = Tables(specs, attributes=len(columns))
    same = [np.zeros(1, dtype=np.int32)] * len(specs)
    tables.map(same, same)
    nothing = np.zeros(columns.shape[1], dtype=np.int32)
    tables.push(columns, nothing, nothing)
    counted = tables.counters
    return [float(c) / max(1, int(p)) for c, p in zip(counted.collisions, counted.probes, strict=True)]


def measured_cost(chosen: Choice, model: Model, columns: Columns) -> float:
    """The cost model with the rates that were met."""
    rates = measured_rates(chosen.configuration, chosen.table_sizes, columns)
    return model.cost_with(chosen.configuration, chosen.table_sizes, rates)


def measured_flows(
    configuration: Configuration, buckets: Sequence[int], groups: Mapping[int, float], columns: Columns
) -> tuple[list[float], tuple[float, ...]]:
    """l_m of each relation, and its average over the relations of each depth (section 5.3).

    Relations without a collision are left out; a depth without any takes the length of the depth above.
    """
    rates = measured_rates(configuration, buckets, columns)
    lengths = [
        flow_length(groups[len(r.attributes)], b, x)
        for r, b, x in zip(configuration.relations, buckets, rates, strict=True)
    ]
    averages = [1.0]
    for depth in range(1, max(configuration.depths) + 1):
        alike = [l for l, d in zip(lengths, configuration.depths, strict=True) if d == depth and np.isfinite(l)]
        averages.append(float(np.mean(alike)) if alike else averages[-1])
    return lengths, tuple(averages[1:])
