"""Shared fragments put together for each query: cells equal those of a slow twin, however rows are cut."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.physical import LftaQuery
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.share.intercede import Panes, Wanted, intercede, worthwhile
from tidemill.runtime.kernels.share.lfta import Emitted
from tidemill.runtime.kernels.share.sliding_folds import MAX, MIN, SUM
from tidemill.runtime.share.reader.intercede import Intercede, Interceded

KINDS = (SUM, MIN, MAX)
FOLDS = {SUM: sum, MIN: min, MAX: max}
STARTS = (-7, 0, 3, 4, 10, 15)


class Row(NamedTuple):
    """An evicted entry; `code` is the set of queries that want it, as a bit mask."""

    group: int
    fragment: int
    code: int
    part: int


windows = st.builds(Window, st.integers(1, 9), st.integers(0, 8), st.just(1), st.one_of(st.none(), st.integers(2, 20)))
rows = st.lists(
    st.builds(Row, st.integers(0, 2), st.integers(0, len(STARTS) - 1), st.integers(0, 7), st.integers(-20, 20)),
    min_size=1,
    max_size=30,
)


def plan(asked: list[Window]) -> Intercede:
    queries = [
        LftaQuery("", 64 * (q % 2) + q, -1, (), tuple((w.slide, p) for p in w.phases)) for q, w in enumerate(asked)
    ]
    found = Intercede.of(queries, [0, 1])
    assert found is not None
    return found


def signatures(bits: tuple[int, ...]) -> np.ndarray:
    """Of every code: queries 0, 1, 2 have their bit in the words 0, 1, 0."""
    table = np.zeros((8, 2), np.int64)
    for code in range(8):
        for q, bit in enumerate(bits):
            table[code, bit // 64] |= (code >> q & 1) << (bit % 64)
    return table


def entries(found: list[Row]) -> Emitted:
    part = np.array([r.part for r in found])
    return Emitted(
        np.array([r.fragment for r in found], np.int32),
        np.array([r.code for r in found], np.int32),
        np.array([[r.group for r in found]]),
        np.array([part] * 3),
        np.array([part / 4] * 3),
    )


def cells(found: Interceded) -> dict[tuple[int, int, int], tuple[float, ...]]:
    query, start = (column[found.pane].tolist() for column in found.panes)
    parts = zip(*found.ints.tolist(), *found.floats.tolist(), strict=True)
    made = list(zip(zip(found.attrs[0].tolist(), query, start, strict=True), parts, strict=True))
    assert len(dict(made)) == len(made)
    return dict(made)


def twin(found: list[Row], asked: list[Window]) -> dict[tuple[int, int, int], tuple[float, ...]]:
    """A cell for each group, query and last edge of the query at or before the fragment's start."""
    held = defaultdict(list)
    for row in found:
        for q, window in enumerate(asked):
            if row.code >> q & 1:
                start = max(STARTS[row.fragment] - (STARTS[row.fragment] - p) % window.slide for p in window.phases)
                held[row.group, q, start].append(row.part)
    return {cell: (*(FOLDS[k](v) for k in KINDS), *(FOLDS[k](v) / 4 for k in KINDS)) for cell, v in held.items()}  # type: ignore[operator]


@effort(60)
@given(found=rows, asked=st.lists(windows, min_size=3, max_size=3), cut=st.integers(0, 30))
def test_cells_equal_their_twin_however_rows_are_cut(found, asked, cut):
    by, known = plan(asked), np.array(STARTS)
    table, before = signatures(by.bits), None
    for part in (found[:cut], found[cut:]):
        if part:
            before = by.cells(entries(part), known, table, before, KINDS, KINDS, patience=1000)
    assert before is not None
    assert cells(before) == twin(found, asked)


def test_a_cell_has_the_bit_of_its_query():
    by = plan([Window(5, 0, 1, 6), Window(7, 0, 1, 8)])
    made = by.cells(entries([Row(0, 4, 3, 1)]), np.array(STARTS), signatures(by.bits), None, KINDS, KINDS, 1000)
    assert made is not None
    assert made.panes[1][made.pane].tolist() == [10, 7]
    assert by.words(made, 2).tolist() == [[1, 0], [0, 2]]


def test_more_cells_than_rows_are_not_made():
    panes = Panes.of(np.array([0, 10]), [(np.array([10]), np.array([0]))] * 3)
    assert not worthwhile(6, 1, panes) and worthwhile(7, 1, panes)
    assert worthwhile(4, 1, panes, patience=2)
    code = np.zeros(2, np.int32)
    wanted = Wanted.of(np.array([[7]]), [0, 1, 2])
    assert intercede([np.array([1, 1])], code, code, wanted, panes, [], [], [], []) is None


def test_a_users_aggregate_keeps_its_fragments():
    query = LftaQuery("", 0, -1, (), ((5, 0),), ("median",))
    assert Intercede.of([query], [0]) is None
