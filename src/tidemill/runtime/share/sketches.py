"""Statistics that a reader takes of the rows of its share: groups of many attribute sets over one block of rows and
over its first part, evictions of trial tables of several sizes, and which predicates hold at the same time.

Tables begin empty in every share, so an average share is what a plan is chosen for; the counts of several readers are
not those of one large share. (Nor could they be merged: a text has another code in each reader.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidemill.plan.measured.windows import (
    NO_GROUPS,
    NO_TRIALS,
    GroupCounts,
    ReaderCounts,
    ShareSize,
    SourceCounts,
    TableCounts,
    TrialCounts,
)
from tidemill.runtime.kernels.share.sketch import estimate, fill_trial_tables, merge, sketch
from tidemill.runtime.thresholds import sizes

TABLES = (
    (32, 3),
    (256, 2),
    (2048, 1),
    (16384, 1),
)  # (buckets, number of trial tables): with few groups the result varies, so several are averaged
_FIRST = 16  # the first part is 1/16 of the block: two points of a curve, any two far apart
_PRECISION = 11  # 2^11 registers: counts within 1.04 / √2048 = 2.3 %; three sets over a block of 131,072 rows take 4 ms


class Sketches:
    """One sketch for each candidate attribute set."""

    def __init__(self, candidates: Sequence[Sequence[int]]) -> None:
        self.candidates = candidates
        self.block = self.early = self.pairs = NO_GROUPS
        self.tables = NO_TRIALS
        self.patterns: dict[str, int] = {}

    def add(self, attributes: list[np.ndarray]) -> None:
        """Sketch the first rows of the share; later rows are ignored."""
        if self.block.rows or not attributes:
            return
        count = min(sizes.sketched_rows, len(attributes[0]))
        few = -(-count // _FIRST)
        first = self._sketch_block(attributes, slice(0, few))
        self.early = GroupCounts(few, tuple(estimate(r) for r in first))
        rest = self._sketch_block(attributes, slice(few, count))
        self.block = GroupCounts(count, tuple(estimate(merge(*pair)) for pair in zip(first, rest, strict=True)))
        rows = min(sizes.trial_table_rows, count)
        block = [a[:rows] for a in attributes]
        self.tables = TrialCounts(rows, tuple(tuple(fill_trial_tables(block, c, TABLES)) for c in self.candidates))

    def _sketch_block(self, attributes: list[np.ndarray], rows: slice) -> list[np.ndarray]:
        block = [a[rows] for a in attributes]
        return [sketch(block, c, _PRECISION) for c in self.candidates]

    def add_patterns(self, attributes: list[np.ndarray], codes: np.ndarray, known: dict[int, int], bits: int) -> None:
        """Count patterns: `codes` has the code of each row's pattern, `known` the code of each pattern. Only the lowest
        `bits` of a pattern are predicates.
        """
        if self.patterns or not len(codes) or not bits:
            return
        counts, mask = np.bincount(codes, minlength=len(known)), (1 << bits) - 1
        found: dict[int, int] = {}
        for pattern, code in known.items():
            if counts[code]:
                found[pattern & mask] = found.get(pattern & mask, 0) + int(counts[code])
        most = sorted(found.items(), key=lambda f: -f[1])[: sizes.sketched_patterns]
        self.patterns = {f"{pattern:x}": count for pattern, count in most}
        columns = [*attributes, codes]
        registers = (sketch(columns, [*c, len(attributes)], _PRECISION) for c in self.candidates)
        self.pairs = GroupCounts(len(codes), tuple(estimate(r) for r in registers))


def merge_counts(counts: Sequence[ReaderCounts]) -> SourceCounts:
    """The counts of all readers of one source as one."""
    seen = [n for n in counts if n.rows]
    if not seen:
        return SourceCounts()
    patterns: dict[str, int] = {}
    for found in seen:
        for pattern, count in found.patterns.items():
            patterns[pattern] = patterns.get(pattern, 0) + count
    rows, flushes = sum(n.rows for n in seen), sum(max(1, n.flushes) for n in seen)
    trial_rows, entries = _average([n.tables for n in seen])
    return SourceCounts(
        rows=rows,
        first=min(n.first for n in seen),
        last=max(n.last for n in seen),
        flushes=flushes,
        relations=tuple(TableCounts(*sums) for sums in np.sum([n.relations for n in seen], axis=0).tolist()),
        block=_average_groups([n.block for n in seen]),
        early=_average_groups([n.early for n in seen]),
        pairs=_average_groups([n.pairs for n in seen]),
        tables=TrialCounts(trial_rows, tuple(map(tuple, entries))),
        patterns=patterns,
        sizes=tuple(buckets for buckets, _ in TABLES),
        share=ShareSize(rows / flushes, sum(n.last - n.first for n in seen) / flushes),
        spans=tuple((n.first, n.last) for n in seen if n.flushes == 1),
    )


def _average_groups(counts: Sequence[GroupCounts]) -> GroupCounts:
    rows, groups = _average(counts)
    return GroupCounts(rows, tuple(groups))


def _average(counts: Sequence[GroupCounts | TrialCounts]) -> tuple[float, list[Any]]:
    """Rows and counts of an average share, of those that counted."""
    found = [(rows, each) for rows, each in counts if rows]
    if not found:
        return 0, []
    return sum(rows for rows, _ in found) / len(found), np.mean([each for _, each in found], axis=0).tolist()
