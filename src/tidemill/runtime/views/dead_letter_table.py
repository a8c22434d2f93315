"""Dead letters in the view store, up to a number of rows and bytes. The oldest are removed first, and counted."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tidemill.runtime.duckdb.temporary_tables import lend

# What a letter takes, about: its texts, and the rest of its row.
_BYTES = "32 + strlen(source) + strlen(reason) + coalesce(strlen(raw), 0) + coalesce(strlen(position), 0)"


@dataclass(frozen=True)
class Bounds:
    """How many dead letters are kept."""

    rows: int = 1_000_000
    bytes: int = 256_000_000

    @property
    def room(self) -> Bounds:
        """What is left of a full store: an eighth is removed at a time, so that most batches remove nothing."""
        return Bounds(self.rows - self.rows // 8, self.bytes - self.bytes // 8)


@dataclass(frozen=True)
class LetterCount:
    """How many dead letters there are, how large they are, and how many were removed to make room."""

    rows: int = 0
    bytes: int = 0
    dropped: int = 0


def count_letters(duck: duckdb.DuckDBPyConnection) -> LetterCount:
    """The count, from the table itself."""
    found = duck.execute(f"SELECT count(*), coalesce(sum({_BYTES}), 0)::BIGINT FROM dead_letters").fetchall()[0]
    return LetterCount(*found)


def keep_letters(
    letters: pa.Table, batch: int, before: LetterCount, bounds: Bounds, duck: duckdb.DuckDBPyConnection
) -> LetterCount:
    """Add dead letters as users see them, inside a transaction; the count afterwards."""
    surplus = max(letters.num_rows - bounds.rows, 0)
    with lend(duck, "dead", letters.slice(surplus)):
        duck.execute(
            "INSERT INTO dead_letters SELECT source, reason, raw, position, ?, CAST(now() AS TIMESTAMP) FROM dead",
            [batch],
        )
        size = duck.execute(f"SELECT coalesce(sum({_BYTES}), 0)::BIGINT FROM dead").fetchall()[0][0]
    now = LetterCount(before.rows + letters.num_rows - surplus, before.bytes + size, before.dropped + surplus)
    return now if now.rows <= bounds.rows and now.bytes <= bounds.bytes else _make_room(now, bounds, duck)


def _make_room(now: LetterCount, bounds: Bounds, duck: duckdb.DuckDBPyConnection) -> LetterCount:
    """Rows are numbered in the order in which they came."""
    first, rows, size = duck.execute(
        "SELECT min(id), count(*), coalesce(max(b), 0)::BIGINT FROM"
        f" (SELECT rowid AS id, row_number() OVER newest AS n, sum({_BYTES}) OVER newest AS b FROM dead_letters"
        " WINDOW newest AS (ORDER BY rowid DESC))"
        " WHERE n <= ? AND b <= ?",
        [bounds.room.rows, bounds.room.bytes],
    ).fetchall()[0]
    if first is None:
        duck.execute("DELETE FROM dead_letters")
    else:
        duck.execute("DELETE FROM dead_letters WHERE rowid < ?", [first])
    return LetterCount(rows, size, now.dropped + now.rows - rows)
