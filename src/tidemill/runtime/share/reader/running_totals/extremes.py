"""Least and greatest values of running totals: the stacks of `kernels.share.intercede_extremes` and their memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.runtime.kernels.share.intercede_extremes import TAKEN, USED, cut_stacks, gather_least, push_least
from tidemill.runtime.kernels.share.intercede_rows import MOST

_NODE = 20  # bytes of a node
_NONE = np.empty(0, np.int8)


class Extremes:
    """A stack for each group and each (value, part) that some query needs."""

    def __init__(self, wanted: Sequence[tuple[int, int]], capacity: int, room: int) -> None:
        """`wanted` are values and numbers of parts; there may be `capacity` groups. Stacks of more than `room` bytes
        are `full`: they still work, but running totals should restart.
        """
        self.wanted = np.array(list(wanted), np.int64).reshape(-1, 2)
        self.number = {pair: k for k, pair in enumerate(wanted)}
        self.heads = np.zeros((len(self.wanted), capacity), np.int32)
        self.times, self.least, self.below = np.empty(1, np.int64), np.empty(1, np.int64), np.zeros(1, np.int32)
        self.pool = np.array([0, 1, 0])
        self._most = room // _NODE

    @property
    def full(self) -> bool:
        return bool(self.pool[TAKEN] > self._most)

    def push(
        self,
        changed: np.ndarray,
        sums: np.ndarray,
        parts: int,
        n_sums: int,
        values: tuple[np.ndarray, np.ndarray],
        time: int,
        since: np.ndarray,
        count: int,
    ) -> None:
        """End the fragment that began at `time`; no query needs values of stack k from before since[k]."""
        need = int(self.pool[USED]) + len(changed) * len(self.wanted)
        if need > len(self.times):
            cut_stacks(self.heads, count, since, self.times, self.below, self.pool)
            self._grow(2 * need)
        push_least(
            changed,
            len(changed),
            sums,
            parts,
            n_sums,
            *values,
            self.wanted,
            time,
            self.heads,
            self.times,
            self.least,
            self.below,
            self.pool,
        )

    def _grow(self, nodes: int) -> None:
        self.times, self.least, self.below = (
            np.concatenate([array, np.empty(nodes - len(array), array.dtype)])
            for array in (self.times, self.least, self.below)
        )

    def gather(
        self,
        value: int,
        part: int,
        since: int,
        truths: np.ndarray | None,
        coarser: np.ndarray,
        count: int,
        out: np.ndarray,
    ) -> None:
        """The least of each coarser group since a time into `out`, of the groups that pass the test."""
        gather_least(
            self.heads[self.number[value, part]],
            self.times,
            self.least,
            self.below,
            since,
            _NONE if truths is None else truths,
            coarser,
            count,
            out,
        )


def nothing(groups: int) -> np.ndarray:
    """The least value of an empty set, for each of `groups` groups."""
    return np.full(groups, MOST, np.int64)
