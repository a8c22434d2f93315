"""The least and the greatest value of each group at each time, in arrays: as `values.Values.walk_extremes` in SQL.

A batch that deletes d values of a group can make at most d others the least or the greatest, so d + 1 live values from
each end of the stored group are enough. Groups and times are numbers here; rank 0 stands for the stored values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.plan.aggregates import INTEGERS
from tidemill.runtime.dataflow.annotations import rank_values
from tidemill.runtime.dataflow.value_codes import one_array
from tidemill.runtime.state.arrangements import Arrangement

# Types that are ordered here as in SQL.
RANKED = INTEGERS - {"HUGEINT"} | {"BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR", "DOUBLE", "FLOAT"}


@dataclass(frozen=True)
class ValueMoves:
    """Changes of multiplicities by (group, rank of time): values[number[i]] of group[i] changes by n[i] at rank[i]."""

    group: np.ndarray
    rank: np.ndarray
    number: np.ndarray
    n: np.ndarray
    values: pa.Array  # in order

    def net(self, fresh: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(group, number of the value, change) of some moves added up, where they do not cancel."""
        from tidemill.runtime.dataflow.value_codes import number

        ids, first = number(self.group[fresh] * len(self.values) + self.number[fresh])
        total = np.zeros(len(first), np.int64)
        np.add.at(total, ids, self.n[fresh])
        kept = np.flatnonzero(total)
        return self.group[fresh][first[kept]], self.number[fresh][first[kept]], total[kept]


@dataclass(frozen=True)
class Ends:
    """From (group, rank) on, by group and rank: the numbers of the least and the greatest value, -1 if none is live."""

    group: np.ndarray
    rank: np.ndarray
    least: np.ndarray
    most: np.ndarray
    values: pa.Array

    def at(self, group: np.ndarray, rank: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """(least, greatest) of some groups and ranks: those of the last rank before or at each."""
        ranks = max(int(a.max(initial=0)) for a in (rank, self.rank)) + 1
        place = np.searchsorted(self.group * ranks + self.rank, group * ranks + rank, side="right") - 1
        known = place >= 0
        known[known] = self.group[place[known]] == group[known]
        return self._take_values(self.least, place, known), self._take_values(self.most, place, known)

    def _take_values(self, numbers: np.ndarray, place: np.ndarray, known: np.ndarray) -> pa.Array:
        chosen = np.full(len(place), -1, np.int64)
        chosen[known] = numbers[place[known]]
        return self.values.take(pa.array(np.maximum(chosen, 0), mask=chosen < 0))


def probe_ends(
    state: Arrangement, hashes: np.ndarray, group: np.ndarray, n: np.ndarray, low: bool, high: bool
) -> pa.Table:
    """The stored values that may become the least or the greatest by the moves n of groups with these hashes."""
    touched, of_group = np.unique(hashes, return_inverse=True)
    need = np.ones(len(touched), np.int64)
    gone = n < 0
    np.add.at(need, of_group[group[gone]], -n[gone])
    return state.ends(touched, need, low, high)


def value_moves(stored: pa.Table, held: np.ndarray, fresh: pa.Table, group: np.ndarray, rank: np.ndarray) -> ValueMoves:
    """Stored values of the groups `held`, then fresh ones of `group` at `rank` (from 1)."""
    kind = fresh.column("__v").type
    values = pa.chunked_array([c for t in (stored, fresh) for c in t.column("__v").cast(kind).chunks], kind)
    numbers, ordered = rank_values(one_array(values))
    n = np.concatenate([t.column("__n").to_numpy() for t in (stored, fresh)]).astype(np.int64)
    return ValueMoves(
        np.concatenate([held, group]),
        np.concatenate([np.zeros(len(held), np.int64), rank]),
        numbers.astype(np.int64),
        n,
        ordered,
    )


def walk_ends(moves: ValueMoves, groups: int) -> Ends:
    """The ends after each (group, rank). O(moves + values passed)."""
    from tidemill.runtime.kernels.grouping.extremes import slide_extremes
    from tidemill.runtime.kernels.joins.delta_join_rows import order_rows

    start = np.empty(groups + 1, np.int64)
    by_value = order_rows(moves.group, moves.number, groups, max(len(moves.values), 1), start)
    group, number = moves.group[by_value], moves.number[by_value]
    new = np.append(True, (np.diff(group) != 0) | (np.diff(number) != 0))[: len(group)]
    place = np.cumsum(new) - 1  # the slots of a group are side by side, in the order of values
    slot = np.empty(len(group), np.int64)
    slot[by_value] = place
    first, last = (np.zeros(groups, np.int64) for _ in range(2))
    some = np.flatnonzero(np.diff(start))
    first[some], last[some] = place[start[some]], place[start[some + 1] - 1]
    order = order_rows(moves.group, moves.rank, groups, int(moves.rank.max(initial=0)) + 1, start)
    group, rank = moves.group[order], moves.rank[order]
    least, most = (np.empty(len(order), np.int64) for _ in range(2))
    count = np.zeros(int(new.sum()), np.int64)
    slide_extremes(group, slot[order], moves.n[order], first, last, count, least, most)
    # The state after the last move of a group and time is the answer at that time.
    ends = np.append((np.diff(group) != 0) | (np.diff(rank) != 0), True)[: len(group)]
    shown = np.append(number[new], -1)  # of each slot; of slot -1 none
    return Ends(group[ends], rank[ends], shown[least[ends]], shown[most[ends]], moves.values)
