"""Cells from the entries of a finer relation: the kernel against counting, and kinds that change nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.kernels.share.intercede_finer import Classes, Entries, add_entries

GROUPS, FRAGMENTS, CODES, QUERIES = 5, 6, 7, 9


@st.composite
def problems(draw):
    """Entries, maps to coarser groups and fragments, who wants which code, and a partition of the queries."""
    number = st.integers(0, 2**32)
    chance = np.random.default_rng(draw(number))
    size, parts = draw(st.integers(0, 60)), draw(st.integers(1, 5))
    entries = Entries(
        chance.integers(0, GROUPS, size).astype(np.int32),
        chance.integers(0, FRAGMENTS, size).astype(np.int32),
        chance.integers(0, CODES, size).astype(np.int32),
        chance.integers(-(2**63), 2**63 - 1, (size, parts)),
    )
    has = chance.random((CODES, QUERIES)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    kind = chance.integers(0, draw(st.integers(1, QUERIES)), QUERIES)
    kinds = [np.flatnonzero(kind == k) for k in np.unique(kind)]
    maps = chance.integers(0, 3, GROUPS).astype(np.int32), chance.integers(0, 3, FRAGMENTS).astype(np.int32)
    slots = chance.integers(0, 4, (3, QUERIES)).astype(np.int32)
    return entries, has, kinds, maps, slots


def counted(entries, has, maps, slots, totals, seen):
    """The slow twin: every entry to every query that wants it."""
    for group, fragment, code, sums in zip(entries.group, entries.fragment, entries.code, entries.sums, strict=True):
        for query in np.flatnonzero(has[code]):
            cell = 4 * maps[0][group] + slots[maps[1][fragment], query]
            seen[cell] = True
            with np.errstate(over="ignore"):
                totals[cell] += sums


@effort(100)
@given(problem=problems())
def test_cells_of_finer_entries_equal_counting(problem):
    entries, has, kinds, maps, slots = problem
    found, expected = ((np.ones((12, entries.sums.shape[1]), np.int64), np.zeros(12, bool)) for _ in range(2))
    classes = Classes.among(has, kinds)
    add_entries(entries, *maps, classes, slots, 3, *found)  # type: ignore[call-arg]
    counted(entries, has, maps, slots, *expected)
    assert (found[0] == expected[0]).all() and (found[1] == expected[1]).all()


@effort(50)
@given(problem=problems())
def test_a_class_is_what_the_queries_of_its_kind_tell_apart(problem):
    _, has, kinds, _, _ = problem
    classes = Classes.among(has, kinds)
    for k, kind in enumerate(kinds):
        for code in range(CODES):
            c = classes.of[code, k]
            wanting = set(classes.queries[classes.bounds[c] : classes.bounds[c + 1]].tolist()) if c >= 0 else set()
            assert wanting == {int(q) for q in kind if has[code, q]}
        known = classes.of[classes.of[:, k] >= 0, k]
        assert len(set(known.tolist())) == len({tuple(has[i, kind]) for i in range(CODES) if has[i, kind].any()})
