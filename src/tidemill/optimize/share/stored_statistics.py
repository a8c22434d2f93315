"""Statistics of one source as the catalog stores them: JSON, of which versions before wrote less.

`update_statistics` makes them after a batch; `read_statistics` makes of them what the cost model asks for.
"""

from __future__ import annotations

from typing import TypedDict

AttributeSet = str  # names in order, joined by \\x1f
Counted = tuple[float, dict[AttributeSet, float]]  # rows, and groups or pairs of these; an array in JSON


class TableStatistics(TypedDict):
    """What a table of the last batch did, and which one it was."""

    probes: int
    collisions: int
    turnovers: int
    flushed: int
    buckets: int
    feeder: str | None


class FlowLength(TypedDict):
    """How long entries of a table flow on: `met` was observed, `certain` is what chance does not explain."""

    feeder: str | None
    buckets: int
    rows: float  # of a share
    met: float
    certain: float


class WindowStatistics(TypedDict, total=False):
    """All of an average share, but `rows`, which are those of the last batch."""

    rows: int
    rate: float  # rows a second
    seconds: float
    share: list[float]  # rows, seconds
    shares: int
    loose: list[float]  # fragments that no edge ends; the batches of this average
    groups: dict[AttributeSet, float]  # of the block of rows that was sampled
    tuples: float  # rows of that block
    first: Counted  # of its first part
    pairs: Counted  # (group, pattern) pairs
    tried: tuple[float, list[int], dict[AttributeSet, list[float]]]  # trial tables: rows, sizes, entries
    predicates: list[str]
    reads: dict[str, list[str]]  # predicate → its columns
    patterns: dict[str, int]  # rows by the predicates that hold, as hexadecimal bits
    relations: dict[str, TableStatistics]  # by label
    flows: list[float]  # flow lengths by depth
    lengths: dict[str, FlowLength]  # of single tables, by label
    idle: dict[AttributeSet, float]  # phantoms that evicted all they were fed with: rows for each group
    fed: dict[AttributeSet, list[int]]  # probes and evictions of phantoms that got too few for a verdict
