"""What one relation of the hash tables has evicted, put together for each of its queries.

Shared fragments are many where many queries share them: cut at all edges, kept apart by signature. Before they travel,
or lie for the length of a window, they become cells (`kernels/intercede.py`), as soon as those are fewer. A cell is a
fragment like any other: it has a start, and a signature with one bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tidemill.runtime.kernels.intercede import Cells, Edges, Pairs, Panes, Wanted, intercede
from tidemill.runtime.kernels.lfta import Emitted


class Interceded(NamedTuple):
    """Cells of one relation: column i of every array is cell i."""

    panes: Pairs  # of all cells: places of queries among the relation's own, and where their panes start
    pane: np.ndarray  # int32, of each cell
    attrs: np.ndarray
    ints: np.ndarray
    floats: np.ndarray


@dataclass(frozen=True)
class Intercede:
    """The queries that one relation answers: their edges, and their bits among the words of the store."""

    edges: tuple[Edges, ...]
    bits: tuple[int, ...]

    @classmethod
    def of(cls, relation: dict[str, Any], queries: Sequence[dict[str, Any]], words: Sequence[int]) -> Intercede | None:
        """None where fragments must stay as they are: accumulators of users' aggregates belong to single ones."""
        own = [queries[q] for q in relation["own"]]
        if not own or any(q["objects"] or not q.get("edges") for q in own):
            return None
        place = {word: i for i, word in enumerate(words)}
        bits = tuple(64 * place[q["bit"] // 64] + q["bit"] % 64 for q in own)
        return cls(tuple(classes(q["edges"]) for q in own), bits)

    def cells(self, emitted: Emitted, starts: np.ndarray, signatures: np.ndarray, before: Interceded | None,
              int_kinds: Sequence[int], float_kinds: Sequence[int], patience: int) -> Interceded | None:
        """Entries, and cells made before, as cells; None when it is not worth it (`worthwhile`).

        `starts` are those of the relation's fragments, `signatures` those of its codes, int64[codes, words].
        """
        wanted, code = Wanted.of(signatures, self.bits), emitted.codes
        used, fragment = _used(emitted.fragments)
        attrs, ints, floats, known = emitted.attrs, emitted.ints, emitted.floats, None
        if before is not None:
            # A cell is a row of a fragment of its own, and of a code that its query alone wants.
            known = before.panes
            fragment = np.concatenate([fragment, len(used) + before.pane])
            only = (len(signatures) + known[0]).astype(np.int32)[before.pane]
            code, wanted = np.concatenate([code, only]), wanted.and_each(len(self.bits))
            attrs, ints, floats = (np.concatenate(pair, axis=1) for pair in (
                (attrs, before.attrs), (ints, before.ints), (floats, before.floats)))
        slots = Panes.of(starts[used], self.edges, known)
        found = intercede(_rows(attrs), fragment, code, wanted, slots, _rows(ints), int_kinds, _rows(floats),
                          float_kinds, patience)
        return None if found is None else _interceded(found, slots, attrs)

    def words(self, cells: Interceded, count: int) -> np.ndarray:
        """The signatures of cells, int64[cells, words]."""
        table = np.zeros((len(self.bits), count), np.uint64)
        for q, bit in enumerate(self.bits):
            table[q, bit // 64] = np.uint64(1 << bit % 64)
        return table.view(np.int64)[cells.panes[0]][cells.pane]


def _interceded(found: Cells, panes: Panes, attrs: np.ndarray) -> Interceded:
    return Interceded((panes.query, panes.start), found.slot, attrs[:, found.first], found.ints, found.floats)


def _used(fragments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fragments that occur, and the number of each entry's fragment among them.

    >>> _used(np.array([7, 3, 7], np.int32))
    (array([3, 7]), array([1, 0, 1], dtype=int32))
    """
    used = np.flatnonzero(np.bincount(fragments))
    place = np.zeros(int(used[-1]) + 1, np.int32)
    place[used] = np.arange(len(used))
    return used, place[fragments]


def _rows(columns: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(c) for c in columns]


def classes(edges: Any) -> Edges:
    """Slides and phases of classes of edges, for the kernels."""
    pairs = np.array([list(e) for e in edges], np.int64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()
