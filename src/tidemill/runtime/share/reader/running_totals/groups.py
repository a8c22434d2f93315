"""The groups of running totals: numbers of the finest groups, the predicates they satisfy, and their coarser groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.plan.predicate_programs import evaluate
from tidemill.runtime.kernels.share.intercede_rows import NARROW, number_records
from tidemill.runtime.share.reader.running_totals.layout import Layout


class Groups:
    """Groups in the order of their appearance. The row loop finds and adds them; everything else is derived lazily for
    the new ones.
    """

    def __init__(self, layout: Layout, capacity: int, sizes: Sequence[int]) -> None:
        """For up to `capacity` groups, whose attributes have these sizes in bytes."""
        self.layout, self.capacity, self.count = layout, capacity, 0
        self.pairs = pairs_of(sizes)
        slots = 1 << (2 * capacity - 1).bit_length()
        self.slots = np.full(slots, -1, np.int32)
        self.keys = np.empty((capacity, len(self.pairs)), np.int64)
        self._attributes = np.empty((len(layout.columns), capacity), np.int64)
        self._known = 0  # groups of which the attributes are known
        self._truths = np.zeros((len(layout.verdicts.tests), capacity), np.int8)
        self._judged = [0] * len(self._truths)  # groups of which the truth of each program is known
        made = {picks: Coarser(list(picks), capacity, slots) for picks in {tuple(leaf.picks) for leaf in layout.leaves}}
        self._leaves = [made[tuple(leaf.picks)] for leaf in layout.leaves]

    def truths(self, k: int) -> np.ndarray:
        """Which groups satisfy group program k: 0 or -1."""
        if self._judged[k] < self.count:
            fresh = slice(self._judged[k], self.count)
            columns = dict(zip(self.layout.columns, self.attributes[:, fresh], strict=True))
            verdict = evaluate(self.layout.verdicts.tests[k], columns)
            np.negative(verdict.view(np.int8), out=self._truths[k, fresh])
            self._judged[k] = self.count
        return self._truths[k]

    def leaf(self, i: int) -> Coarser:
        """The groups of a leaf, up to date."""
        found = self._leaves[i]
        if found.known < self.count:
            found.add(self.attributes[found.picks, found.known : self.count])
        return found

    @property
    def attributes(self) -> np.ndarray:
        """The attributes of all groups, int64[attributes, groups]."""
        if self._known < self.count:
            fresh = slice(self._known, self.count)
            for word, (a, b) in zip(self.keys[fresh].T, self.pairs.tolist(), strict=True):
                self._attributes[a, fresh] = word if b < 0 else word >> 32
                if b >= 0:
                    self._attributes[b, fresh] = word.astype(np.int32)
            self._known = self.count
        return self._attributes[:, : self.count]


class Coarser:
    """The groups of one leaf: `of` maps the finest groups to them, `count` is their number."""

    def __init__(self, picks: list[int], capacity: int, slots: int) -> None:
        self.picks, self.known, self.count = picks, 0, 0
        self.of = np.empty(capacity, np.int32)
        self._slots = np.full(slots, -1, np.int32)
        self._keys = np.empty((capacity, len(picks)), np.int64)

    def add(self, attributes: np.ndarray) -> None:
        """Add the next finest groups, by their attributes of the leaf."""
        end = self.known + attributes.shape[1]
        _, self.count = number_records(
            np.ascontiguousarray(attributes), self._slots, self._keys, self.count, self.of[self.known : end]
        )
        self.known = end

    def attributes(self, groups: np.ndarray) -> np.ndarray:
        """The attributes of some of these groups, int64[attributes, groups]."""
        found = np.empty((len(self.picks), len(groups)), np.int64)
        for column, out in zip(self._keys[: self.count].T, found, strict=True):
            np.ascontiguousarray(column).take(groups, out=out, mode="clip")
        return found


def pairs_of(sizes: Sequence[int]) -> np.ndarray:
    """The one or two columns of each word of a key: narrow ones share a word.

    >>> pairs_of([4, 8, 4, 4]).tolist()
    [[0, 2], [3, -1], [1, -1]]
    """
    narrow = [i for i, size in enumerate(sizes) if size == NARROW]
    words = [(narrow[i], narrow[i + 1] if i + 1 < len(narrow) else -1) for i in range(0, len(narrow), 2)]
    return np.array(words + [(i, -1) for i, size in enumerate(sizes) if size != NARROW], np.int64).reshape(-1, 2)
