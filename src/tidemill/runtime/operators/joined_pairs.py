"""Pairs of rows with equal keys, found in arrays: keys become words, equal words one number, and each row meets the
rows of its number.

Only the columns that the residual predicate reads are taken for all pairs, in pieces; the others for those that satisfy
it. Work and memory grow with the rows, the pairs of one piece, and the pairs that are left.

The fast path `joined_pairs`: gives exactly the pairs of the SQL join in `join.py`. Keys must have the same type on both
sides, one whose equality is that of words or of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.value_codes import JoinValues, match_all
from tidemill.runtime.duckdb import duck
from tidemill.runtime.row_references import take_rows
from tidemill.runtime.state.run_ends import expand
from tidemill.runtime.thresholds import sizes

_WORDS = frozenset(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DATE TIMESTAMP VARCHAR"
    " BLOB".split()
)


@dataclass(frozen=True)
class Matching:
    """What is joined: columns and keys of both sides, the columns that are wanted, and the residual predicate."""

    left: tuple[Column, ...]
    right: tuple[Column, ...]
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    wanted: tuple[str, ...]
    residual: str | None

    def is_supported(self) -> bool:
        """Whether the keys are of types that are compared here, and each column belongs to one side."""
        types = [_types(self.left, self.left_keys), _types(self.right, self.right_keys)]
        apart = {c.name for c in self.left}.isdisjoint(c.name for c in self.right)
        usual = bool(self.left_keys) and types[0] == types[1] and set(types[0]) <= _WORDS
        return apart and usual and fast_paths.is_on("joined_pairs")

    def pairs(self, left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """(rows of `left`, rows of `right`) with equal keys that satisfy the predicate; no key is NULL."""
        if not left.num_rows or not right.num_rows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        classes = [JoinValues() for _ in self.left_keys]
        held = [c.codes(right.column(k)) for c, k in zip(classes, self.right_keys, strict=True)]
        sought = [c.codes(left.column(k)) for c, k in zip(classes, self.left_keys, strict=True)]
        held_ids, sought_ids, count = match_all(held, sought)
        by_id = np.argsort(held_ids, kind="stable")
        sizes_of = np.bincount(held_ids, minlength=count)
        starts = np.cumsum(sizes_of) - sizes_of
        found = np.flatnonzero(sought_ids >= 0)
        ids = sought_ids[found]
        if self.residual is None:
            return np.repeat(found, sizes_of[ids]), by_id[expand(starts[ids], sizes_of[ids])]
        pieces = [
            self._satisfying(
                left,
                right,
                np.repeat(found[a:b], sizes_of[ids[a:b]]),
                by_id[expand(starts[ids[a:b]], sizes_of[ids[a:b]])],
            )
            for a, b in _pieces(sizes_of[ids])
        ]
        return np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])

    def take(self, left: pa.Table, right: pa.Table, pairs: tuple[np.ndarray, np.ndarray]) -> dict[str, pa.ChunkedArray]:
        """The wanted columns of pairs."""
        mine = {c.name for c in self.left}
        names = [[n for n in self.wanted if (n in mine) == is_left] for is_left in (True, False)]
        found = take_rows(left, pairs[0], names[0]) | take_rows(right, pairs[1], names[1])
        return {n: found[n] for n in self.wanted}

    def _satisfying(
        self, left: pa.Table, right: pa.Table, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        assert self.residual is not None
        read = tuple(c for c in (*self.left, *self.right) if quoted(c.name) in self.residual)
        part = Matching(self.left, self.right, (), (), tuple(c.name for c in read), None)
        feed = pa.table(part.take(left, right, (a, b)) | {"__pair": pa.array(np.arange(len(a)))})
        sql = f"SELECT __pair FROM {duck.source('feed', read, '__pair')} WHERE {self.residual}"
        kept = duck.run(sql, feed=feed).column("__pair").to_numpy()
        return a[kept], b[kept]


def _pieces(counts: np.ndarray) -> list[tuple[int, int]]:
    """Rows cut so that a piece has at most this many pairs as one step of a join, or one row."""
    if not len(counts):
        return [(0, 0)]
    number = (np.cumsum(counts) - counts) // sizes.piece_pairs
    cuts = np.flatnonzero(np.diff(number)) + 1
    return list(pairwise([0, *cuts.tolist(), len(counts)]))


def _types(columns: Sequence[Column], keys: Sequence[str]) -> list[str]:
    known = {c.name: c.type for c in columns}
    return [known[k] for k in keys]
