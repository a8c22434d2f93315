"""One GROUP BY over matching pairs, added up while they are found: no joined row is ever made.

The group of a pair is a number for its first inputs and its time, and a number for its last input; sums are 64-bit
words. Wide sums are split into digits small enough that their sum over all pairs does not overflow.

The fast path `pair_sums`: gives exactly what grouping the joined rows by SQL gives; where an expression needs several
inputs, fails on a row, or a sum overflows, `Partials` makes the joined rows. It pays where a group has many pairs:
keys of both inputs, or windows that slide; with about one pair for each group SQL is as fast or faster. Measured
(`benchmarks/fast_paths`, SQL's processor time in parts of this one's): 1.34 for sliding windows; by the lengths of both
inputs 1.15 with 100,000 rows of each, 0.90 with 20,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from tidemill.runtime.dataflow.annotations import Annotations, extreme_column, word_column
from tidemill.runtime.dataflow.value_codes import number, number_rows
from tidemill.runtime.joins.delta_join import DeltaJoin, Matches
from tidemill.runtime.kernels.joins.delta_join import NOTHING, Groups, Sums, Terms, add_pairs, walk
from tidemill.runtime.kernels.joins.delta_join_rows import join_words
from tidemill.runtime.thresholds import sizes

_TYPES = {"word": np.int64, "float": np.float64, "low": np.int64}


@dataclass(frozen=True)
class PairKey:
    """A grouping key: a column over the rows of one input of the join."""

    name: str
    input: int
    column: pa.ChunkedArray


@dataclass(frozen=True)
class PairPart:
    """A part to add up: number `which` of the annotations over the rows of one input."""

    name: str
    input: int
    annotations: Annotations
    which: int

    @property
    def kind(self) -> str:
        """Where its values are kept."""
        return self.annotations.parts[self.which].kind

    def factors(self, room: int) -> tuple[np.ndarray, int]:
        """(columns, base): its values, whole numbers in digits below 2^room."""
        place = self.annotations.place[self.which]
        if self.kind == "word":
            return self.annotations.digits(self.which, room)
        values = self.annotations.floats if self.kind == "float" else self.annotations.lows
        return values[:, place : place + 1], 0


class PairSums:
    """The sums of parts over the matching pairs for each group of keys and time."""

    def __init__(self, join: DeltaJoin, matches: Matches, keys: list[PairKey], parts: list[PairPart]) -> None:
        self.join, self.matches, self.keys, self.parts = join, matches, keys, parts
        self.last = join.route[-1].input
        self.pairs = int(matches.counts.sum())
        # No count of a joined row is larger than the product of the greatest, no sum than that for every pair.
        self.room = 62 - (self.pairs * reduce(lambda a, b: a * b, (r.most for r in join.rows.values()))).bit_length()

    def tables(self) -> Iterator[pa.Table]:
        """Rows (keys, __time, __n, parts), one table for each piece; OverflowError where words cannot hold the sums."""
        terms = self._terms()
        version, version_first = self._number_keys(self.last)
        probe, probe_first = self._probe_groups()
        width = len(version_first)
        groups = len(probe_first) * width
        # Looking a slot up in place is so much cheaper than hashing that a table with some empty places pays.
        direct = groups <= max(sizes.direct_groups, min(4 * self.pairs, sizes.piece_pairs))
        here = walk(self.matches.rows)
        for first, last, count in self.matches.pieces(self.pairs if direct else sizes.piece_pairs):
            room = min(count, groups)
            table = np.zeros(groups if direct else 1 << (2 * room - 1).bit_length(), np.int32)
            found = Groups(probe, version, width, direct, table, np.empty(room, np.int64))
            sums = Sums(
                np.zeros((room, self.sizes["word"]), np.int64),
                np.zeros((room, self.sizes["float"])),
                np.full((room, self.sizes["low"]), NOTHING, np.int64),
            )
            slots = add_pairs(
                first, last, self.matches.probes, self.matches.versions, here, self.matches.nested, terms, found, sums
            )
            alive = (sums.ints[:slots] != 0).any(axis=1) | (sums.floats[:slots] != 0).any(axis=1)
            group = found.keys[:slots][alive]
            yield self._table(
                probe_first[group // width], version_first[group % width], Sums(*(s[:slots][alive] for s in sums))
            )

    def _terms(self) -> Terms:
        """The factors of every sum: those of bound inputs carry the counts of the other bound ones."""
        if self.room < 4:
            raise OverflowError("too many pairs for sums of 64 bits")
        binding, rows = self.matches.binding, self.join.rows
        counts = {i: rows[i].n[at] for i, at in binding.at.items()}
        self.sizes = {"word": 1, "float": 0, "low": 0}  # the first word is the count
        self.places: dict[str, tuple[slice, int]] = {}
        sides = []
        for bound in (True, False):
            columns: dict[str, list[np.ndarray]] = {kind: [] for kind in _TYPES}
            for part in self.parts:
                if (part.input != self.last) != bound:
                    continue
                found, base = part.factors(self.room)
                if bound:
                    found = found[binding.at[part.input]]
                    others = [n for i, n in counts.items() if i != part.input]
                    if others and part.kind != "low":
                        found = found * reduce(np.multiply, others)[:, None]
                columns[part.kind].append(found)
                size = self.sizes[part.kind]
                self.sizes[part.kind] = size + found.shape[1]
                self.places[part.name] = slice(size, size + found.shape[1]), base
            height = len(binding) if bound else len(rows[self.last])
            n = reduce(np.multiply, counts.values()) if bound else rows[self.last].n
            sides += [n, *(_side_by_side(columns[kind], kind, height) for kind in ("word", "float", "low"))]
        return Terms(*sides)

    def _number_keys(self, number_: int) -> tuple[np.ndarray, np.ndarray]:
        return number_rows([k.column for k in self.keys if k.input == number_], len(self.join.rows[number_]))

    def _probe_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The group of each joined row as far as it is bound: its time and its key columns."""
        binding = self.matches.binding
        ids, first = number(binding.rank)
        for i, rows in binding.at.items():
            if any(k.input == i for k in self.keys):
                own, own_first = self._number_keys(i)
                ids, first = number(ids * len(own_first) + own[rows])
        return ids, first

    def _table(self, probe: np.ndarray, version: np.ndarray, sums: Sums) -> pa.Table:
        binding, columns = self.matches.binding, {}
        for key in self.keys:
            rows = version if key.input == self.last else binding.at[key.input][probe]
            columns[key.name] = key.column.take(pa.array(rows))
        columns["__time"] = pa.array(self.join.times[binding.rank[probe]])
        columns["__n"] = pa.array(np.ascontiguousarray(sums.ints[:, 0]))
        for part in self.parts:
            columns[part.name] = self._sum(part, sums)
        return pa.table(columns)

    def _sum(self, part: PairPart, sums: Sums) -> pa.Array:
        place, base = self.places[part.name]
        if part.kind == "float":
            return pa.array(np.ascontiguousarray(sums.floats[:, place.start]))
        if part.kind == "low":
            values = part.annotations.extremes[part.annotations.place[part.which]]
            return extreme_column(sums.lows[:, place.start], values)
        low, high = np.empty(len(sums.ints), np.int64), np.empty(len(sums.ints), np.int64)
        join_words(np.ascontiguousarray(sums.ints[:, place]), base, low, high)
        return word_column(low, high, part.annotations.parts[part.which].type)


def _side_by_side(columns: list[np.ndarray], kind: str, rows: int) -> np.ndarray:
    if not columns:
        return np.empty((rows, 0), _TYPES[kind])
    return np.ascontiguousarray(np.concatenate(columns, axis=1))
