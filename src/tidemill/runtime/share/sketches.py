"""Statistics that a reader takes of the rows of its share: groups of many attribute sets over one block of rows and
over its first part, evictions of trial tables of several sizes, and which predicates hold at the same time.

Tables begin empty in every share, so an average share is what a plan is chosen for; the counts of several readers are
not those of one large share. (Nor could they be merged: a text has another code in each reader.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidemill.runtime.kernels.share.sketch import estimate, fill_trial_tables, merge, sketch
from tidemill.runtime.thresholds import sizes

TABLES = (
    (32, 3),
    (256, 2),
    (2048, 1),
    (16384, 1),
)  # (buckets, number of trial tables): with few groups the result varies, so several are averaged
_FIRST = 16  # the first part is 1/16 of the block
_PRECISION = 11  # 2^11 registers: counts within 1.04 / √2048 = 2.3 %, the statistics of plans need no more


class Sketches:
    """One sketch for each candidate attribute set."""

    def __init__(self, candidates: Sequence[Sequence[int]]) -> None:
        self.candidates = candidates
        self.rows = 0
        self.groups: list[float] = []  # of each attribute set
        self.early: tuple[int, list[float]] = (0, [])  # the same for some rows at the beginning
        self.tables: tuple[int, list[list[float]]] = (0, [])  # entries that trial tables made of some rows
        self.pairs: tuple[int, list[float]] = (0, [])  # some rows, and their (group, pattern) pairs
        self.patterns: dict[str, int] = {}  # rows by pattern, a number in hexadecimal digits

    def add(self, attributes: list[np.ndarray]) -> None:
        """Sketch the first rows of the share; later rows are ignored."""
        if self.rows or not attributes:
            return
        self.rows = min(sizes.sketched_rows, len(attributes[0]))
        few = -(-self.rows // _FIRST)
        first = self._sketch_block(attributes, slice(0, few))
        self.early = few, [estimate(r) for r in first]
        rest = self._sketch_block(attributes, slice(few, self.rows))
        self.groups = [estimate(merge(*pair)) for pair in zip(first, rest, strict=True)]
        rows = min(sizes.trial_table_rows, self.rows)
        block = [a[:rows] for a in attributes]
        self.tables = rows, [fill_trial_tables(block, c, TABLES) for c in self.candidates]

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
        self.pairs = len(codes), [estimate(r) for r in registers]

    def note(self) -> dict[str, Any]:
        """The counts, for a tick."""
        return {
            "block": (self.rows, self.groups),
            "early": self.early,
            "pairs": self.pairs,
            "patterns": self.patterns,
            "tables": self.tables,
        }


def merge_notes(notes: list[dict[str, Any]]) -> dict[str, Any]:
    """The notes of all readers of one source as one: counters add up, counts of groups are those of an average share.
    `share` has the rows and the microseconds of a share: what comes between two flushes of all tables. `spans` has the
    first and the last time of those readers whose tables were flushed once.
    """
    seen = [n for n in notes if n["rows"]]
    if not seen:
        return {"rows": 0}
    patterns: dict[str, int] = {}
    for note in seen:
        for pattern, count in note["patterns"].items():
            patterns[pattern] = patterns.get(pattern, 0) + count
    rows, flushes = sum(n["rows"] for n in seen), sum(max(1, n["flushes"]) for n in seen)
    return {
        "rows": rows,
        "first": min(n["first"] for n in seen),
        "last": max(n["last"] for n in seen),
        "relations": np.sum([n["relations"] for n in seen], axis=0).tolist(),
        "flushes": flushes,
        "sizes": [buckets for buckets, _ in TABLES],
        "share": [rows / flushes, sum(n["last"] - n["first"] for n in seen) / flushes],
        "patterns": patterns,
        "spans": [[n["first"], n["last"]] for n in seen if n["flushes"] == 1],
        **{name: _mean([n[name] for n in seen]) for name in ("block", "early", "pairs", "tables")},
    }


def _mean(counts: list[tuple[int, list[Any]]]) -> list[Any]:
    """Rows and counts of an average share, of those that counted."""
    found = [(rows, groups) for rows, groups in counts if rows]
    if not found:
        return [0, []]
    return [sum(rows for rows, _ in found) / len(found), np.mean([groups for _, groups in found], axis=0).tolist()]
