"""Which keys of an aggregation join are worth splitting over the shards.

The load of a shard is that of its pairs and its changes. Splitting a key by the rows of one input divides its pairs,
and its changes of that input, by the number of shards; its changes of all other inputs are copied to every shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.optimize.joins.cost import Constants
from tidemill.plan.measured.joins import JoinCounts

MOST_KEYS = 64  # split keys of one join: a key that was split stays split
MARGIN = 0.2  # least part of its load that the busiest shard must save


@dataclass(frozen=True)
class Suspect:
    """A key with many pairs: the shard that has them (`home`), and its changes by input."""

    hash: int
    text: str
    home: int
    pairs: float
    changes: tuple[float, ...]

    def spread(self, able: Iterable[int]) -> int:
        """The input to spread: the one with the most changes, since the others are copied."""
        return max(able, key=lambda i: (self.changes[i], -i))


def find_suspects(notes: Sequence[JoinCounts]) -> list[Suspect]:
    """Keys with more than 1 / (2 · shards) of all pairs, most pairs first. `notes` are the counts of the shards.

    >>> from tidemill.plan.measured.joins import HotKeyCounts
    >>> hot = (HotKeyCounts(7, "a", 800, (3, 4)), HotKeyCounts(8, "b", 90, (1, 1)))
    >>> [s.text for s in find_suspects([JoinCounts((), 900, hot=hot), JoinCounts((), 100)])]
    ['a']
    """
    least = sum(n.pairs for n in notes) / (2 * len(notes))
    found = [
        Suspect(key.hash, key.text, home, key.pairs, key.changes)
        for home, note in enumerate(notes)
        for key in note.hot
        if key.pairs > least
    ]
    return sorted(found, key=lambda s: (-s.pairs, s.hash))


def worth_splitting(
    found: Sequence[Suspect], notes: Sequence[JoinCounts], able: Sequence[int], constants: Constants
) -> list[Suspect]:
    """The first suspects, as many as minimize the load of the busiest shard; none if that saves less than a fifth.

    >>> from tidemill.plan.measured.joins import JoinInputCounts
    >>> one = Suspect(7, "a", 0, 800.0, (40.0, 10.0))
    >>> changed = lambda *counts: tuple(JoinInputCounts(changes=c) for c in counts)
    >>> notes = [JoinCounts(changed(50, 20), 900), JoinCounts(changed(10, 10), 100)]
    >>> [s.text for s in worth_splitting([one], notes, [0, 1], Constants())]  # 900 pairs, then 500
    ['a']
    >>> worth_splitting([Suspect(7, "a", 0, 90.0, (40.0, 900.0))], notes, [0], Constants())
    []
    """
    if len(notes) < 2 or not able:
        return []
    loads = [constants.P_h * n.pairs + constants.U_h * sum(i.changes for i in n.inputs) for n in notes]
    before = best = max(loads)
    chosen = 0
    for number, suspect in enumerate(found, 1):
        loads = _loads_after_split(suspect, loads, suspect.spread(able), constants)
        if max(loads) < best:
            best, chosen = max(loads), number
    return list(found[:chosen]) if best < (1 - MARGIN) * before else []


def _loads_after_split(suspect: Suspect, loads: Sequence[float], spread: int, constants: Constants) -> list[float]:
    """The load of every shard after a key is split."""
    moved = constants.P_h * suspect.pairs + constants.U_h * suspect.changes[spread]
    copied = constants.U_h * (sum(suspect.changes) - suspect.changes[spread])
    share = moved / len(loads)
    return [load + share - moved if i == suspect.home else load + share + copied for i, load in enumerate(loads)]
