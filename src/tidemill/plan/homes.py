"""How the rows of an operator or a port lie in the shards: what a change of their number has to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Home:
    """'any' shard, all in the first 'one', a copy in 'all', or by the 'hash' of columns; each position of `by` lists
    names of equal values.
    """

    how: Literal["any", "one", "all", "hash"]
    by: tuple[frozenset[str], ...] = ()

    def columns(self, names: list[str]) -> list[str] | None:
        """The columns of a table by whose hash its rows lie; None where it does not have all of them.

        >>> Home("hash", (frozenset({"k", "K"}), frozenset({"v"}))).columns(["__h", "v", "k"])
        ['k', 'v']
        """
        found = [next((n for n in sorted(equal) if n in names), None) for equal in self.by]
        return None if None in found else [n for n in found if n is not None]
