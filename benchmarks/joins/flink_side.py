"""Flink SQL in streaming mode, event time, state on the heap.

as asked   J1: window join of two TUMBLE functions, then GROUP BY window, sip. J2: bids join the auctions as of their
           time (a regular join would lose event time, an interval join would hold the answers back), HOP of 1 hour
by hand    J1: both streams are grouped first, then joined
"""

from __future__ import annotations

from typing import Any

from benchmarks import flink
from benchmarks.joins.streams import SECONDS
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS

WAYS = {"J1": (ASKED, BY_HAND), "J2": (ASKED,)}
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "mini-batches": flink.MINI_BATCHES,
    "one phase": {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
}
_KEYS = {"Auction": "auctionID", "Person": "personID"}
_USED = {"Bid": ("ts", "auctionID"), "Auction": ("ts", "auctionID", "sellerID"), "Person": ("personID", "state")}


class FlinkSide(flink.Flink):
    """Streams and tables are Parquet files, read in order."""

    def measure(self, folder: str, work: str, way: str, setting: str, kept: str) -> dict[str, Any]:
        """Seconds from the statement to its end; the answer is Parquet files in a folder."""
        question = WORKS[work]
        # One reader for each: when two small files are read at once, one reader may get both, the later one first, and
        # rows of the other are late. Two streams keep two cores busy.
        sources = {
            name: flink.source(
                f"{folder}/{name}", {n: columns[n] for n in _USED.get(name, columns)}, readers=1, key=_KEYS.get(name)
            )
            for name, columns in {**question.streams, **question.tables}.items()
        }
        types = {n: "INT" if n in ("sip", "auctionID") else "BIGINT" for n in question.columns}
        views, select = SELECTS[work][way]
        return self.run(
            sources, [*views, flink.sink(work, types, kept)], [f"INSERT INTO {work} {select}"], SETTINGS[setting]
        )


def _tumble(name: str) -> str:
    return f"TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '{SECONDS}' SECOND))"


def _set(name: str, sums: str) -> str:
    return f"(SELECT window_start, window_end, sip, {sums} FROM {_tumble(name)} GROUP BY window_start, window_end, sip)"


_SAME = "a.sip = b.sip AND a.window_start = b.window_start AND a.window_end = b.window_end"
_HOP = "HOP(TABLE Matched, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)"
_SUMS = "sum(CAST(len AS BIGINT)) AS s, count(*) AS n"

SELECTS: dict[str, dict[str, tuple[list[str], str]]] = {
    "J1": {
        ASKED: (
            [],
            "SELECT a.window_end, a.sip, sum(CAST(a.len AS BIGINT)), count(*)"
            f" FROM (SELECT * FROM {_tumble('PacketsA')}) a JOIN (SELECT * FROM {_tumble('PacketsB')}) b ON {_SAME}"
            " GROUP BY a.window_start, a.window_end, a.sip",
        ),
        BY_HAND: (
            [],
            f"SELECT a.window_end, a.sip, a.s * b.n, a.n * b.n FROM {_set('PacketsA', _SUMS)} a"
            f" JOIN {_set('PacketsB', 'count(*) AS n')} b ON {_SAME}",
        ),
    },
    "J2": {
        ASKED: (
            [
                "CREATE TEMPORARY VIEW Matched AS SELECT b.ts, b.auctionID FROM Bid AS b"
                " JOIN Auction FOR SYSTEM_TIME AS OF b.ts AS a ON b.auctionID = a.auctionID"
                " JOIN Person FOR SYSTEM_TIME AS OF b.ts AS p ON a.sellerID = p.personID WHERE p.state = 'VT'"
            ],
            f"SELECT window_end, auctionID, count(*) FROM TABLE({_HOP}) GROUP BY window_start, window_end, auctionID",
        )
    },
}
