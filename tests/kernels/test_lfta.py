"""The LFTA kernel equals its slow twin: evicted entries in order, counters, any forest, any cut."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.lfta_twin import COMBINE, Twin
from tests.properties.effort import effort
from tidemill.runtime.kernels.share.lfta import GREATEST, LEAST, RAW, SUM, Tables, TableSpec

FIRST, ALL = 3, 6  # codes and fragments that rows may have before and after the maps grow


@dataclass
class Case:
    """Batches of rows (fragment, code, group, parts); a True after a batch means a flush there."""

    specs: list[TableSpec]
    attributes: int
    int_kinds: list[int]
    float_kinds: list[int]
    fragments: list[list[int]]
    codes: list[list[int]]
    early: list[tuple[list[tuple], bool]]
    late: list[tuple[list[tuple], bool]]
    step: int
    room: int
    edge_rows: int

    def tables(self, **changed):
        sizes = {"step": self.step, "room": self.room, "edge_rows": self.edge_rows, **changed}
        return Tables(self.specs, self.attributes, self.int_kinds, self.float_kinds, **sizes)


@st.composite
def forests(draw, attributes):
    """Parents before children, attributes a shuffled subset of the parent's, every leaf emits."""
    specs: list[TableSpec] = []
    for r in range(draw(st.integers(1, 6))):
        parent = draw(st.integers(RAW, r - 1))
        held = tuple(range(attributes)) if parent == RAW else specs[parent].attributes
        chosen = draw(st.permutations(held))[: draw(st.integers(0, len(held)))]
        specs.append(TableSpec(parent, tuple(chosen), draw(st.sampled_from([1, 1, 2, 3, 7, 40])), draw(st.booleans())))
    feeding = {spec.parent for spec in specs}
    return [replace(spec, emits=spec.emits or r not in feeding) for r, spec in enumerate(specs)]


@st.composite
def batches(draw, attributes, ints, floats, known):
    """Rows that often repeat the row before, in a few batches. Floats are quarters: every order of adding is exact."""
    number = draw(st.sampled_from([st.integers(0, 1), st.integers(0, 9), st.integers(-(2**63), 2**63 - 1)]))
    quarter = st.integers(-9, 9).map(lambda q: q / 4)
    parts = st.tuples(*[st.integers(-5, 5)] * ints, *[quarter] * floats)
    code = st.integers(0, known - 1)
    row = st.tuples(code, code, st.tuples(*[number] * attributes), st.lists(parts, min_size=1, max_size=4))
    batch = st.lists(row, max_size=25).map(lambda rows: [(f, c, g, p) for f, c, g, repeats in rows for p in repeats])
    return draw(st.lists(st.tuples(batch, st.booleans()), max_size=3))


@st.composite
def cases(draw):
    attributes = draw(st.integers(0, 6))
    specs = draw(forests(attributes))
    kinds = st.lists(st.sampled_from([SUM, SUM, LEAST, GREATEST]), max_size=4)
    int_kinds, float_kinds = draw(kinds), draw(kinds)
    fragments, codes = (
        [draw(st.lists(st.integers(least, ALL - 1), min_size=ALL, max_size=ALL)) for _ in specs]
        for least in (draw(st.sampled_from([0, -1])), -1)
    )
    early, late = (draw(batches(attributes, len(int_kinds), len(float_kinds), known)) for known in (FIRST, ALL))
    step, room = draw(st.sampled_from([1, 3, 8, 2048])), draw(st.sampled_from([1, 10, 1 << 10]))
    edge_rows = draw(st.sampled_from([0, 1, 5, 30]))
    return Case(specs, attributes, int_kinds, float_kinds, fragments, codes, early, late, step, room, edge_rows)


def shorter(maps, specs):
    """What must be known of the maps while rows have only the FIRST codes."""
    kept: list[list[int]] = []
    for spec, numbers in zip(specs, maps, strict=True):
        kept.append(numbers[: FIRST if spec.parent == RAW else max(kept[spec.parent], default=-1) + 1])
    return kept


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


def run(case, tables, twin=None):
    """All entries that the kernel emitted for each relation; the twin gets the same rows and flushes."""
    taken: dict[int, list] = {r: [] for r, spec in enumerate(case.specs) if spec.emits}
    short = shorter(case.fragments, case.specs), shorter(case.codes, case.specs)
    for maps, stretch in ((short, case.early), ((case.fragments, case.codes), case.late), (None, [([], True)])):
        if maps:
            tables.map(*maps)
            if twin:
                twin.map(*maps)
        for batch, flushed in stretch:
            push(tables, case, batch)
            if flushed:
                tables.flush()
            if twin:
                for row in batch:
                    twin.push(*row)
                if flushed:
                    twin.flush()
        waiting = tables.pending
        for r, emitted in tables.take().items():
            taken[r] += entries(emitted)
            waiting -= len(emitted.codes)
        assert waiting == 0
    return taken


@effort(160)
@given(cases())
def test_kernel_equals_its_twin(case):
    tables = case.tables()
    twin = Twin(case.specs, case.int_kinds + case.float_kinds, tables.bucket, case.edge_rows)
    for r, found in run(case, tables, twin).items():
        assert found == twin.output[r], f"relation {r}"
    for name in ("probes", "collisions", "turnovers", "flushed"):
        assert getattr(tables.counters, name).tolist() == getattr(twin, name), name


@effort(60)
@given(cases(), st.integers(1, 9))
def test_cuts_do_not_show(case, size):
    """Any number of rows in a push, at a time and between drains: the same entries in the same order."""

    def cut(stretch):
        pieces = [
            (batch[i : i + size], flushed and i + size >= len(batch))
            for batch, flushed in stretch
            for i in range(0, max(len(batch), 1), size)
        ]
        return pieces

    pieces = replace(case, early=cut(case.early), late=cut(case.late))
    assert run(case, case.tables(step=2048, room=4096)) == run(pieces, case.tables(step=1, room=1))


def totals(kinds, weighted):
    """Parts of the entries of each (fragment, code, group) combined."""
    found: dict[tuple, list] = {}
    for fragment, code, group, parts in weighted:
        key = fragment, code, group
        pairs = zip(kinds, found.get(key, parts), parts, strict=True)
        found[key] = [COMBINE[k](a, b) for k, a, b in pairs] if key in found else list(parts)
    return found


@effort(60)
@given(cases())
def test_nothing_is_lost_or_doubled(case):
    """Combined over all its entries, a relation's output is what the rows say, whatever the buckets and the forest."""
    kinds = case.int_kinds + case.float_kinds
    rows = [row for batch, _ in case.early + case.late for row in batch]
    reaching = {RAW: rows}
    for r, spec in enumerate(case.specs):
        held = tuple(range(case.attributes)) if spec.parent == RAW else case.specs[spec.parent].attributes
        picks = [held.index(a) for a in spec.attributes]
        own = [
            (case.fragments[r][f], case.codes[r][c], tuple(g[k] for k in picks), parts)
            for f, c, g, parts in reaching[spec.parent]
        ]
        reaching[r] = [entry for entry in own if entry[0] >= 0 and entry[1] >= 0]
    for r, found in run(case, case.tables()).items():
        assert totals(kinds, found) == totals(kinds, reaching[r])


def one_table(buckets=1, **kinds):
    tables = Tables([TableSpec(RAW, (0,), buckets, True)], 1, **kinds)
    tables.map([[0, 1]], [[0, 1]])
    return tables


def test_long_input_equals_its_twin_across_many_batches():
    rng = np.random.default_rng(4)
    n, groups = 30_000, np.repeat(rng.integers(0, 60, 15_000), rng.geometric(0.4, 15_000))
    attrs = np.stack([groups[:n] % 9, groups[:n] // 9])
    codes, frags, lengths = rng.integers(0, 20, n) // 19, np.arange(n) // 9000, rng.integers(0, 1500, n)
    specs = [TableSpec(RAW, (1, 0), 50, False), TableSpec(0, (0,), 7, True), TableSpec(0, (1,), 3, True)]
    tables = Tables(specs, 2, [SUM, SUM, GREATEST])
    twin = Twin(specs, [SUM, SUM, GREATEST], tables.bucket)
    maps = [[0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 2, 3]], [[0, 1], [0, -1], [1, 0]]
    for tested in (tables, twin):
        tested.map(*maps)
    tables.push(attrs.astype(np.int32), codes, frags, [None, lengths, lengths])
    tables.flush()
    for i in range(n):
        twin.push(frags[i], codes[i], tuple(attrs[:, i].tolist()), [1, int(lengths[i]), int(lengths[i])])
    twin.flush()
    for r, emitted in tables.take().items():
        assert entries(emitted) == twin.output[r]
    assert tables.counters.collisions.tolist() == twin.collisions
    assert min(tables.counters.turnovers.tolist()[1:]) > 0 and tables.counters.turnovers[0] == 0


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint32, np.int64])
def test_columns_of_any_integer_type_mean_the_same(kind):
    tables = one_table(int_kinds=[SUM])
    values = np.array([0, 5, 5, 5, 5, 9, 0], kind)[1:6]
    tables.push([values], np.zeros(5, np.int64), [0] * 5, [values[::-1]])
    tables.flush()
    assert entries(tables.take()[0]) == [(0, 0, (5,), [9 + 5 + 5 + 5]), (0, 0, (9,), [5])]


def test_integer_sums_wrap():
    tables = one_table(int_kinds=[SUM])
    tables.push([[1, 1, 1]], [0] * 3, [0] * 3, [[2**63 - 1, 1, 1]])
    tables.push([[1]], [0], [0], [[2**63 - 1]])
    tables.flush()
    assert tables.take()[0].ints.tolist() == [[0]]


@pytest.mark.parametrize("values", [[1.0, math.nan, -1.0], [math.nan, 2.0, math.nan], [math.nan, math.nan]])
@pytest.mark.parametrize("at_once", [True, False])
def test_nan_is_the_greatest_float(values, at_once):
    tables = one_table(float_kinds=[LEAST, GREATEST, SUM])
    for start in range(0, len(values), len(values) if at_once else 1):
        part = values[start:] if at_once else values[start : start + 1]
        tables.push([[1] * len(part)], [0] * len(part), [0] * len(part), (), [part, part, part])
    tables.flush()
    least, greatest, total = tables.take()[0].floats[:, 0].tolist()
    numbers = [v for v in values if not math.isnan(v)]
    assert math.isnan(greatest) and math.isnan(total)
    assert least == min(numbers) if numbers else math.isnan(least)


def test_a_group_meets_its_own_entry_of_an_earlier_fragment():
    """A turnover, not a collision: the hash leaves the fragment out."""
    tables = one_table(buckets=1000, int_kinds=[SUM])
    tables.push([list(range(20)) * 2], [0] * 40, [0] * 20 + [1] * 20, [None])
    collisions = int(tables.counters.collisions[0])
    assert int(tables.counters.turnovers[0]) + collisions == tables.pending >= 20 - collisions
    assert collisions < 5


@pytest.mark.parametrize("buckets", [50, 400, 20_000])
def test_a_child_gets_the_entries_of_one_fragment_after_those_of_another(buckets):
    """Else the entries of two fragments would come in turns, and each would evict the one before."""
    rng = np.random.default_rng(buckets)
    n, fragments = 20_000, 10
    specs = [TableSpec(RAW, (0, 1), buckets, False), TableSpec(0, (0,), 100_000, True)]
    tables = Tables(specs, 2, [SUM])
    tables.map([list(range(fragments))] * 2, [[0], [0]])
    groups = rng.integers(0, 20, (2, n))
    tables.push(groups, [0] * n, np.arange(n) * fragments // n, [None])
    tables.flush()
    emitted = tables.take()[1]
    places = {tables.bucket(1, 0, (g,)) for g in range(20)}
    assert len(places) == 20, "no two groups share a bucket"
    assert len(emitted.codes) == 20 * fragments


@pytest.mark.parametrize("groups", ["dense", "strided", "high bits", "two attributes"])
def test_buckets_are_hit_evenly(groups):
    """As many buckets stay empty as with a random hash, b e^(-g/b) (paper 002, section 5), within four deviations."""
    b, g = 1000, 2000
    numbers = np.arange(g)
    first, second = {
        "dense": (numbers, 0 * numbers),
        "strided": (numbers * 4096, 0 * numbers),
        "high bits": (numbers << 48, 0 * numbers),
        "two attributes": (numbers % 40, numbers // 40),
    }[groups]
    tables = Tables([TableSpec(RAW, (0, 1), b, True)], 2)
    counts = Counter(tables.bucket(0, 3, pair) for pair in zip(first.tolist(), second.tolist(), strict=True))
    assert set(counts) <= set(range(b))
    q = math.exp(-g / b)
    assert abs(b - len(counts) - b * q) < 4 * math.sqrt(b * q * (1 - (1 + g / b) * q)) + 1


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ([TableSpec(0, (0,), 1, True)], "parent must come before"),
        ([TableSpec(RAW, (0, 2), 1, True)], "not all in its parent"),
        ([TableSpec(RAW, (0,), 1, False), TableSpec(0, (1,), 1, True)], "not all in its parent"),
        ([TableSpec(RAW, (0,), 0, True)], "buckets"),
        ([TableSpec(RAW, (0,), 1, False)], "leaf must emit"),
    ],
)
def test_impossible_forests_are_refused(specs, reason):
    with pytest.raises(ValueError, match=reason):
        Tables(specs, 2)


def test_numbers_without_a_place_in_the_maps_are_refused():
    tables = Tables([TableSpec(RAW, (), 1, False), TableSpec(0, (), 1, True)], 0)
    with pytest.raises(ValueError, match="before push"):
        tables.push([], [0], [0])
    with pytest.raises(ValueError, match="ends before 3"):
        tables.map([[0], [0]], [[3], [0, 0, 0]])
    tables.map([[0], [0]], [[0, 0], [0]])
    with pytest.raises(ValueError, match="never shrinks"):
        tables.map([[0], [0]], [[0], [0]])
    for code, frag in ((2, 0), (-1, 0), (0, 1), (0, -1)):
        with pytest.raises(ValueError, match="no place"):
            tables.push([], [code], [frag])
    with pytest.raises(ValueError, match="rows expected"):
        tables.push([], [0], [0, 0])


def test_columns_must_be_of_the_right_type_and_number():
    tables = Tables([TableSpec(RAW, (0,), 1, True)], 1, [SUM], [SUM])
    tables.map([[0]], [[0]])
    for attrs, ints, floats in (
        ([[0.5]], [None], [[1.0]]),
        ([[1]], [None], [None]),
        ([[1]], [[1, 2]], [[1.0]]),
        ([[1]], [], [[1.0]]),
        ([[1], [1]], [None], [[1.0]]),
    ):
        with pytest.raises(ValueError, match="expected"):
            tables.push(attrs, [0], [0], ints, floats)
