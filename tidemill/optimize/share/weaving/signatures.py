"""Which predicates a row satisfies, as bits (paper 003, section IV)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

WORD = 64


@dataclass
class Signatures:
    """A bit for each distinct predicate; a predicate that several queries have counts once.

    A new predicate takes the next bit, so signatures given before stay right. When the last query with a predicate is
    dropped and its bit is the most significant one, signatures get shorter: the holder of fragments must *fold* them,
    that is clear the bit. Any other bit is retired: fragments that carry it are still there. Once they have
    drained it is free and may be given again.

    >>> bits = Signatures()
    >>> bits.add("p"), bits.add("q"), bits.add("p"), bits.signature(["p", "q"])
    (0, 1, 0, 3)
    >>> bits.drop("p"), bits.width, bits.drop("p"), bits.retired
    (False, 2, False, {0})
    >>> bits.add("r"), bits.drained(0), bits.add("s")  # bit 0 is not free before it has drained
    (2, None, 0)
    """

    bits: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)
    width: int = 0

    def add(self, predicate: str) -> int:
        """The bit of a predicate that one more query has."""
        self.users[predicate] = self.users.get(predicate, 0) + 1
        if predicate not in self.bits:
            self.bits[predicate] = self._take()
        return self.bits[predicate]

    def drop(self, predicate: str, folds: bool = True) -> bool:
        """One query fewer has the predicate; True when signatures got shorter and stored ones must be folded.

        A holder that cannot fold says so: then the top bit is retired like any other.
        """
        self.users[predicate] -= 1
        if self.users[predicate]:
            return False
        del self.users[predicate]
        bit = self.bits.pop(predicate)
        if folds and bit == self.width - 1:
            self.width = bit
            self._shrink()
            return True
        self.retired.add(bit)
        return False

    def drained(self, bit: int) -> None:
        """No stored fragment carries a retired bit any more."""
        self.retired.remove(bit)
        self.free.add(bit)
        self._shrink()

    def signature(self, holds: Iterable[str]) -> int:
        """The signature of a row that satisfies these predicates."""
        return sum(1 << bit for bit in {self.bits[predicate] for predicate in holds})

    @property
    def mask(self) -> int:
        """The bits that mean something; a stored signature is folded by `& mask`."""
        return sum(1 << bit for bit in self.bits.values())

    @property
    def words(self) -> int:
        """How many 64-bit words hold a signature."""
        return max(1, -(-self.width // WORD))

    def _take(self) -> int:
        if self.free:
            bit = min(self.free)
            self.free.remove(bit)
            return bit
        self.width += 1
        return self.width - 1

    def _shrink(self) -> None:
        while self.width and self.width - 1 in self.free:
            self.width -= 1
            self.free.remove(self.width)


def split_words(signature: int, words: int) -> tuple[int, ...]:
    """A signature as 64-bit words, the least significant first.

    >>> split_words(5 + (3 << 64), 2)
    (5, 3)
    """
    return tuple(signature >> (WORD * i) & (1 << WORD) - 1 for i in range(words))
