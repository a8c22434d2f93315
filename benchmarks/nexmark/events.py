"""Persons, auctions and bids with the proportions and distributions of the Nexmark generator, a function of the seed.

Event number e belongs to cycle e // 50: its first event is a new person, the next three are auctions, the other 46 are
bids. Half of the bids go to a hot auction, the last whose number divides by 100, the others to one of the 100 newest
and the 10 that will come next; three quarters of bidders and sellers are hot persons likewise. A bid may so be earlier
than its auction. Prices have logarithms that are evenly spread over six decades. Times are whole milliseconds.
"""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.nexmark.texts import bytes_of, digits, exact_texts, filling, spread_texts

PERSONS, AUCTIONS, BIDS = 1, 3, 46
CYCLE = PERSONS + AUCTIONS + BIDS
RATE = 10_000  # events a second
BEGIN_US = 1_700_000_000_000_000
FIRST, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
OPEN, ACTIVE, LEAD, HOT_EACH = 100, 1_000, 10, 100
HOT_AUCTIONS, HOT_PERSONS, HOT_CHANNELS = 2, 4, 2
CHANNELS, SIDE_ROWS = 10_000, 10_000
CHUNK = 1_000_000  # events that are made at a time, each with its own random numbers
_NAMED = ("Google", "Facebook", "Baidu", "Apple")
_FIRST_NAMES = tuple("Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split())
_LAST_NAMES = tuple("Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split())
_STATES = tuple("AZ CA ID OR WA WY".split())
_CITIES = tuple("Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(","))
COLUMNS = {
    "person": {
        "id": "BIGINT", "name": "VARCHAR", "emailAddress": "VARCHAR", "creditCard": "VARCHAR", "city": "VARCHAR",
        "state": "VARCHAR", "dateTime": "TIMESTAMP", "extra": "VARCHAR",
    },
    "auction": {
        "id": "BIGINT", "itemName": "VARCHAR", "description": "VARCHAR", "initialBid": "BIGINT", "reserve": "BIGINT",
        "dateTime": "TIMESTAMP", "expires": "TIMESTAMP", "seller": "BIGINT", "category": "BIGINT", "extra": "VARCHAR",
    },
    "bid": {
        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "VARCHAR", "url": "VARCHAR",
        "dateTime": "TIMESTAMP", "extra": "VARCHAR",
    },
}  # fmt: skip
SIDE = {"key": "BIGINT", "value": "VARCHAR"}

Array = NDArray[np.int64]


def folder(events: int, seed: int = 7) -> str:
    """Folder with the folders person, auction, bid and side_input, Parquet files in event-time order."""

    def write(place: str) -> None:
        for kind in (*COLUMNS, "side_input"):
            os.makedirs(os.path.join(place, kind))
        for number, (low, high) in enumerate(pairwise([*range(0, events, min(CHUNK, -(-events // 4))), events])):
            for kind, rows in generated(low, high, seed).items():
                path = os.path.join(place, kind, f"{number:03d}.parquet")
                pq.write_table(rows, path, row_group_size=250_000)
                os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in order of their age
        keys = np.arange(SIDE_ROWS)
        side = pa.table({"key": keys, "value": pa.array(keys).cast(pa.string())})
        pq.write_table(side, os.path.join(place, "side_input", "000.parquet"))

    return data._cached(f"nexmark-{events}-{seed}", write)


def generated(low: int, high: int, seed: int = 7) -> dict[str, pa.Table]:
    """The events with numbers from `low` to `high`, by kind."""
    number = np.arange(low, high)
    place = number % CYCLE
    chance = np.random.default_rng((seed, low))
    return {
        "person": _person(chance, number[place < PERSONS]),
        "auction": _auction(chance, number[(place >= PERSONS) & (place < PERSONS + AUCTIONS)]),
        "bid": _bid(chance, number[place >= PERSONS + AUCTIONS], seed),
    }


def last_person(number: Array) -> Array:
    """The newest person when an event comes.

    >>> last_person(np.array([0, 1, 49, 50])).tolist()
    [0, 0, 0, 1]
    """
    return number // CYCLE


def last_auction(number: Array) -> Array:
    """The newest auction when an event comes; before the first one there is number -1.

    >>> last_auction(np.array([0, 1, 3, 49, 50, 51])).tolist()
    [-1, 0, 2, 2, 2, 3]
    """
    place = number % CYCLE - PERSONS
    return number // CYCLE * AUCTIONS + np.clip(place, -1, AUCTIONS - 1)


def _person(chance: np.random.Generator, number: Array) -> pa.Table:
    rows = len(number)
    name = pc.binary_join_element_wise(_pick(chance, _FIRST_NAMES, rows), _pick(chance, _LAST_NAMES, rows), " ")
    email = pc.binary_join_element_wise(
        pc.binary_join_element_wise(spread_texts(chance, rows, 7), spread_texts(chance, rows, 5), "@"), "com", "."
    )
    card, city, state = digits(chance, rows, 4), _pick(chance, _CITIES, rows), _pick(chance, _STATES, rows)
    size: Array = sum((bytes_of(column) for column in (name, email, card, city, state)), np.full(rows, 8))
    values = (FIRST + last_person(number), name, email, card, city, state, _times(number), filling(chance, size, 200))
    return pa.table(dict(zip(COLUMNS["person"], values, strict=True)))


def _auction(chance: np.random.Generator, number: Array) -> pa.Table:
    rows = len(number)
    first, reserve = _prices(chance, rows), _prices(chance, rows)
    newest = last_person(number)
    hot = chance.integers(0, HOT_PERSONS, rows) > 0
    seller = np.where(hot, newest // HOT_EACH * HOT_EACH, _active_persons(chance, newest))
    item, told = spread_texts(chance, rows, 20), spread_texts(chance, rows, 100)
    # An auction is open for up to twice the time in which as many new ones come as are open at once.
    horizon = OPEN * CYCLE // AUCTIONS * 1_000 // RATE
    expires = _milliseconds(number) + 1 + chance.integers(0, max(2 * horizon, 1), rows)
    size = 48 + bytes_of(item) + bytes_of(told)
    values = (
        FIRST + last_auction(number), item, told, first, first + reserve, _times(number), _stamps(expires),
        FIRST + seller, FIRST_CATEGORY + chance.integers(0, CATEGORIES, rows), filling(chance, size, 500),
    )  # fmt: skip
    return pa.table(dict(zip(COLUMNS["auction"], values, strict=True)))


def _bid(chance: np.random.Generator, number: Array, seed: int) -> pa.Table:
    rows = len(number)
    newest, person = last_auction(number), last_person(number)
    least = np.maximum(newest - OPEN, 0)
    other = least + (chance.random(rows) * (newest - least + 1 + LEAD)).astype(np.int64)
    auction = np.where(chance.integers(0, HOT_AUCTIONS, rows) > 0, newest // HOT_EACH * HOT_EACH, other)
    bidder = np.where(
        chance.integers(0, HOT_PERSONS, rows) > 0, person // HOT_EACH * HOT_EACH + 1, _active_persons(chance, person)
    )
    names, urls = _channels(seed)
    hot = chance.integers(0, HOT_CHANNELS, rows) > 0
    channel = np.where(hot, chance.integers(0, len(_NAMED), rows), len(_NAMED) + chance.integers(0, CHANNELS, rows))
    values = (
        FIRST + auction, FIRST + bidder, _prices(chance, rows), names.take(pa.array(channel)),
        urls.take(pa.array(channel)), _times(number), filling(chance, np.full(rows, 32), 100),
    )  # fmt: skip
    return pa.table(dict(zip(COLUMNS["bid"], values, strict=True)))


def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and addresses of all channels, the popular ones first; nine of ten addresses name the channel."""
    chance = np.random.default_rng((seed, 1 << 40))
    count = len(_NAMED) + CHANNELS
    parts = [spread_texts(chance, count, 5, "_") for _ in range(3)]
    base = pc.binary_join_element_wise("https://www.nexmark.com", *parts, "item.htm?query=1", "/")
    number = np.arange(CHANNELS)
    reversed_bits = np.abs(np.array([int(f"{n:032b}"[::-1], 2) for n in number]).astype(np.uint32).view(np.int32))
    texts = pa.array(np.append(np.zeros(len(_NAMED), np.int64), reversed_bits)).cast(pa.string())
    named = pc.binary_join_element_wise(base, texts, "&channel_id=")
    told = np.append(np.zeros(len(_NAMED), np.bool_), chance.integers(0, 10, CHANNELS) > 0)
    names = [*_NAMED, *(f"channel-{n}" for n in number)]
    return pa.array(names), pc.if_else(pa.array(told), named, base)


def _active_persons(chance: np.random.Generator, newest: Array) -> Array:
    """One of the newest persons, or of those that come next."""
    active = np.minimum(newest + 1, ACTIVE)
    return newest + 1 - active + (chance.random(len(newest)) * (active + LEAD)).astype(np.int64)


def _prices(chance: np.random.Generator, rows: int) -> Array:
    return np.round(10 ** (chance.random(rows) * 6) * 100).astype(np.int64)


def _pick(chance: np.random.Generator, words: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(chance.integers(0, len(words), rows)))


def _milliseconds(number: Array) -> Array:
    return BEGIN_US // 1_000 + number * 1_000 // RATE


def _times(number: Array) -> pa.Array:
    return _stamps(_milliseconds(number))


def _stamps(milliseconds: Array) -> pa.Array:
    return pa.array(milliseconds * 1_000).cast(pa.timestamp("us"))


__all__ = ["COLUMNS", "SIDE", "exact_texts", "folder", "generated", "last_auction", "last_person"]
