"""Patterns: which predicates a row satisfies, as small numbers; and which queries want it (paper 003, section IV).

A pattern has a bit for each distinct predicate, and a bit for each expression that failed on the row. A relation
needs to tell apart only what the queries below it tell apart, so each has its own codes for the patterns restricted
to its bits; a pattern that no query below wants has no code. Only patterns that occur are numbered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_DIRECT_BITS = 16


class Patterns:
    """Codes of one generation of tables."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.predicates = len(params["predicates"])
        self.queries = params["queries"]
        self.relations = params["relations"]
        self.known: dict[int, int] = {}  # pattern → code of rows
        self.own: list[dict[int, int]] = [{} for _ in self.relations]
        self.maps: list[np.ndarray] = [np.zeros(0, np.int32) for _ in self.relations]
        self.wishes = [sorted({self._wish(q) for q in r["queries"]}) for r in self.relations]
        self.masks = [_mask(wishes) for wishes in self.wishes]

    def _wish(self, number: int) -> tuple[int, int]:
        """(bits that must be set, bits that must not) for a query to want a row."""
        query = self.queries[number]
        needed = 1 << query["predicate"] if query["predicate"] >= 0 else 0
        return needed, sum(1 << (self.predicates + e) for e in query["uses"])

    def codes(self, truths: list[np.ndarray], failures: dict[int, np.ndarray], rows: int) -> np.ndarray:
        """The code of each row's pattern. `failures` marks rows on which an expression failed."""
        bits = {i: truth for i, truth in enumerate(truths)} | {self.predicates + e: f for e, f in failures.items()}
        if not bits:
            return np.full(rows, self._code(0), np.int32)
        order = sorted(bits)
        numbers, patterns = _numbered([bits[b] for b in order])
        codes = [self._code(_spread(p, order)) for p in patterns]
        return np.array(codes, np.int32)[numbers]

    def _code(self, pattern: int) -> int:
        if pattern not in self.known:
            self.known[pattern] = len(self.known)
            self._extend(pattern)
        return self.known[pattern]

    def _extend(self, pattern: int) -> None:
        """Give every relation its code for a new pattern, parents first."""
        added: list[int | None] = []  # the restricted pattern where it is new to the relation
        for r, relation in enumerate(self.relations):
            above = pattern if relation["parent"] < 0 else added[relation["parent"]]
            added.append(None)
            if above is None:
                continue
            restricted = above & self.masks[r]
            wanted = any(restricted & need == need and not restricted & never for need, never in self.wishes[r])
            code = -1
            if wanted:
                if restricted not in self.own[r]:
                    self.own[r][restricted] = len(self.own[r])
                    added[r] = restricted
                code = self.own[r][restricted]
            self.maps[r] = np.append(self.maps[r], np.int32(code))

    def signatures(self, relation: int, words: list[int]) -> np.ndarray:
        """For each code of an emitting relation the signature: a bit for each query of its leaf that wants it."""
        table = np.zeros((len(self.own[relation]), len(words)), np.uint64)
        column = {word: i for i, word in enumerate(words)}
        for pattern, code in self.own[relation].items():
            for number in self.relations[relation]["own"]:
                need, never = self._wish(number)
                if pattern & need == need and not pattern & never:
                    bit = self.queries[number]["bit"]
                    table[code, column[bit // 64]] |= np.uint64(1 << (bit % 64))
        return table.view(np.int64)


def _mask(wishes: list[tuple[int, int]]) -> int:
    mask = 0
    for need, never in wishes:
        mask |= need | never
    return mask


def _numbered(bits: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """(number of each row's combination, the combinations as integers): dense, only those that occur."""
    if len(bits) <= _DIRECT_BITS:
        direct = np.zeros(len(bits[0]), np.int32)
        for i, truth in enumerate(bits):
            direct |= truth.astype(np.int32) << i
        present = np.flatnonzero(np.bincount(direct, minlength=1))
        place = np.zeros(int(present[-1]) + 1, np.int32)
        place[present] = np.arange(len(present), dtype=np.int32)
        return place[direct], present.tolist()
    half = len(bits) // 2
    (low, lows), (high, highs) = _numbered(bits[:half]), _numbered(bits[half:])
    pairs = pa.array(high.astype(np.int64) * len(lows) + low).dictionary_encode()
    found = pairs.dictionary.to_pylist()
    return pairs.indices.to_numpy(), [lows[p % len(lows)] | highs[p // len(lows)] << half for p in found]


def _spread(packed: int, order: list[int]) -> int:
    """The pattern whose bits are at the places `order`."""
    pattern = 0
    for i, place in enumerate(order):
        pattern |= (packed >> i & 1) << place
    return pattern
