"""How the rows of an operator or a port are distributed over the shards; rescaling needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Home:
    """In 'any' shard, all in the first ('one'), a copy in 'all', or by the 'hash' of columns; each position of `by`
    lists columns with equal values.
    """

    how: Literal["any", "one", "all", "hash"]
    by: tuple[frozenset[str], ...] = ()

    def columns(self, names: list[str]) -> list[str] | None:
        """The columns of a table by whose hash its rows are distributed; None where it does not have all of them.

        >>> Home("hash", (frozenset({"k", "K"}), frozenset({"v"}))).columns(["__h", "v", "k"])
        ['k', 'v']
        """
        found = [next((n for n in sorted(equal) if n in names), None) for equal in self.by]
        return None if None in found else [n for n in found if n is not None]
