"""What an operator did: rows in, rows out, time. Counted in readers and shards, added up on the way to the engine.

Rows are lengths of tables that are there anyway, and a batch takes the time of an operator twice: counting is free.
Linear operators that run as one SQL statement are counted as one, under the name of the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")


class OperatorCount(NamedTuple):
    """`rows_in` and `rows_out` are changes, `seconds` its own time; `growth` is by how many rows its answer grew, where
    that is known (taggers, groupings).
    """

    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    growth: int = 0

    def add(self, other: OperatorCount) -> OperatorCount:
        """Both together.

        >>> OperatorCount(3, 1, 0.5).add(OperatorCount(2, 2, 0.25, 1))
        OperatorCount(rows_in=5, rows_out=3, seconds=0.75, growth=1)
        """
        return OperatorCount(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.seconds + other.seconds,
            self.growth + other.growth,
        )


Counts = dict[str, OperatorCount]  # by the id of the operator


@dataclass(frozen=True)
class ShedCount:
    """Updates that one operator has dropped in one shard: of a source, for streams with a key."""

    source: str
    keys: tuple[str, ...]
    rows: int


def add_count(counts: Counts, op: str, count: OperatorCount) -> None:
    """Add what an operator did to what is known of it."""
    counts[op] = counts[op].add(count) if op in counts else count


def add_counts(*found: Mapping[str, OperatorCount]) -> Counts:
    """The counts of several readers, shards or batches together."""
    total: Counts = {}
    for counts in found:
        for op, count in counts.items():
            add_count(total, op, count)
    return total


def rows_of(tables: Iterable[pa.Table | None]) -> int:
    """Rows of all tables."""
    return sum(table.num_rows for table in tables if table is not None)


def growth_of(table: pa.Table | None) -> int:
    """By how many rows a relation grows with a table of changes."""
    return pc.sum(table.column("__diff")).as_py() or 0 if table is not None and table.num_rows else 0


def time_each(items: Iterator[T], spent: list[float]) -> Iterator[T]:
    """The items; the time that they took to make is added to spent[0]."""
    while True:
        began = time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            spent[0] += time.perf_counter() - began
        yield item
