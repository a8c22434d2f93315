"""Algorithms 1 to 9 of paper 001: a one-way join from S1 at N1 to S2 at N2, every τ.

A twin has two parts, as the pseudocode: `destination` is what N2 begins at a time point, `source` what N1 begins. The
parts of one time point are run in this order, because everything that N1 does is delayed until what N2 sends has come.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.sites.twins.wire import COUNT_BYTES, Item, Wire

Key = Callable[[Item], int]


@dataclass
class OneWay:
    """What all six have: nodes, windows, the T2-limit join, and windows that are updated semi-delayed.

    `grace` is how long removals are delayed. The paper says δ; in batches a tuple may be τ old when it probes, so it
    must be δ + τ at least.
    """

    wire: Wire
    n1: int
    n2: int
    t2: int
    grace: int
    key1: Key
    key2: Key
    partial1: int
    partial2: int
    fits: Callable[[Item, Item], bool] = lambda a, b: True
    makes_rows: bool = True
    w2: list[Item] = field(default_factory=list)

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        raise NotImplementedError

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        """(joined rows, the node that has them)."""
        raise NotImplementedError

    def update_w2(self, t: int, b2: Sequence[Item]) -> list[Item]:
        """Insert B2, remove what expired `grace` ago; the answer is what was removed."""
        self.w2 += b2
        gone = [s for s in self.w2 if s.ts < t - self.t2 - self.grace]
        self.w2 = [s for s in self.w2 if s.ts >= t - self.t2 - self.grace]
        self.wire.count(updates=len(b2) + len(gone))
        return gone

    def limit_join(self, b1: Sequence[Item], window: Sequence[Item]) -> list[Item]:
        """Constraint 3: s1 matches tuples s2 with s1.ts - T2 <= s2.ts < s1.ts.

        The paper's loop looks at every pair, and as many probes are counted; a dictionary finds the same pairs.
        """
        self.wire.count(probes=len(b1) * len(window))
        if not self.makes_rows:
            return []
        by_key: dict[int, list[Item]] = {}
        for b in window:
            by_key.setdefault(self.key2(b), []).append(b)
        return [
            a.joined(b)
            for a in b1
            for b in by_key.get(self.key1(a), ())
            if a.ts - self.t2 <= b.ts < a.ts and self.fits(a, b)
        ]

    def project(self, items: Sequence[Item], key: Key) -> list[int]:
        """The set of partial tuples."""
        return list(dict.fromkeys(map(key, items)))

    def ship_items(self, source: int, target: int, what: str, items: Sequence[Item]) -> None:
        if items:
            same = tuple(i.members for i in items)
            self.wire.ship(source, target, what, sum(i.size for i in items), same)

    def ship_keys(self, source: int, target: int, what: str, keys: Sequence[int], partial: int) -> None:
        if keys:
            self.wire.ship(source, target, what, len(keys) * partial, tuple(keys))


class SPS(OneWay):
    """Algorithm 1."""

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        self.ship_items(self.n2, self.n1, "B2", b2)  # 6
        self.update_w2(t, b2)  # 7: W2@N1

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        return self.limit_join(b1, self.w2), self.n1  # 3


class SPD(OneWay):
    """Algorithm 2."""

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        self.update_w2(t, b2)  # 7

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        self.ship_items(self.n1, self.n2, "B1", b1)  # 3
        return self.limit_join(b1, self.w2), self.n2  # 4


@dataclass
class SMS1(OneWay):
    """Algorithm 3, with 7 and 8. W2' is kept in the order of time: a tuple that is fetched for a new value may be
    older than those that are there, so appending, as a FIFO queue does, would expire the wrong ones.
    """

    copy: list[Item] = field(default_factory=list)  # W2'@N1
    sent: set[tuple[tuple[int, int], ...]] = field(default_factory=set)  # bit b

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        gone = self.update_w2(t, b2)  # 9
        k = sum(s.members in self.sent for s in gone)  # Algorithm 8
        if k:
            self.wire.ship(self.n2, self.n1, "k", COUNT_BYTES)  # 10
            self.copy = self.copy[k:]  # 11
            self.wire.count(updates=k)
        self.sent -= {s.members for s in gone}

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        k1 = self.project(b1, self.key1)
        self.ship_keys(self.n1, self.n2, "K1", k1, self.partial1)  # 3
        found = self.non_redundant_semijoin(k1)  # 4
        self.ship_items(self.n2, self.n1, "dW2'", found)  # 5
        for s in found:
            insort(self.copy, s, key=lambda x: (x.ts, x.members))
        self.wire.count(updates=len(found))
        return self.limit_join(b1, self.copy), self.n1  # 6

    def non_redundant_semijoin(self, keys: Sequence[int]) -> list[Item]:
        """Algorithm 7."""
        wanted = set(keys)
        self.wire.count(probes=len(keys) * len(self.w2))
        found = [a2 for a2 in self.w2 if self.key2(a2) in wanted and a2.members not in self.sent]
        self.sent |= {a2.members for a2 in found}
        return found


@dataclass
class Entry:
    """An entry of V2 (c, b) and, at N1, of M2 (the linked list; None while only the partial tuple is there)."""

    count: int = 0
    sent: bool = False
    full: list[Item] | None = None


@dataclass
class SMS2(OneWay):
    """Algorithm 4, with 7 and 9."""

    v2: dict[int, Entry] = field(default_factory=dict)
    m2: dict[int, Entry] = field(default_factory=dict)

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        gone = self.update_w2(t, b2)  # 11
        fresh, full = self.update_v2(b2, gone)
        counts = {j: e.count for j, e in self.v2.items()}  # v_C, entries that are removed included
        for j in [j for j, e in self.v2.items() if e.count == 0]:
            del self.v2[j]
        if counts:
            size = len(counts) * COUNT_BYTES + len(fresh) * self.partial2 + sum(s.size for s in full)
            self.wire.ship(self.n2, self.n1, "vC vJ sF", size)  # 12
        self.update_m2(fresh, counts, full)  # 13

    def update_v2(self, b2: Sequence[Item], gone: Sequence[Item]) -> tuple[list[int], list[Item]]:
        """Lines 2 to 19 of Algorithm 9: v_J and s_F."""
        fresh: list[int] = []
        full: list[Item] = []
        for s in b2:
            j = self.key2(s)
            if j in self.v2:
                self.v2[j].count += 1
                if self.v2[j].sent:
                    full.append(s)
            else:
                self.v2[j] = Entry(1)
                fresh.append(j)
        for s in gone:
            self.v2[self.key2(s)].count -= 1
        self.wire.count(hashes=len(b2) + len(gone))
        return fresh, full

    def update_m2(self, fresh: Sequence[int], counts: dict[int, int], full: Sequence[Item]) -> None:
        """Lines 24 to 40 of Algorithm 9. Line 36 is for entries with full tuples only: as printed, k is negative for a
        partial one, and line 38 then gives it a count of tuples that are not there.
        """
        for j in fresh:
            self.m2[j] = Entry()
        for j, entry in list(self.m2.items()):
            if counts[j] == 0:
                del self.m2[j]
            elif entry.full is not None:
                entry.full += [s for s in full if self.key2(s) == j]
                k = len(entry.full) - counts[j]
                entry.full = entry.full[k:]
        self.wire.count(hashes=len(fresh) + len(full))

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        keys = self.project(b1, self.key1)
        wanted = [j for j in keys if j in self.m2 and self.m2[j].full is None]  # 3: dV2'
        temp = [s for s in b1 if self.key1(s) in wanted]
        known = [s for e in self.m2.values() for s in e.full or ()]
        found = self.limit_join(b1, known)
        self.wire.count(hashes=len(b1))
        if wanted:
            self.ship_keys(self.n1, self.n2, "dV2'", wanted, self.partial2)  # 4
            fetched = [s for s in self.w2 if self.key2(s) in wanted]  # 5
            self.wire.count(probes=len(wanted) * len(self.w2))
            self.ship_items(self.n2, self.n1, "dW2'", fetched)  # 6
            for j in wanted:
                self.v2[j].sent = True
                self.m2[j].full = [s for s in fetched if self.key2(s) == j]  # 7
            found += self.limit_join(temp, fetched)  # 8
        return found, self.n1


@dataclass
class SMD1(OneWay):
    """Algorithm 5."""

    v2: dict[int, int] = field(default_factory=dict)
    copy: set[int] = field(default_factory=set)  # V2@N1

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        gone = self.update_w2(t, b2)  # 8
        fresh = [j for j in self.project(b2, self.key2) if j not in self.v2]
        for s in b2:
            self.v2[self.key2(s)] = self.v2.get(self.key2(s), 0) + 1
        for s in gone:
            self.v2[self.key2(s)] -= 1
        self.wire.count(hashes=len(b2) + len(gone))
        if self.v2:
            size = len(self.v2) * COUNT_BYTES + len(fresh) * self.partial2
            self.wire.ship(self.n2, self.n1, "vC vJ", size)  # 9
        self.v2 = {j: c for j, c in self.v2.items() if c}
        self.copy = set(self.v2)  # 10

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        reduced = [s for s in b1 if self.key1(s) in self.copy]  # 3
        self.wire.count(hashes=len(b1))
        self.ship_items(self.n1, self.n2, "B1'", reduced)  # 4
        return self.limit_join(reduced, self.w2), self.n2  # 5


class SMD2(OneWay):
    """Algorithm 6."""

    def destination(self, t: int, b2: Sequence[Item]) -> None:
        self.update_w2(t, b2)  # 11

    def source(self, t: int, b1: Sequence[Item]) -> tuple[list[Item], int]:
        k1 = self.project(b1, self.key1)
        self.ship_keys(self.n1, self.n2, "K1", k1, self.partial1)  # 3
        there = {self.key2(s) for s in self.w2}
        reduced_keys = [j for j in k1 if j in there]  # 4
        temp = [s for s in self.w2 if self.key2(s) in set(reduced_keys)]
        self.wire.count(probes=len(k1) * len(self.w2))
        self.ship_keys(self.n2, self.n1, "K1'", reduced_keys, self.partial1)  # 5
        reduced = [s for s in b1 if self.key1(s) in set(reduced_keys)]  # 6
        self.wire.count(probes=len(reduced_keys) * len(b1))
        self.ship_items(self.n1, self.n2, "B1'", reduced)  # 7
        return self.limit_join(reduced, temp), self.n2  # 8


TWINS: dict[str, type[OneWay]] = {"SP-S": SPS, "SP-D": SPD, "SM-S1": SMS1, "SM-S2": SMS2, "SM-D1": SMD1, "SM-D2": SMD2}
