"""The questions: aggregates over joins, the same for every engine.

A work reads a folder that has a folder for each of its streams and tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.joins import auctions, streams

# The ways to write a work for an engine; each side tells what they are.
ASKED, BY_HAND = "as asked", "by hand"
_PACKETS = {"sip": "INT", "len": "INT", "ts": "TIMESTAMP"}
_WINDOW = f"[RANGE {streams.SECONDS} SECONDS SLIDE {streams.SECONDS} SECONDS]"
_MATCHED = f"FROM PacketsA AS A {_WINDOW}, PacketsB AS B {_WINDOW} WHERE A.sip = B.sip GROUP BY A.sip"


@dataclass(frozen=True)
class Work:
    """One question: what it reads (streams have their event time in `ts`), its answer, and how Tidemill is asked."""

    name: str
    title: str
    streams: dict[str, dict[str, str]]
    columns: tuple[str, ...]
    select: str
    tables: dict[str, dict[str, str]] = field(default_factory=dict)


WORKS = {
    work.name: work
    for work in (
        Work(
            "J1",
            "SUM(A.len), COUNT(*) by sip over a join of 10 s windows",
            {name: _PACKETS for name in streams.NAMES},
            ("sip", "s", "n"),
            f"SELECT A.sip, sum(A.len) AS s, count(*) AS n {_MATCHED}",
        ),
        Work(
            "J1both",
            "SUM(A.len), SUM(B.len), COUNT(*) by sip over a join of 10 s windows",
            {name: _PACKETS for name in streams.NAMES},
            ("sip", "s", "t", "n"),
            f"SELECT A.sip, sum(A.len) AS s, sum(B.len) AS t, count(*) AS n {_MATCHED}",
        ),
        Work(
            "J2",
            "Example 1: bids of the last hour for each auction of a seller from Vermont, every minute",
            auctions.STREAMS,
            ("auctionID", "n"),
            "SELECT A.auctionID, count(B.*) AS n FROM Auction AS A [WINDOW UNTIL NOW] SYNC EVERY 1 MINUTE,"
            " Bid AS B [WINDOW 1 HOUR] SYNC EVERY 1 MINUTE, Person AS P WHERE A.auctionID = B.auctionID"
            " AND A.sellerID = P.personID AND P.state = 'VT' GROUP BY A.auctionID",
            {"Person": auctions.PERSON},
        ),
    )
}
