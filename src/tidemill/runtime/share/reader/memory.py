"""How much a reader keeps beside its hash tables: evicted entries, cells of queries, running totals.

The tables have `lfta_memory`. What waits beside them until it leaves has as much again, where a user has set a limit:
at least 4 MiB, since every block of rows costs some calls whatever its size, and few entries have few equal ones;
a quarter for evicted entries that are not combined yet, a quarter for cells, half for running totals. Where that is
too little for running totals, tables are used instead; entries or cells above the limit leave before the share ends.
No answer depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.runtime.thresholds import sizes


@dataclass(frozen=True)
class Limits:
    """Limits: entries and cells that are kept, rows that probe between two checks, bytes of running totals (None: no
    running totals).
    """

    pending: int
    cells: int
    block: int
    running: int | None
    tight: bool = False  # a user has set a limit: entries are counted after every block

    @classmethod
    def of(cls, budget: int | None, words: int, emitting: int) -> Limits:
        """Limits for a budget in bytes (None: the default sizes), entries of `words` words and `emitting` tables that
        emit.

        >>> limits = Limits.of(8_000_000, words=5, emitting=2)
        >>> limits.pending, limits.cells, limits.block, limits.running
        (50000, 50000, 25000, None)
        """
        if budget is None:
            return cls(sizes.pending_entries, sizes.kept_cells, sizes.block_rows, sizes.running_bytes)
        budget = max(budget, sizes.beside_bytes_least)
        entries = max(1, budget // 4 // (8 * words))
        running = min(sizes.running_bytes, budget // 2) if budget // 2 >= sizes.running_least_bytes else None
        return cls(
            min(sizes.pending_entries, entries),
            min(sizes.kept_cells, entries),
            max(1, min(sizes.block_rows, entries // max(1, emitting))),
            running,
            True,
        )
