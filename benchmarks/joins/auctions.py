"""Bids, auctions and persons of an online auction, for Example 1 of paper 000.

Proportions are those of the Nexmark benchmark: of 50 events one is a new person, three are auctions, 46 are bids. Bids
go to the auctions that are open, some of which are much more popular than others (a Zipf law); an auction closes when
enough newer ones have come. No bid is earlier than its auction.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.packets import EPOCH_US

RATE, CYCLE, PERSONS, AUCTIONS = 250, 50, 1, 3
OPEN, POPULARITY = 10_000, 0.8
STATES = tuple(
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA"
    " RI SC SD TN TX UT VT VA WA WV WI WY".split()
)
STREAMS = {
    "Bid": {"ts": "TIMESTAMP", "auctionID": "INT", "bidderID": "INT", "bidPrice": "INT"},
    "Auction": {"ts": "TIMESTAMP", "auctionID": "INT", "sellerID": "INT", "startPrice": "INT"},
}
PERSON = {"personID": "INT", "name": "VARCHAR", "state": "VARCHAR"}
_SEED = 11

Array = NDArray[np.int64]


def house(events: int, files: int = 8) -> str:
    """Folder with the folders Bid, Auction and Person, Parquet files in event-time order."""

    def write(folder: str) -> None:
        for name, rows in generated(events).items():
            data.in_files(rows, os.path.join(folder, name), files if name in STREAMS else 1)

    return data._cached(f"auctions-{events}-{files}", write)


def generated(events: int) -> dict[str, pa.Table]:
    """All rows of all three."""
    chance = np.random.default_rng((_SEED, events))
    number = np.arange(events)
    place, cycle = number % CYCLE, number // CYCLE
    auction = (place >= PERSONS) & (place < PERSONS + AUCTIONS)
    bid = place >= PERSONS + AUCTIONS
    persons = int(cycle[-1]) + 1
    ids = np.cumsum(auction) - 1
    last = ids[bid]
    return {
        "Bid": pa.table(
            {
                "ts": _times(number[bid]),
                "auctionID": chosen(chance, last).astype(np.int32),
                "bidderID": chance.integers(0, persons, len(last), dtype=np.int32),
                "bidPrice": chance.integers(1, 10_000, len(last), dtype=np.int32),
            }
        ),
        "Auction": pa.table(
            {
                "ts": _times(number[auction]),
                "auctionID": ids[auction].astype(np.int32),
                "sellerID": chance.integers(0, persons, int(auction.sum()), dtype=np.int32),
                "startPrice": chance.integers(1, 1_000, int(auction.sum()), dtype=np.int32),
            }
        ),
        "Person": pa.table(
            {
                "personID": np.arange(persons, dtype=np.int32),
                "name": [f"person {i}" for i in range(persons)],
                "state": np.array(STATES)[chance.integers(0, len(STATES), persons)],
            }
        ),
    }


def chosen(chance: np.random.Generator, last: Array) -> Array:
    """An auction for each bid, when the newest auction is `last`: place z of those open with P(z) ~ z^-0.8; the newest
    auction whose number is z modulo the number of places is the one in place z."""
    weights = np.arange(1, OPEN + 1) ** -POPULARITY
    drawn = np.searchsorted(np.cumsum(weights / weights.sum()), chance.random(len(last)))
    places = np.random.default_rng(_SEED).permutation(OPEN)[np.minimum(drawn, OPEN - 1)]
    found = last - (last - places) % OPEN
    return np.where(found >= 0, found, places % (last + 1))


def _times(number: Array) -> pa.Array:
    return pa.array(EPOCH_US + number * 1_000_000 // RATE).cast(pa.timestamp("us"))


def rows(events: int) -> int:
    """Rows of the two streams together: all events but the persons.

    >>> rows(2_000_000)
    1960000
    """
    return events - -(-events // CYCLE) * PERSONS
