"""Why a neighbour may be more than twice as slow, for each workload and change, and up to how many times that holds.

A reason explains what was measured, and no more: a ratio beyond it is a cliff again. There is none for all workloads.
Numbers are those of 4,000,000 rows in one process (docs/benchmarks, "Neighbours of the benchmarks").
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import packets

SMALL, LIVE = 50_000, packets.RATE


class Reason(NamedTuple):
    """What takes the time, and the ratio up to which it explains it."""

    most: float
    text: str


def _batches(rows: int, most: float, batch_ms: float, plain_ns: float, what: str) -> Reason:
    """A batch has a fixed cost.

    >>> _batches(50_000, 10, 30, 100, "state").text
    '30 ms a batch whatever is in it, where its 50,000 rows take 5 ms by themselves: state'
    """
    own = plain_ns * rows / 1e6
    return Reason(
        most,
        f"{batch_ms:g} ms a batch whatever is in it, where its {rows:,} rows take {own:.2g} ms by themselves: {what}",
    )


_READ = (
    "two fifths are reading, where the row group in which a batch ends is decoded for each batch, a fifth operators and"
    " state, two fifths commit and statistics for the next plan"
)
_AS_W2 = "about what a batch of W2 costs, for reading, operators and state, and commit"
_QUERIES = (
    "each of the queries is looked at in every batch, some 0.3 to 0.5 ms for each, and a batch has few rows for a group"
    " and pane of a query, so little is added up before it travels"
)
_SIDES = "as in W2, for two sources, and both sides of the join have a state to look up and to store"
_REFRESHES = "its rows are of ten seconds and more, so each batch stores the counts of all groups once or oftener"
_KEYS = "the records that stand are looked up and stored for each batch"
_BATCH_COSTS = {  # plain ns a row; most and ms a batch of small batches, of live ones; what is in it
    "W1": (87.3, (13, 36.7), (32, 33.3), _AS_W2 + ", with four group-bys to flush and to merge"),
    "W2": (37.8, (18, 26.8), (68, 26.3), _READ),
    "W3": (64.6, (13, 29.6), (35, 25.9), _AS_W2),
    "W5": (1_119, (11, 430), (22, 283), _QUERIES),
    "mixture": (1_083, (15, 538), (25, 323), _QUERIES),
    "J1 sparse": (1_777, (2.8, 187), (4.2, 116), _SIDES + "; few rows have a partner, so these states are large"),
    "J1 dense": (69.9, (11, 51.7), (29, 50), _SIDES),
    "refreshed": (133, (12, 56.4), (33, 56.8), _REFRESHES),
    "windows": (59.7, (12, 22.2), (30, 22.5), _AS_W2),
    "tagger": (572, (3.6, 59.7), (9.3, 65), _KEYS),
    "keyed count": (299, (5.2, 43.5), (16, 48.6), _KEYS),
}
_CODED = (
    "texts are coded one chunk at a time before they are grouped, and decoded when they leave: 20 to 40 ns a column"
)


def _more_rows(most: float, what: str) -> Reason:
    return Reason(most, f"{what}, each of which is made and stored")


REASONS = {
    **{
        (name, change): _batches(rows, most, batch_ms, plain, what)
        for name, (plain, small, live, what) in _BATCH_COSTS.items()
        for change, rows, (most, batch_ms) in (("small batches", SMALL, small), ("live", LIVE, live))
    },
    ("W1", "texts"): Reason(3.4, f"{_CODED}, of two columns, where all the rest takes 87 ns a row"),
    ("W2", "texts"): Reason(2.8, f"{_CODED}, where all the rest takes 38 ns a row"),
    ("W2", "groups"): _more_rows(4.2, "one window of each second has up to ten times as many answer rows"),
    ("W3", "groups"): _more_rows(4.7, "each of the twenty windows has up to ten times as many answer rows"),
    ("W5", "groups"): _more_rows(6.6, "most of the work is the answer, and it has up to ten times as many rows"),
    ("mixture", "groups"): _more_rows(5.4, "answers have half as many rows as the input, now up to ten times as many"),
    ("refreshed", "groups"): _more_rows(6.1, "at every 10 s up to ten times as many groups have another count"),
    ("windows", "groups"): _more_rows(4.2, "each window of 10 s has up to ten times as many answer rows"),
}
