"""DuckDB in batch on all cores, the answers as tables in memory: what every other answer is checked against.

as asked   join, then GROUP BY
by hand    aggregate before the join where that shrinks it (an early aggregation plan of paper 000)
"""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks import answers
from benchmarks.joins.streams import SECONDS
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS, Work

_BUCKET = f"epoch_us(ts) // {SECONDS * 1_000_000}"
_MINUTE, _HOUR = 60_000_000, 60
_END = f"make_timestamp((w + 1) * {SECONDS * 1_000_000}) AS TS"


class DuckDBSide:
    """One connection in memory, a thread for each core."""

    def __init__(self) -> None:
        import duckdb

        self.db = duckdb.connect()
        self.db.execute(f"SET threads = {len(os.sched_getaffinity(0))}")

    def measure(self, folder: str, work: str, way: str, kept: str | None) -> dict[str, Any]:
        """Seconds until the answer is in a table; it is kept in a folder afterwards."""
        question = WORKS[work]
        text = SELECTS[way][work].format(**{n: _files(folder, n) for n in (*question.streams, *question.tables)})
        began = time.perf_counter()
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {text}")
        seconds = time.perf_counter() - began
        if kept:
            answers.store(kept, question, self.db.sql("FROM answer").to_arrow_table())
        return {"seconds": seconds}

    def pairs(self, folder: str, work: Work) -> int:
        """How many pairs of packets match in all windows."""
        a, b = (
            f"SELECT {_BUCKET} AS w, sip, count(*) AS n FROM {_files(folder, n)} GROUP BY ALL" for n in work.streams
        )
        (found,) = self.db.execute(f"SELECT sum(a.n * b.n)::BIGINT FROM ({a}) a JOIN ({b}) b USING (w, sip)").fetchall()
        return int(found[0])


def _files(folder: str, name: str) -> str:
    return f"read_parquet('{folder}/{name}/*.parquet')"


_JOINED = (
    f"(SELECT sip, len, {_BUCKET} AS w FROM {{PacketsA}}) a JOIN (SELECT sip, len, {_BUCKET} AS w FROM {{PacketsB}}) b"
    " USING (w, sip) GROUP BY w, sip"
)
_SETS = (
    f"(SELECT sip, sum(len) AS s, count(*) AS n, {_BUCKET} AS w FROM {{PacketsA}} GROUP BY ALL) a JOIN"
    f" (SELECT sip, sum(len) AS s, count(*) AS n, {_BUCKET} AS w FROM {{PacketsB}} GROUP BY ALL) b USING (w, sip)"
)
_VERMONT = "SELECT auctionID FROM {Auction} JOIN {Person} ON sellerID = personID WHERE state = 'VT'"
# A bid of minute m is in the windows that end with minutes m + 1 to m + 60; none is earlier than its auction.
_WINDOWS = (
    f"SELECT make_timestamp(point * {_MINUTE}) AS TS, auctionID, sum(n)::BIGINT AS n FROM (SELECT"
    f" unnest(range(m + 1, m + {_HOUR + 1})) AS point, auctionID, n FROM"
    f" ({{counted}})) GROUP BY point, auctionID"
)
_COUNTED = f"SELECT epoch_us(ts) // {_MINUTE} AS m, auctionID, count(*) AS n FROM {{bids}} GROUP BY ALL"

SELECTS = {
    ASKED: {
        "J1": f"SELECT {_END}, sip, sum(a.len)::BIGINT AS s, count(*) AS n FROM {_JOINED}",
        "J1both": f"SELECT {_END}, sip, sum(a.len)::BIGINT AS s, sum(b.len)::BIGINT AS t, count(*) AS n FROM {_JOINED}",
        "J2": _WINDOWS.replace(
            "{counted}", _COUNTED.replace("{bids}", f"(SELECT * FROM {{Bid}} JOIN ({_VERMONT}) USING (auctionID))")
        ),
    },
    BY_HAND: {
        "J1": f"SELECT {_END}, sip, (a.s * b.n)::BIGINT AS s, a.n * b.n AS n FROM {_SETS}",
        "J1both": f"SELECT {_END}, sip, (a.s * b.n)::BIGINT AS s, (b.s * a.n)::BIGINT AS t, a.n * b.n AS n"
        f" FROM {_SETS}",
        "J2": _WINDOWS.replace(
            "{counted}",
            f"SELECT m, auctionID, n FROM ({_COUNTED.replace('{bids}', '{Bid}')}) JOIN ({_VERMONT}) USING (auctionID)",
        ),
    },
}
