"""What one shard counts of an aggregation join in a micro-batch (paper 000, section 5: the parameters of a plan)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class StoredRows:
    """What a shard has stored of one input: `stored` rows, about `sets` different K_i and `values` join values."""

    stored: int = 0
    bytes: int = 0
    sets: int = 0
    values: int = 0


@dataclass(frozen=True)
class JoinInputCounts(StoredRows):
    """One input of the join: its changes, its stored rows, and the matches of probes into it.

    `changes` are closed changes, `set_changes` how many those of a late input would be in early form. `arrived` counts
    all insertions and deletions ever received, closed or not: once a set has closed, opposite changes have cancelled.
    `rows` are those of the window now. `late_met` and `early_met` are the rows that probes matched, or would have
    matched, in either form.
    """

    changes: int = 0
    set_changes: int = 0
    arrived: int = 0
    rows: int = 0
    probes: int = 0
    met: int = 0
    late_met: int = 0
    early_met: int = 0


class HotKeyCounts(NamedTuple):
    """A key that has many of the pairs of a shard: its hash, its text, its pairs, its changes of each input."""

    hash: int
    text: str
    pairs: float
    changes: tuple[float, ...]


@dataclass(frozen=True)
class JoinCounts:
    """The whole join: what each input did, the pairs that were joined, the groups of the output that changed.

    `times` are the first and the last time of changes, without rows of static tables, which precede all times.
    """

    inputs: tuple[JoinInputCounts, ...]
    pairs: int
    frontier: int = 0
    times: tuple[int, int] | None = None
    groups: int = 0
    hot: tuple[HotKeyCounts, ...] = ()
