"""The versions that partitions have within a batch: one after each time at which rows of them change.

Version 0 is what is stored. Moves are sorted by partition, then in the total order of the rows, then by time, so the
moves of a row are next to each other, and each of them holds from its version to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidemill.plan.physical import BEGINNING


@dataclass(frozen=True)
class Piece:
    """Versions low[k] to high[k] of partition part[k]; what changes after the first of them is wanted."""

    part: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Versions:
    """`part_begins`, `peer_begins` and `row_begins` say which moves are the first of a partition, of a group of peers,
    and of a row; `diff` copies come or go at `time`.
    """

    def __init__(
        self,
        part_begins: np.ndarray,
        peer_begins: np.ndarray,
        row_begins: np.ndarray,
        time: np.ndarray,
        diff: np.ndarray,
    ) -> None:
        self.time, self.diff = time, diff
        self.part, self.peer = np.cumsum(part_begins) - 1, np.cumsum(peer_begins) - 1
        self.row_begins = row_begins
        self.parts = int(self.part[-1]) + 1
        self.number = self._number_versions()
        self.count = np.zeros(self.parts, np.int64)  # versions of each partition after the stored one
        np.maximum.at(self.count, self.part, self.number)

    def _number_versions(self) -> np.ndarray:
        """The version that each move makes; `times` has the time of each version of each partition."""
        order = np.lexsort((self.time, self.part))
        part, time = self.part[order], self.time[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (part[1:] != part[:-1]) | (time[1:] != time[:-1])
        nth = np.cumsum(begins) - 1
        first = np.searchsorted(part, np.arange(self.parts))
        stored = time[first] == BEGINNING
        self.times, self.base = time[begins], nth[first] - ~stored
        found = np.empty(len(order), np.int64)
        found[order] = nth - self.base[part]
        return found

    def time_of(self, part: np.ndarray, version: np.ndarray) -> np.ndarray:
        """When partitions got a version."""
        return self.times[self.base[part] + version]

    def find_appended(self, of_peers: bool) -> np.ndarray:
        """Which partitions only get rows, each behind all that were there before; with `of_peers` also none of equal
        order at another time.
        """
        together = self.part[1:] == self.part[:-1]
        wrong = together & (self.number[1:] < self.number[:-1])
        if of_peers:
            wrong |= (self.peer[1:] == self.peer[:-1]) & (self.number[1:] != self.number[:-1])
        found = np.ones(self.parts, np.bool_)
        found[self.part[1:][wrong]] = False
        found[self.part[self.diff <= 0]] = False
        return found

    def cut(self, parts: np.ndarray, most: int) -> Iterator[Piece]:
        """All versions of these partitions, in pieces of about `most` rows; one version is never cut."""
        rows = np.bincount(self.part, np.maximum(self.diff, 0), self.parts).astype(np.int64)
        part, low, high, total = list[int](), list[int](), list[int](), 0
        for k in parts[self.count[parts] > 0].tolist():
            size, begin, last = max(int(rows[k]), 1), 0, int(self.count[k])
            while begin < last:
                room = (most - total) // size - 1
                if room < 1 and part:
                    yield Piece(*map(np.array, (part, low, high)))
                    part, low, high, total = [], [], [], 0
                    continue
                end = min(begin + max(room, 1), last)
                part.append(k)
                low.append(begin)
                high.append(end)
                total, begin = total + (end - begin + 1) * size, end
        if part:
            yield Piece(*map(np.array, (part, low, high)))

    def expand(self, piece: Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(move, number within the piece, version) of every copy of a row in every version of the piece, by partition,
        version and order.
        """
        begin, end, copies = self._intervals()
        chosen, at = self._moves_of(piece)
        begin = np.maximum(begin[chosen], piece.low[at])
        end = np.minimum(end[chosen], piece.high[at] + 1)
        copies = np.where(end > begin, copies[chosen], 0)
        each = np.maximum(end - begin, 0) * copies
        move, number = np.repeat(chosen, each), np.repeat(at, each)
        place = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        version = np.repeat(begin, each) + place // np.repeat(np.maximum(copies, 1), each)
        order = np.lexsort((move, version, number))
        return move[order], number[order], version[order]

    def _intervals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """From which version to which other one (exclusive) there are how many copies of a row, for each move."""
        total = np.cumsum(self.diff)
        first = np.maximum.accumulate(np.where(self.row_begins, np.arange(len(total)), 0))
        copies = total - (total[first] - self.diff[first])
        end = self.count[self.part] + 1
        follows = ~self.row_begins[1:]
        end[:-1][follows] = self.number[1:][follows]
        return self.number, end, np.maximum(copies, 0)

    def _moves_of(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        """(moves of the partitions of a piece, the number of its entry in the piece)."""
        first = np.searchsorted(self.part, piece.part)
        counts = np.searchsorted(self.part, piece.part, side="right") - first
        at = np.repeat(np.arange(len(piece.part)), counts)
        chosen = np.arange(len(at)) + np.repeat(first - np.cumsum(counts) + counts, counts)
        return chosen, at

    def find_neighbours(self, parts: np.ndarray, reach: int) -> tuple[np.ndarray, ...]:
        """(move, version, side, copies): rows of these partitions (a mask) as they are before (side 0) and after (side
        1) each version that changes rows within their reach, by partition, version, side and order.
        """
        from tidemill.runtime.kernels.grouping import neighbours

        number, firsts = np.cumsum(self.row_begins) - 1, np.flatnonzero(self.row_begins)
        chosen = np.flatnonzero(parts[self.part])
        part = self.part[chosen]
        order = chosen[np.lexsort((self.time[chosen], part))]
        start = np.append(np.flatnonzero(np.diff(part, prepend=-1)), len(part))
        low, high = number[chosen[start[:-1]]], number[chosen[start[1:] - 1]] + 1
        moves = neighbours.Moves(start, number[order], self.time[order], self.diff[order], BEGINNING)
        row, version, side, copies = neighbours.find_neighbours(low, high, moves, reach).T
        return firsts[row], np.array(version), np.array(side), np.array(copies)
