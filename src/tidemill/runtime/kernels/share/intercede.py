"""Fragments put together for each query by itself: the intercede aggregation of paper 003 with one query in a group.

Fragments that many queries share are cut at the edges of all of them and kept apart by signature. A query tells neither
apart: between two of its own edges, a *pane*, it needs one partial aggregate for each group. A *cell* is one (group,
query, pane).

    shared      ├─ a ─┼ b ┼── c ──┼─ d ─┼─ e ──┤     edges of all queries; a … e once for each signature
    query 1     ├────────────┤──────────────────     cells a⊕b, c⊕d⊕e
    query 2     ├────────────────────┤──────────     cells a⊕b⊕c, d⊕e

Law: the parts of a cell are ⊕ of the parts of the rows of its group that have the query's bit and start in the pane.
No edge of the query lies inside a pane, so a cell may stand for its rows in every window of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, njit, types

from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.edges import floor_edges
from tidemill.runtime.kernels.share.sliding_folds import MIN, SUM, add_rounded, ranks_of, unrank
from tidemill.runtime.kernels.share.sliding_rows import codes_of

_READ_INTS = types.Array(int64, 1, "C", readonly=True)
_READ_FLOATS = types.Array(float64, 1, "C", readonly=True)
_INTS = int64[::1]
_CODES = int32[::1]
_FLOATS = float64[::1]
at = np.uintp  # an unsigned index saves the test for a negative one

Edges = tuple[np.ndarray, np.ndarray]  # slides and phases of the classes of one query
Pairs = tuple[np.ndarray, np.ndarray]  # (query, start of its pane)


@dataclass(frozen=True)
class Panes:
    """The panes of some queries that hold given fragments; slot k is one (query, pane)."""

    query: np.ndarray  # of each slot, int64
    start: np.ndarray  # of each slot's pane
    slots: np.ndarray  # int32[fragments, queries]

    @classmethod
    def of(cls, starts: np.ndarray, edges: Sequence[Edges], known: Pairs | None = None) -> Panes:
        """Of fragments that begin at `starts`, and of panes that are `known`: those follow the fragments in `slots`.

        >>> panes = Panes.of(np.array([0, 4, 10]), [(np.array([10]), np.array([0])), (np.array([4]), np.array([0]))])
        >>> panes.query.tolist(), panes.start.tolist(), panes.slots.tolist()
        ([0, 0, 1, 1, 1], [0, 10, 0, 4, 8], [[0, 2], [0, 3], [1, 4]])
        """
        queries, panes = known or (np.empty(0, np.int64), np.empty(0, np.int64))
        query: list[np.ndarray] = []
        found: list[np.ndarray] = []
        slots, first = np.zeros((len(starts) + len(panes), len(edges)), np.int32), 0
        floors = np.empty_like(starts)
        for q, (slides, phases) in enumerate(edges):
            floor_edges(starts, slides, phases, floors)
            mine = np.flatnonzero(queries == q)
            distinct = np.unique(np.concatenate([floors, panes[mine]]))
            slots[: len(starts), q] = first + np.searchsorted(distinct, floors)
            slots[len(starts) + mine, q] = first + np.searchsorted(distinct, panes[mine])
            query.append(np.full(len(distinct), q, np.int64))
            found.append(distinct)
            first += len(distinct)
        return cls(np.concatenate(query), np.concatenate(found), slots)

    def known_slots(self, fragments: int, pane: np.ndarray, query: np.ndarray) -> np.ndarray:
        """The slots of panes that were known, with their queries; they follow the fragments."""
        return self.slots[fragments + np.arange(len(query)), query][pane]


@dataclass(frozen=True)
class Cells:
    """One entry for each cell with rows, by (group, slot). `ints` and `floats` have a row for each part."""

    first: np.ndarray  # a row of the cell's group
    slot: np.ndarray
    ints: np.ndarray
    floats: np.ndarray


@dataclass(frozen=True)
class Wanted:
    """Which queries want the rows of which code: those of code c are queries[bounds[c]:bounds[c + 1]]."""

    bounds: np.ndarray
    queries: np.ndarray

    @classmethod
    def of(cls, signatures: np.ndarray, bits: Sequence[int]) -> Wanted:
        """From signatures, int64[codes, words]; query q has bit bits[q] of the words, counted through.

        >>> wanted = Wanted.of(np.array([[0b101], [0b010]]), [0, 1, 2])
        >>> wanted.bounds.tolist(), wanted.queries.tolist()
        ([0, 2, 3], [0, 2, 1])
        """
        has = Wanted.table(signatures, bits)
        bounds = np.concatenate(([0], np.cumsum(has.sum(axis=1))))
        return cls(bounds.astype(np.int64), np.nonzero(has)[1].astype(np.int32))

    @staticmethod
    def table(signatures: np.ndarray, bits: Sequence[int]) -> np.ndarray:
        """The same as truth values, bool[codes, queries]."""
        words = signatures.view(np.uint64)
        return np.stack([words[:, b // 64] >> np.uint64(b % 64) & np.uint64(1) for b in bits], axis=1).astype(bool)

    def and_each(self, queries: int) -> Wanted:
        """With one more code for each query, whose rows it alone wants."""
        more = np.arange(queries)
        return Wanted(
            np.concatenate([self.bounds, self.bounds[-1] + 1 + more]),
            np.concatenate([self.queries, more.astype(np.int32)]),
        )


def worthwhile(rows: int, groups: int, panes: Panes, patience: int = 1) -> bool:
    """True when there are fewer cells than `patience` times the rows, even if every group has rows in every pane.

    Cells take in later rows as well: the more rows are to come, the greater `patience` may be.
    """
    return groups * len(panes.start) < patience * rows


def fewer(cells: int, rows: int, patience: int) -> bool:
    """The same when the cells are known."""
    return cells < patience * rows


def intercede(
    group: Sequence[np.ndarray],
    fragment: np.ndarray,
    code: np.ndarray,
    wanted: Wanted,
    panes: Panes,
    ints: Sequence[np.ndarray],
    int_kinds: Sequence[int],
    floats: Sequence[np.ndarray],
    float_kinds: Sequence[int],
    patience: int = 1,
) -> Cells | None:
    """The cells of rows (group attributes, fragment number, code of the signature, parts); None if it is not worth it.

    O(rows · (1 + parts · queries that want a row) + groups · slots).
    """
    groups, firsts = codes_of(group) if group else (np.zeros(len(code), np.int32), np.zeros(min(1, len(code)), int))
    if not worthwhile(len(code), len(firsts), panes, patience):
        return None
    count = len(panes.start)
    where = (groups, fragment, code, wanted.bounds, wanted.queries, panes.slots, count)
    seen = np.zeros(len(firsts) * count, np.bool_)
    sums = [i for i, kind in enumerate(int_kinds) if kind == SUM]
    values, totals = np.empty((len(code), len(sums)), np.int64), np.zeros((len(seen), len(sums)), np.int64)
    for place, i in enumerate(sums):
        values[:, place] = ints[i]
    _add(values, totals, seen, *where)
    cells = np.flatnonzero(seen)
    out_ints = np.empty((len(ints), len(cells)), np.int64)
    out_floats = np.empty((len(floats), len(cells)), np.float64)
    out_ints[sums] = totals[cells].T
    for i, kind in enumerate(int_kinds):
        if kind != SUM:
            out_ints[i] = _extremes(ints[i], kind, where, len(seen))[cells]
    for i, kind in enumerate(float_kinds):
        out_floats[i] = _float_part(floats[i], kind, where, len(seen))[cells]
    return Cells(firsts[cells // count], (cells % count).astype(np.int32), out_ints, out_floats)


def _extremes(values: np.ndarray, kind: int, where: tuple[Any, ...], cells: int) -> np.ndarray:
    facts = np.iinfo(np.int64)
    out = np.full(cells, facts.max if kind == MIN else facts.min)
    _extreme(values, kind == MIN, out, *where)
    return out


def _float_part(values: np.ndarray, kind: int, where: tuple[Any, ...], cells: int) -> np.ndarray:
    if kind == SUM:
        out, lost = np.zeros(cells), np.zeros(cells)
        _add_floats(values, out, lost, *where)
        return out + lost
    ranks = _extremes(ranks_of(values.view(np.int64)), kind, where, cells)
    unrank(ranks)
    return ranks.view(np.float64)


_WHERE = (_CODES, _CODES, _CODES, _INTS, _CODES, int32[:, ::1], int64)


def _add_loop(fixed: int):
    """The addition of `fixed` sums (-1: any number). A known number makes it twice as fast."""

    @njit(nogil=True)
    def add(values, out, seen, group, fragment, code, bounds, queries, slots, count):
        sums = values.shape[1] if fixed < 0 else fixed
        for i in range(code.shape[0]):
            base, own = at(group[i]) * at(count), at(fragment[i])
            for k in range(bounds[at(code[i])], bounds[at(code[i] + 1)]):
                cell = base + at(slots[own, at(queries[at(k)])])
                seen[cell] = True
                for p in range(sums):
                    out[cell, at(p)] += values[at(i), at(p)]

    return add


_add_any, _add_1, _add_2, _add_3, _add_4 = (_add_loop(fixed) for fixed in (-1, 1, 2, 3, 4))


@compiled(types.void(int64[:, ::1], int64[:, ::1], boolean[::1], *_WHERE))
def _add(values, out, seen, group, fragment, code, bounds, queries, slots, count):
    """out[cell, p] = Σ values[i, p] of its rows modulo 2^64, and seen[cell], for all sums at once."""
    sums = values.shape[1]
    if sums == 1:
        _add_1(values, out, seen, group, fragment, code, bounds, queries, slots, count)
    elif sums == 2:
        _add_2(values, out, seen, group, fragment, code, bounds, queries, slots, count)
    elif sums == 3:
        _add_3(values, out, seen, group, fragment, code, bounds, queries, slots, count)
    elif sums == 4:
        _add_4(values, out, seen, group, fragment, code, bounds, queries, slots, count)
    else:
        _add_any(values, out, seen, group, fragment, code, bounds, queries, slots, count)


@compiled(types.void(_READ_INTS, boolean, _INTS, *_WHERE))
def _extreme(values, least, out, group, fragment, code, bounds, queries, slots, count):
    """out[cell] = least (or greatest) of out[cell] and its rows' values."""
    for i in range(code.shape[0]):
        base, own, value = np.int64(group[i]) * count, slots[fragment[i]], values[i]
        for k in range(bounds[code[i]], bounds[code[i] + 1]):
            cell = base + own[queries[k]]
            out[cell] = min(out[cell], value) if least else max(out[cell], value)


@compiled(types.void(_READ_FLOATS, _FLOATS, _FLOATS, *_WHERE))
def _add_floats(values, out, lost, group, fragment, code, bounds, queries, slots, count):
    """out[cell] + lost[cell] = Σ of its rows' values, with the rounding errors carried along."""
    for i in range(code.shape[0]):
        base, own, value = np.int64(group[i]) * count, slots[fragment[i]], values[i]
        for k in range(bounds[code[i]], bounds[code[i] + 1]):
            cell = base + own[queries[k]]
            out[cell], lost[cell] = add_rounded(out[cell], lost[cell], value)
