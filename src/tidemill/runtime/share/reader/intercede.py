"""Evicted entries of one relation, combined for each of its queries.

Shared fragments are numerous where many queries share them: they are cut at the edges of all and kept apart by
signature. Before they are sent or stored they become cells (`kernels/share/intercede.py`), if those are fewer. A cell
is a fragment like any other: it has a start, and a signature with one bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tidemill.plan.physical import LftaQuery
from tidemill.runtime.kernels.share import intercede as kernel
from tidemill.runtime.kernels.share.intercede import Cells, Edges, Pairs, Panes, Wanted, intercede
from tidemill.runtime.kernels.share.intercede_finer import Classes, Entries, add_entries
from tidemill.runtime.kernels.share.lfta import Emitted
from tidemill.runtime.kernels.share.sliding_folds import SUM
from tidemill.runtime.kernels.share.sliding_rows import codes_of
from tidemill.runtime.thresholds import sizes

_FULL = 3  # not every group has rows in every pane: try where the bound on cells is up to three times too large


class Interceded(NamedTuple):
    """Cells of one relation: column i of every array is cell i."""

    panes: Pairs  # of all cells: places of queries among the relation's own, and where their panes start
    pane: np.ndarray  # int32, of each cell
    attrs: np.ndarray
    ints: np.ndarray
    floats: np.ndarray


@dataclass(frozen=True)
class Intercede:
    """The queries that one relation answers: their edges, and their bits among the words of the store. `kinds` are
    queries whose predicates look at the same columns (see `kernels.share.intercede_finer`); any partition is right.
    """

    edges: tuple[Edges, ...]
    bits: tuple[int, ...]
    kinds: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, own: Sequence[LftaQuery], words: Sequence[int], kinds: Sequence[Any] = ()) -> Intercede | None:
        """The cells of the queries that a relation answers. None where fragments must stay as they are: accumulators of
        user aggregates belong to single fragments.

        `kinds` has the columns that each predicate reads; without it all queries are of one kind.
        """
        if not own or any(q.accumulators or not q.edges for q in own):
            return None
        place = {word: i for i, word in enumerate(words)}
        bits = tuple(64 * place[q.bit // 64] + q.bit % 64 for q in own)
        alike: dict[Any, list[int]] = {}
        for i, query in enumerate(own):
            alike.setdefault(kinds[query.predicate] if kinds and query.predicate >= 0 else (), []).append(i)
        return cls(tuple(edge_classes(q.edges) for q in own), bits, tuple(np.array(k) for k in alike.values()))

    def cells(
        self,
        emitted: Emitted,
        starts: np.ndarray,
        signatures: np.ndarray,
        before: Interceded | None,
        int_kinds: Sequence[int],
        float_kinds: Sequence[int],
        patience: int,
    ) -> Interceded | None:
        """Entries, and cells made before, as cells; None when it does not pay (`worthwhile`).

        `starts` are those of the relation's fragments, `signatures` those of its codes, int64[codes, words].
        """
        wanted, code = Wanted.of(signatures, self.bits), emitted.codes
        used, fragment = _number_used(emitted.fragments)
        attrs, ints, floats, known = emitted.attrs, emitted.ints, emitted.floats, None
        if before is not None:
            # A cell becomes a row of a new fragment, with a code that only its query wants.
            known = before.panes
            fragment = np.concatenate([fragment, len(used) + before.pane])
            only = (len(signatures) + known[0]).astype(np.int32)[before.pane]
            code, wanted = np.concatenate([code, only]), wanted.and_each(len(self.bits))
            attrs, ints, floats = (
                np.concatenate(pair, axis=1)
                for pair in ((attrs, before.attrs), (ints, before.ints), (floats, before.floats))
            )
        slots = Panes.of(starts[used], self.edges, known)
        found = intercede(
            _rows(attrs), fragment, code, wanted, slots, _rows(ints), int_kinds, _rows(floats), float_kinds, patience
        )
        return None if found is None else _to_interceded(found, slots, attrs)

    def cells_of_finer(self, finer: Finer, route: Route, before: Interceded | None, patience: int) -> Interceded | None:
        """Entries of a finer relation, and cells made before, as cells; None when it does not pay."""
        attrs, new = finer.attrs[route.picks][:, finer.firsts], len(finer.firsts)
        if before is not None:
            attrs = np.concatenate([attrs, before.attrs], axis=1)
        groups, firsts = _number_groups(attrs)
        used, fragment_of = _number_used_of(route.fragments, finer.entries.fragment)
        panes = Panes.of(route.starts[used], self.edges, None if before is None else before.panes)
        rows = len(finer.entries.code) + (0 if before is None else len(before.pane))
        if not kernel.worthwhile(rows, len(firsts), panes, _FULL * patience):
            return None
        found = Classes.among(Wanted.table(route.signatures, self.bits), self.kinds)
        if len(firsts) * len(found) > max(sizes.fragment_sums, 4 * rows):
            return None
        of = np.full((len(route.codes), found.of.shape[1]), -1, np.int32)
        of[route.codes >= 0] = found.of[route.codes[route.codes >= 0]]
        count, parts = len(panes.start), finer.entries.sums.shape[1]
        totals, seen = np.zeros((len(firsts) * count, parts), np.int64), np.zeros(len(firsts) * count, np.bool_)
        if before is not None:
            place = groups[new:] * np.int64(count) + panes.known_slots(len(used), before.pane, before.panes[0])
            totals[place], seen[place] = before.ints.T, True
        add_entries(
            finer.entries,
            groups[:new],
            fragment_of,
            Classes(of, found.bounds, found.queries),
            panes.slots,
            len(firsts),
            totals,
            seen,
        )
        cells = _cells_by_time(totals, seen, panes, attrs[:, firsts])
        return cells if kernel.fewer(len(cells.pane), rows, patience) else None

    def words(self, cells: Interceded, count: int) -> np.ndarray:
        """The signatures of cells, int64[cells, words]."""
        table = np.zeros((len(self.bits), count), np.uint64)
        for q, bit in enumerate(self.bits):
            table[q, bit // 64] = np.uint64(1 << bit % 64)
        return table.view(np.int64)[cells.panes[0]][cells.pane]


@dataclass(frozen=True)
class Finer:
    """Evicted entries of a table, prepared for all relations below it that have no table."""

    attrs: np.ndarray  # int64[attributes, entries]
    firsts: np.ndarray  # an entry of each group
    entries: Entries

    @classmethod
    def of(cls, emitted: Emitted, starts: np.ndarray, int_kinds: Sequence[int]) -> Finer | None:
        """None where parts do not simply add up. `starts` are those of the table's fragments."""
        if len(emitted.floats) or any(kind != SUM for kind in int_kinds):
            return None
        groups, firsts = _number_groups(emitted.attrs)
        rank = np.empty(len(starts), np.int32)
        rank[np.argsort(starts)] = np.arange(len(starts))
        order = np.argsort(rank[emitted.fragments], kind="stable")  # nearly in order: they were evicted in time
        sums = np.ascontiguousarray(emitted.ints.T[order])
        entries = Entries(groups[order], emitted.fragments[order], emitted.codes[order], sums)
        return cls(emitted.attrs, firsts, entries)


@dataclass(frozen=True)
class Route:
    """From a table to a relation below it: the places of its attributes, and its own fragment and code (or -1) for
    each of the table's; the starts of its fragments, the signatures of its codes.
    """

    picks: list[int]
    fragments: np.ndarray
    codes: np.ndarray
    starts: np.ndarray
    signatures: np.ndarray

    def project(self, emitted: Emitted) -> Emitted:
        """The entries as this relation's own table would have evicted them."""
        codes = self.codes[emitted.codes]
        kept = np.flatnonzero(codes >= 0)
        return Emitted(
            self.fragments[emitted.fragments[kept]],
            codes[kept],
            emitted.attrs[self.picks][:, kept],
            emitted.ints[:, kept],
            emitted.floats[:, kept],
        )


def _number_groups(attrs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each group, and one place of each."""
    if not len(attrs):
        return np.zeros(attrs.shape[1], np.int32), np.zeros(min(1, attrs.shape[1]), np.int64)
    return codes_of(_rows(attrs))


def _number_used_of(fragments: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the fragments that `fragments` maps to occur, and for each of the finer ones its number among them.

    >>> _number_used_of(np.array([4, 4, 2, 9], np.int32), np.array([1, 0, 2], np.int32))
    (array([2, 4], dtype=int32), array([1, 1, 0, 0], dtype=int32))
    """
    finer = np.flatnonzero(np.bincount(own))
    used = np.unique(fragments[finer])
    number = np.zeros(len(fragments), np.int32)
    number[finer] = np.searchsorted(used, fragments[finer])
    return used, number


def _cells_by_time(totals: np.ndarray, seen: np.ndarray, panes: Panes, groups: np.ndarray) -> Interceded:
    """The cells of `groups` (their attributes) in the order of their panes' starts, so that the store need not sort
    them.
    """
    count, all_groups = len(panes.start), groups.shape[1]
    order = np.argsort(panes.start, kind="stable")
    places = np.flatnonzero(seen.reshape(all_groups, count).T[order])
    slot, group = order[places // all_groups], places % all_groups
    found = totals[group * count + slot]
    return Interceded(
        (panes.query, panes.start),
        slot.astype(np.int32),
        groups[:, group],
        np.ascontiguousarray(found.T),
        np.empty((0, len(found))),
    )


def _to_interceded(found: Cells, panes: Panes, attrs: np.ndarray) -> Interceded:
    return Interceded((panes.query, panes.start), found.slot, attrs[:, found.first], found.ints, found.floats)


def _number_used(fragments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fragments that occur, and the number of each entry's fragment among them.

    >>> _number_used(np.array([7, 3, 7], np.int32))
    (array([3, 7]), array([1, 0, 1], dtype=int32))
    """
    used = np.flatnonzero(np.bincount(fragments))
    place = np.zeros(int(used[-1]) + 1, np.int32)
    place[used] = np.arange(len(used))
    return used, place[fragments]


def _rows(columns: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(c) for c in columns]


def edge_classes(edges: Any) -> Edges:
    """Slides and phases of classes of edges, for the kernels."""
    pairs = np.array([list(e) for e in edges], np.int64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()
