"""What readers count of the hash tables of shared windows in a micro-batch (paper 002, sections 4.1 and 5.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class TableCounts(NamedTuple):
    """What the table of one relation did: rows and entries that it was given, and entries that left it for each reason:
    another key, another fragment, the end of the share.
    """

    probes: int
    collisions: int
    turnovers: int
    flushed: int


class GroupCounts(NamedTuple):
    """Some rows, and how many groups of each candidate attribute set they have."""

    rows: float = 0
    groups: tuple[float, ...] = ()


class TrialCounts(NamedTuple):
    """Some rows, and for each candidate attribute set the entries that trial tables of several sizes made of them."""

    rows: float = 0
    entries: tuple[tuple[float, ...], ...] = ()


class ShareSize(NamedTuple):
    """A share: what comes between two flushes of all tables."""

    rows: float = 0
    micros: float = 0


NO_GROUPS, NO_TRIALS, NO_SHARE = GroupCounts(), TrialCounts(), ShareSize()


@dataclass(frozen=True)
class ReaderCounts:
    """What one reader counted of a source: its rows, their first and last time, its tables in the order of the plan,
    and samples of its rows.

    `block` is the sample, `early` its first part, `pairs` has (group, pattern) pairs instead of groups, and `patterns`
    rows by pattern, a number in hexadecimal digits.
    """

    rows: int = 0
    first: int = 0
    last: int = 0
    flushes: int = 0
    relations: tuple[TableCounts, ...] = ()
    block: GroupCounts = NO_GROUPS
    early: GroupCounts = NO_GROUPS
    pairs: GroupCounts = NO_GROUPS
    tables: TrialCounts = NO_TRIALS
    patterns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceCounts(ReaderCounts):
    """All readers of a source together: counters add up, samples are those of an average share.

    `sizes` are the buckets of the trial tables. `spans` has the first and the last time of those readers whose tables
    were flushed once.
    """

    sizes: tuple[int, ...] = ()
    share: ShareSize = NO_SHARE
    spans: tuple[tuple[int, int], ...] = ()
