"""Cells of many queries straight from the entries of a finer relation, without a table or fragments in between.

An entry of a fine relation lies in one group and in one fragment of every coarser one. Of its signature the queries of
the coarser relation look at little: queries are put into *kinds* (those whose predicates read the same columns), and
two codes are of one *class* of a kind when the same queries of the kind want them.

    entries    ──►  sums by (fragment, group, class), one for each kind  ──►  cells of the queries that want the class

An entry is added once for each kind, a sum once for each query that wants it. Sums are far fewer than entries: they
know neither the finer group nor the finer fragment, and a class of one kind nothing of the others.

Law: the same cells as `kernels.share.intercede` makes of the entries, whatever the kinds are; addition is modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import boolean, int32, int64, njit, types

from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.sliding_rows import codes_of

_CODES = int32[::1]
_INTS = int64[::1]
_ROWS = int64[:, ::1]
at = np.uintp  # an unsigned index saves the test for a negative one


@dataclass(frozen=True)
class Classes:
    """What the kinds of some queries tell apart: `of[code, kind]` is a class or -1 for rows that none of the kind
    wants; the queries that want class c are queries[bounds[c]:bounds[c + 1]]. Classes are numbered through all kinds.
    """

    of: np.ndarray
    bounds: np.ndarray
    queries: np.ndarray

    @classmethod
    def among(cls, has: np.ndarray, kinds: Sequence[np.ndarray]) -> Classes:
        """From has[code, query], and the queries of each kind.

        >>> has = np.array([[True, True, False], [True, False, False], [False, True, False]])
        >>> found = Classes.among(has, [np.array([0, 2]), np.array([1])])
        >>> found.of.tolist(), found.bounds.tolist(), found.queries.tolist()
        ([[0, 1], [0, -1], [-1, 1]], [0, 1, 2], [0, 1])
        """
        of = np.full((len(has), len(kinds)), -1, np.int32)
        bounds, queries, first = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], 0
        for k, kind in enumerate(kinds):
            mine = has[:, kind]
            wanted = np.flatnonzero(mine.any(axis=1))
            if not len(wanted):
                continue
            codes, heads = codes_of(_words(mine[wanted]))
            of[wanted, k] = first + codes
            members = mine[wanted[heads]]
            bounds.append(bounds[-1][-1] + np.cumsum(members.sum(axis=1)))
            queries.append(kind[np.nonzero(members)[1]].astype(np.int32))
            first += len(heads)
        return cls(of, np.concatenate(bounds), np.concatenate(queries))

    def __len__(self) -> int:
        return len(self.bounds) - 1


def _words(has: np.ndarray) -> list[np.ndarray]:
    """The rows of a table of truth values as columns of words."""
    packed = np.packbits(has, axis=1)
    wide = np.zeros((len(has), -(-packed.shape[1] // 8) * 8), np.uint8)
    wide[:, : packed.shape[1]] = packed
    return [np.ascontiguousarray(column) for column in wide.view(np.int64).T]


class Entries(NamedTuple):
    """Entries of a fine relation in the order of their times: numbers of their groups and fragments, codes, sums. Any
    order is right; in this one the sums of a fragment are complete when the next one begins.
    """

    group: np.ndarray  # int32
    fragment: np.ndarray  # int32
    code: np.ndarray  # int32
    sums: np.ndarray  # int64[entries, parts]


class _Wanted(NamedTuple):
    """`Classes` for the loops."""

    of: np.ndarray
    bounds: np.ndarray
    queries: np.ndarray


class _Room(NamedTuple):
    """The sums of one fragment by (group, class), where there are some; the groups that were met, and marks at them."""

    sums: np.ndarray
    filled: np.ndarray
    met: np.ndarray
    marked: np.ndarray


class _Cells(NamedTuple):
    """slots[fragment, query] is a place among the `width` of a group; sums of all cells, and which have rows."""

    slots: np.ndarray
    width: int
    totals: np.ndarray
    seen: np.ndarray


def add_entries(
    entries: Entries,
    group_of: np.ndarray,
    fragment_of: np.ndarray,
    classes: Classes,
    slots: np.ndarray,
    groups: int,
    totals: np.ndarray,
    seen: np.ndarray,
) -> None:
    """totals[group · slots + slot] += the sums of every entry that the slot's query wants; `seen` where there are some.

    `group_of` and `fragment_of` map the entries' numbers to those of the cells; slots[fragment, query] are the places
    of the queries' panes. O(entries · kinds + sums · queries that want them).
    """
    sums = np.zeros((groups * len(classes), entries.sums.shape[1]), np.int64)
    room = _Room(sums, np.zeros(len(sums), np.bool_), np.empty(groups, np.int32), np.zeros(groups, np.bool_))
    cells = _Cells(slots, len(seen) // max(groups, 1), totals, seen)
    _add(entries, group_of, fragment_of, _Wanted(classes.of, classes.bounds, classes.queries), room, cells)


def _spill_loop(fixed: int):
    """The emptying of a room with `fixed` sums (-1: any number). A known number makes it twice as fast."""

    @njit(nogil=True)
    def spill(fragment, count_met, wanted, room, cells):
        """Empty the room of the groups that were met into the cells."""
        _, bounds, queries = wanted
        sums, filled, met, marked = room
        slots, width, totals, seen = cells
        classes = bounds.shape[0] - 1
        parts = totals.shape[1] if fixed < 0 else fixed
        own = slots[fragment]
        for m in range(count_met):
            group = at(met[m])
            marked[group] = False
            base = group * at(width)
            for c in range(classes):
                place = group * at(classes) + at(c)
                if not filled[place]:
                    continue
                filled[place] = False
                for k in range(bounds[at(c)], bounds[at(c + 1)]):
                    cell = base + at(own[at(queries[at(k)])])
                    seen[cell] = True
                    for p in range(parts):
                        totals[cell, at(p)] += sums[place, at(p)]
                for p in range(parts):
                    sums[place, at(p)] = 0

    return spill


def _add_loop(fixed: int):
    """The addition of `fixed` sums (-1: any number)."""
    spill = _spill_loop(fixed)

    @njit(nogil=True)
    def add(entries, group_of, fragment_of, wanted, room, cells):
        group, fragment, code, values = entries
        of, bounds, _ = wanted
        sums, filled, met, marked = room
        classes, kinds = bounds.shape[0] - 1, of.shape[1]
        parts = cells.totals.shape[1] if fixed < 0 else fixed
        current, count_met = np.int32(-1), 0
        for j in range(code.shape[0]):
            i = at(j)
            into = fragment_of[at(fragment[i])]
            if into != current:
                spill(current, count_met, wanted, room, cells)
                current, count_met = into, 0
            own = group_of[at(group[i])]
            if not marked[at(own)]:
                marked[at(own)] = True
                met[at(count_met)] = own
                count_met += 1
            base, pattern = at(own) * at(classes), at(code[i])
            for k in range(kinds):
                c = of[pattern, at(k)]
                if c >= 0:
                    place = base + at(c)
                    filled[place] = True
                    for p in range(parts):
                        sums[place, at(p)] += values[i, at(p)]
        spill(current, count_met, wanted, room, cells)

    return add


_add_any, _add_1, _add_2, _add_3 = (_add_loop(fixed) for fixed in (-1, 1, 2, 3))


@compiled(
    types.void(
        types.NamedTuple((_CODES, _CODES, _CODES, _ROWS), Entries),
        _CODES,
        _CODES,
        types.NamedTuple((int32[:, ::1], _INTS, _CODES), _Wanted),
        types.NamedTuple((_ROWS, boolean[::1], _CODES, boolean[::1]), _Room),
        types.NamedTuple((int32[:, ::1], int64, _ROWS, boolean[::1]), _Cells),
    )
)
def _add(entries, group_of, fragment_of, wanted, room, cells):
    """Entries in the order of their times: the room holds the sums of one fragment only, so it stays in the cache."""
    parts = cells.totals.shape[1]
    if parts == 1:
        _add_1(entries, group_of, fragment_of, wanted, room, cells)
    elif parts == 2:
        _add_2(entries, group_of, fragment_of, wanted, room, cells)
    elif parts == 3:
        _add_3(entries, group_of, fragment_of, wanted, room, cells)
    else:
        _add_any(entries, group_of, fragment_of, wanted, room, cells)
