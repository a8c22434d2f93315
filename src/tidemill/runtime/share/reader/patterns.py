"""Patterns: which predicates a row satisfies, as small numbers; and which queries want it (paper 003, section IV).

A pattern has a bit for each distinct predicate, and a bit for each expression that failed on the row. A relation
needs to tell apart only what the queries below it tell apart, so each has its own codes for the patterns restricted
to its bits; a pattern that no query below wants has no code. Only patterns that occur are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.plan.physical import HashTables, LftaQuery
from tidemill.runtime.kernels.share.bits import pack
from tidemill.runtime.kernels.share.sliding_rows import codes_of

_LIMB = 64  # bits of a pattern in one word
_LOW = (1 << _LIMB) - 1


class Patterns:
    """Codes of one generation of tables."""

    def __init__(self, tables: HashTables) -> None:
        self.predicates = len(tables.predicates)
        self.queries = tables.queries
        self.relations = tables.relations
        self.known: dict[int, int] = {}  # pattern → code of rows
        self.words = np.zeros(0, np.int64)  # sorted patterns of up to 64 bits, and their codes, as of the last new one
        self.word_codes = np.zeros(0, np.int32)
        self.own: list[dict[int, int]] = [{} for _ in self.relations]
        self._maps: list[np.ndarray] = [np.zeros(0, np.int32) for _ in self.relations]
        self._added: list[list[int]] = [[] for _ in self.relations]  # codes not yet appended to the maps
        self._signatures: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}  # by relation and words, as last asked for
        self.required = [self._requirement(query) for query in self.queries]
        self.requirements = [sorted({self.required[q] for q in r.queries}) for r in self.relations]
        self.masks = [_mask(wishes) for wishes in self.requirements]

    def _requirement(self, query: LftaQuery) -> tuple[int, int]:
        """(bits that must be set, bits that must not be set) in the pattern of a row that the query counts."""
        needed = 1 << query.predicate if query.predicate >= 0 else 0
        return needed, sum(1 << (self.predicates + e) for e in query.uses)

    def codes(self, truths: list[np.ndarray], failures: dict[int, np.ndarray], rows: int) -> np.ndarray:
        """The code of each row's pattern. `failures` marks rows on which an expression failed."""
        bits = {i: truth for i, truth in enumerate(truths)} | {self.predicates + e: f for e, f in failures.items()}
        if not bits:
            return np.full(rows, self._code(0), np.int32)
        order = sorted(bits)
        if len(order) <= _LIMB and order[-1] < len(order):
            return self._short_codes(pack([bits[b] for b in order]))
        numbers, patterns = _number_patterns([bits[b] for b in order])
        codes = [self._code(p if order[-1] < len(order) else _spread_bits(p, order)) for p in patterns]
        return np.array(codes, np.int32)[numbers]

    def _short_codes(self, words: np.ndarray) -> np.ndarray:
        """The codes of patterns that are words. Most are known: only new ones are looked at one by one."""
        numbers, first = codes_of([words])
        found = words[first]
        places = np.minimum(np.searchsorted(self.words, found), len(self.words) - 1)
        if not len(self.words) or (self.words[places] != found).any():
            for word in found.view(np.uint64).tolist():
                self._code(word)
            short = {pattern: code for pattern, code in self.known.items() if pattern >> _LIMB == 0}
            known, codes = np.array(list(short), np.uint64).view(np.int64), np.array(list(short.values()), np.int32)
            order = np.argsort(known)
            self.words, self.word_codes = known[order], codes[order]
            places = np.searchsorted(self.words, found)
        return self.word_codes[places][numbers]

    def _code(self, pattern: int) -> int:
        if pattern not in self.known:
            self.known[pattern] = len(self.known)
            self._extend(pattern)
        return self.known[pattern]

    def _extend(self, pattern: int) -> None:
        """Give every relation its code for a new pattern, parents first."""
        added: list[int | None] = []  # the restricted pattern where it is new to the relation
        for r, relation in enumerate(self.relations):
            above = pattern if relation.parent < 0 else added[relation.parent]
            added.append(None)
            if above is None:
                continue
            restricted = above & self.masks[r]
            wanted = any(restricted & need == need and not restricted & never for need, never in self.requirements[r])
            code = -1
            if wanted:
                if restricted not in self.own[r]:
                    self.own[r][restricted] = len(self.own[r])
                    added[r] = restricted
                code = self.own[r][restricted]
            self._added[r].append(code)

    @property
    def maps(self) -> list[np.ndarray]:
        """For each relation its own code, or -1, for each code of its parent (of a raw one: for each pattern)."""
        for r, added in enumerate(self._added):
            if added:
                self._maps[r] = np.concatenate([self._maps[r], np.array(added, np.int32)])
                added.clear()
        return self._maps

    def numbers(self, relation: int) -> np.ndarray:
        """The codes of a relation."""
        return np.arange(len(self.own[relation]), dtype=np.int32)

    def signatures(self, relation: int, words: Sequence[int]) -> np.ndarray:
        """For each code of an emitting relation the signature: a bit for each query of its leaf that wants it.

        Codes only ever come: with as many as the last time, the signatures are the same.
        """
        known = self._signatures.get((relation, tuple(words)))
        if known is None or len(known) != len(self.own[relation]):
            known = self._signatures[relation, tuple(words)] = self._make_signatures(relation, words)
        return known

    def _make_signatures(self, relation: int, words: Sequence[int]) -> np.ndarray:
        own = list(self.own[relation])
        table = np.zeros((len(own), len(words)), np.uint64)
        column = {word: i for i, word in enumerate(words)}
        asked: dict[tuple[int, int], np.ndarray] = {}  # by requirement: the bits of the queries that have it
        for number in self.relations[relation].own:
            bit = self.queries[number].bit
            found = asked.setdefault(self.required[number], np.zeros(len(words), np.uint64))
            found[column[bit // 64]] |= np.uint64(1 << (bit % 64))
        limbs = _limbs(own, _mask(list(asked)).bit_length())
        for (need, never), mask in asked.items():
            table[_find_wanted(limbs, need, never)] |= mask
        return table.view(np.int64)


def _mask(wishes: list[tuple[int, int]]) -> int:
    mask = 0
    for need, never in wishes:
        mask |= need | never
    return mask


def _number_patterns(bits: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """(number of each row's combination, the combinations as integers): dense, only those that occur.

    >>> _number_patterns([np.array([True, False, True]), np.array([False, True, False])])
    (array([0, 1, 0], dtype=int32), [1, 2])
    """
    limbs = [pack(bits[i : i + _LIMB]) for i in range(0, len(bits), _LIMB)]
    numbers, first = codes_of(limbs)
    found = [limb[first].view(np.uint64).tolist() for limb in limbs]
    return numbers, [sum(part << i * _LIMB for i, part in enumerate(parts)) for parts in zip(*found, strict=True)]


def _limbs(patterns: list[int], bits: int) -> list[np.ndarray]:
    """Patterns cut into words, the lowest bits first."""
    return [np.array([p >> i & _LOW for p in patterns], np.uint64) for i in range(0, max(bits, 1), _LIMB)]


def _find_wanted(limbs: list[np.ndarray], need: int, never: int) -> np.ndarray:
    """Which patterns have all bits of `need` and none of `never`.

    >>> _find_wanted(_limbs([0b01, 0b11, 0b10], 2), 0b01, 0b10).tolist()
    [True, False, False]
    """
    found = np.ones(len(limbs[0]), bool)
    left = need | never
    while left:  # only the words with a bit: with a thousand predicates most have none
        i = ((left & -left).bit_length() - 1) // _LIMB
        must, either = (np.uint64(bits >> i * _LIMB & _LOW) for bits in (need, left))
        found &= (limbs[i] & either) == must
        left = left >> (i + 1) * _LIMB << (i + 1) * _LIMB
    return found


def _spread_bits(packed: int, order: list[int]) -> int:
    """The pattern whose bits are at the places `order`."""
    pattern = 0
    for i, place in enumerate(order):
        pattern |= (packed >> i & 1) << place
    return pattern
