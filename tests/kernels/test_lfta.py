"""The LFTA kernel equals its slow twin: evicted entries in order, counters, any tree, any cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.lfta_twin import Twin
from tests.properties.effort import effort
from tidemill.runtime.kernels.lfta import GREATEST, LEAST, RAW, SUM, Tables, TableSpec

BIG = 2**63 - 1


@dataclass
class Case:
    specs: list[TableSpec]
    attributes: int
    int_kinds: list[int]
    float_kinds: list[int]
    maps: list[tuple[list[list[int]], list[list[int]]]]  # one for each stretch of actions; each only adds to the last
    actions: list[list[list[tuple]]]  # stretches of batches of rows; a flush after each stretch
    step: int
    room: int


@st.composite
def forests(draw, attributes):
    """Parents before children, attributes a shuffled subset of the parent's, every leaf emits."""
    specs: list[TableSpec] = []
    for r in range(draw(st.integers(1, 6))):
        parent = draw(st.integers(RAW, r - 1))
        held = tuple(range(attributes)) if parent == RAW else specs[parent].attributes
        chosen = draw(st.permutations(held))[: draw(st.integers(0, len(held)))]
        specs.append(TableSpec(parent, tuple(chosen), draw(st.sampled_from([1, 1, 2, 3, 7, 40])), draw(st.booleans())))
    feeds = {spec.parent for spec in specs}
    return [replace(spec, emits=spec.emits or r not in feeds) for r, spec in enumerate(specs)]


@st.composite
def growing_maps(draw, parents, rows, stretches, least):
    """For each stretch a map for each relation; a later map continues the one before."""
    sizes, grown = [rows], []
    for parent in parents:
        longest = sizes[parent + 1]
        grown.append(draw(st.lists(st.integers(least, 4), min_size=longest, max_size=longest)))
        sizes.append(5)
    return grown


@st.composite
def cases(draw):
    attributes = draw(st.integers(0, 4))
    specs = draw(forests(attributes))
    kinds = st.lists(st.sampled_from([SUM, SUM, LEAST, GREATEST]), max_size=3)
    int_kinds, float_kinds = draw(kinds), draw(kinds)
    parents = [spec.parent for spec in specs]
    fragments, codes = (draw(growing_maps(parents, 6, 2, least)) for least in (draw(st.sampled_from([0, -1])), -1))
    # Quarters add exactly, so that the order of additions does not show.
    values = st.tuples(*[st.integers(-5, 5)] * len(int_kinds), *[st.integers(-9, 9).map(lambda q: q / 4)] * len(float_kinds))
    number = draw(st.sampled_from([st.integers(0, 2), st.integers(0, 9), st.integers(-BIG - 1, BIG)]))
    row = st.tuples(st.integers(0, 5), st.integers(0, 5), st.tuples(*[number] * attributes), values, st.integers(1, 3))
    batch = st.lists(row, max_size=30).map(lambda rows: [r[:4] for r in rows for _ in range(r[4])])
    actions = draw(st.lists(st.lists(batch, max_size=3), min_size=1, max_size=3))
    return Case(specs, attributes, int_kinds, float_kinds, [(fragments, codes)], actions,
                draw(st.sampled_from([1, 3, 8, 2048])), draw(st.sampled_from([1, 10, 1 << 10])))


def tables_of(case):
    return Tables(case.specs, case.attributes, case.int_kinds, case.float_kinds, case.step, case.room)


def push(tables, case, batch):
    """One call of the kernel with the rows of a batch."""
    n = len(case.int_kinds)
    attrs = np.array([row[2] for row in batch], np.int64).reshape(len(batch), case.attributes).T
    ints = np.array([row[3][:n] for row in batch], np.int64).reshape(len(batch), n).T
    floats = np.array([row[3][n:] for row in batch], float).reshape(len(batch), len(case.float_kinds)).T
    tables.push(attrs, [row[1] for row in batch], [row[0] for row in batch], ints, floats)


def entries(emitted):
    """Emitted columns as the twin's entries."""
    parts = [[*ints, *floats] for ints, floats in zip(emitted.ints.T.tolist(), emitted.floats.T.tolist(), strict=True)]
    groups = map(tuple, emitted.attrs.T.tolist())
    return list(zip(emitted.fragments.tolist(), emitted.codes.tolist(), groups, parts, strict=True))


def run(case):
    """Kernel and twin after the same actions; the kernel's output so far is taken after each stretch."""
    tables = tables_of(case)
    twin = Twin(case.specs, case.int_kinds + case.float_kinds, tables.bucket)
    taken = {r: [] for r, spec in enumerate(case.specs) if spec.emits}
    tables.map(*case.maps[0])
    twin.map(*case.maps[0])
    for stretch in case.actions:
        for batch in stretch:
            push(tables, case, batch)
            for fragment, code, group, parts in batch:
                twin.push(fragment, code, group, list(parts))
        tables.flush()
        twin.flush()
        for r, emitted in tables.take().items():
            taken[r] += entries(emitted)
    return tables, twin, taken


@effort(300)
@given(cases())
def test_kernel_equals_its_twin(case):
    tables, twin, taken = run(case)
    for r, found in taken.items():
        assert found == twin.output[r], f"relation {r}"
    for name in ("probes", "collisions", "turnovers", "flushed"):
        assert getattr(tables.counters, name).tolist() == getattr(twin, name), name
