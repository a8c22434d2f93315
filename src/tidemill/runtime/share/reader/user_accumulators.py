"""User aggregates in the readers: accumulators beside the hash tables, one for each (fragment, pattern, group) of a
leaf.

Rows have the same fragments, patterns and codes as in the tables, block by block. A block is added up from zero with
`add`; a row on which `add` fails is put aside for the queries that use the aggregate, and the block is added up again
without it. Accumulators of the same group are combined from block to block. They leave when codes change their
meaning, when they are many, and at the end of the reader's share.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import HashTables
from tidemill.plan.python_values import python_values
from tidemill.runtime.kernels.share.sliding_rows import codes_of
from tidemill.runtime.share.reader.attribute_codes import AttributeCodes
from tidemill.runtime.share.reader.patterns import Patterns
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.user_aggregates.functions import AggregateFunctions, check_value, error_line, load_functions, pack

Key = tuple[int, ...]  # relation, part, fragment, code of the pattern, codes of the attributes


@dataclass(frozen=True)
class Block:
    """Rows of one block: numbers of their finest fragments, codes of attributes, columns of arguments."""

    fragments: np.ndarray
    attributes: Sequence[np.ndarray]
    arguments: dict[str, pa.ChunkedArray]
    fragment_maps: Sequence[np.ndarray]


@dataclass(frozen=True)
class BlockAccumulators:
    """Accumulators of one block, and the rows on which an aggregate failed: (part, row, why)."""

    accumulators: dict[Key, bytes]
    failed: list[tuple[int, int, str]]


class UserAccumulators:
    """All object parts of an "lfta" operator."""

    def __init__(self, tables: HashTables) -> None:
        self.parts = tables.accumulators
        self.folds = [load_functions(p.body) for p in self.parts]
        self.relations, self.stores, self.queries = tables.relations, tables.stores, tables.queries
        self.expression = len(tables.attributes) + len(tables.arguments)  # number of the first part
        self.attributes = tables.attributes
        self.known: dict[Key, bytes] = {}
        self.apart: list[tuple[Key, bytes]] = []  # accumulators on which `combine` fails: the stage reports the error

    @property
    def full(self) -> bool:
        return len(self.known) + len(self.apart) > sizes.waiting_accumulators

    def accumulate(self, block: Block, codes: np.ndarray, patterns: Patterns) -> BlockAccumulators:
        """Fold the rows whose patterns have these codes; nothing is kept yet."""
        found = BlockAccumulators({}, [])
        for r, relation in enumerate(self.relations):
            if relation.emits >= 0:
                places = self._places(r, block, codes, patterns)
                for part in range(len(self.parts)):
                    self._accumulate_part(found, r, part, block, *places, patterns)
        return found

    def keep(self, folded: BlockAccumulators) -> None:
        """Put accumulators of a block to those of the blocks before."""
        for key, fresh in folded.accumulators.items():
            before = self.known.get(key)
            self.known[key] = fresh
            if before is not None:
                fold = self.folds[key[1]]
                try:
                    self.known[key] = pack(fold.combine(pickle.loads(before), pickle.loads(fresh)))
                except Exception:
                    self.apart.append((key, before))

    def _places(self, r: int, block: Block, codes: np.ndarray, patterns: Patterns) -> tuple[np.ndarray, np.ndarray]:
        """Fragment and pattern of each row as relation r numbers them; a pattern that it does not want is -1."""
        path = [r]
        while self.relations[path[-1]].parent >= 0:
            path.append(self.relations[path[-1]].parent)
        fragments = block.fragments
        for step in reversed(path):
            fragments = block.fragment_maps[step][fragments]
            known = np.append(patterns.maps[step], np.int32(-1))  # -1 stays -1
            codes = known[codes]
        return fragments, codes

    def _accumulate_part(
        self,
        found: BlockAccumulators,
        r: int,
        part: int,
        block: Block,
        fragments: np.ndarray,
        codes: np.ndarray,
        patterns: Patterns,
    ) -> None:
        column = block.arguments[self.parts[part].argument]
        wanted = np.append(self._find_wanted(r, part, patterns), False)[codes]
        if column.null_count:
            wanted &= column.is_valid().to_numpy()
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return
        attributes = [block.attributes[a] for a in self.relations[r].attributes]
        identity = [c[rows].astype(np.int64) for c in (fragments, codes, *attributes)]
        numbers, firsts = codes_of(identity)
        order = np.argsort(numbers, kind="stable")
        rows, ends = rows[order], np.cumsum(np.bincount(numbers))
        values = python_values(column.take(pa.array(rows)))
        keys = zip(*(c[firsts].tolist() for c in identity), strict=True)
        begin = 0
        for key, end in zip(keys, ends.tolist(), strict=True):
            done = _accumulate(self.folds[part], values, begin, end)
            found.failed.extend((part, int(rows[i]), why) for i, why in done[1])
            found.accumulators[(r, part, *key)] = done[0]
            begin = end

    def _find_wanted(self, r: int, part: int, patterns: Patterns) -> np.ndarray:
        """For each code of relation r whether a query that uses the part wants the row."""
        words = self.stores[self.relations[r].emits].words
        mask = np.zeros(len(words), np.uint64)
        for number in self.relations[r].own:
            query = self.queries[number]
            if self.parts[part].name in query.accumulators:
                mask[words.index(query.bit // 64)] |= np.uint64(1 << (query.bit % 64))
        return (patterns.signatures(r, words).view(np.uint64) & mask != 0).any(axis=1)

    def take(
        self, patterns: Patterns, starts: Sequence[dict[int, int]], coders: Sequence[AttributeCodes]
    ) -> Iterator[tuple[str, pa.Table]]:
        """(leaf, rows) of all that is known, which is then forgotten."""
        by_relation: dict[int, list[tuple[Key, bytes]]] = {}
        for key, value in (*self.apart, *self.known.items()):
            by_relation.setdefault(key[0], []).append((key, value))
        self.known, self.apart = {}, []
        for r, entries in by_relation.items():
            store = self.stores[self.relations[r].emits]
            numbers = np.array([key for key, _ in entries], np.int64).T
            columns = {
                self.attributes[a].name: coders[a].decode(np.ascontiguousarray(codes))
                for a, codes in zip(self.relations[r].attributes, numbers[4:], strict=True)
            }
            columns["__time"] = pa.array(np.array(list(starts[r]), np.int64)[numbers[2]])
            words = patterns.signatures(r, store.words)
            for i, word in enumerate(store.words):
                columns[f"__s{word}"] = pa.array(words[numbers[3], i])
            columns["__part"] = pa.array([self.parts[p].name for p in numbers[1]], pa.string())
            columns["__pickle"] = pa.array([value for _, value in entries], pa.binary())
            yield store.accumulators, pa.table(columns)


def _accumulate(
    fold: AggregateFunctions, values: list[Any], begin: int, end: int
) -> tuple[bytes, list[tuple[int, str]]]:
    """The accumulator of values[begin:end] as bytes, and those values on which it fails."""
    failed: list[tuple[int, str]] = []
    accumulator, add = fold.fresh(), fold.add
    for i in range(begin, end):
        try:
            accumulator = add(accumulator, check_value(values[i]))
        except Exception as error:  # whatever a user's function raises is about this row
            failed.append((i, error_line(error)))
    if failed:
        return b"", failed
    try:
        return pack(accumulator), failed
    except Exception as error:
        return b"", [(i, error_line(error)) for i in range(begin, end)]
