"""Ranks as rows come and go equal a slow twin that sorts all rows after each time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.kernels.grouping.ranks import DENSE_RANK, RANK, ROW_NUMBER, Moves, Rows, Wanted, walk_ranks

NOW = -1  # the time of what is stored
NO_END = 1 << 62


def slow_ranks(live, peers, kind):
    """(row, rank) of every copy, by sorting: rows are numbered in order."""
    copies = sorted(live.elements())
    groups = sorted({peers[row] for row in copies})
    if kind == ROW_NUMBER:
        return Counter((row, i + 1) for i, row in enumerate(copies))
    if kind == RANK:
        return Counter((row, 1 + sum(peers[other] < peers[row] for other in copies)) for row in copies)
    return Counter((row, 1 + groups.index(peers[row])) for row in copies)


def wanted_ranks(live, peers, wanted):
    found = slow_ranks(live, peers, wanted.kind)
    inside = Counter({k: n for k, n in found.items() if wanted.after < k[1] <= wanted.last})
    if wanted.shown:
        return inside
    return Counter({(row, 0): n for row, n in _by_row(inside).items()})


def _by_row(found):
    rows = Counter()
    for (row, _), n in found.items():
        rows[row] += n
    return rows


@st.composite
def partitions(draw, only_growing):
    """Peers of each row, and (row, time, diff) by time; nothing goes that is not there."""
    rows = draw(st.integers(1, 6))
    steps = draw(st.lists(st.booleans(), min_size=rows - 1, max_size=rows - 1))
    peers = np.cumsum([0, *steps]).tolist()
    moves, live = [], Counter()
    times = sorted(draw(st.lists(st.integers(-1, 6), max_size=14)))
    for time in times:
        row = draw(st.integers(0, rows - 1))
        gone = not only_growing and time >= 0 and live[row] > 0 and draw(st.booleans())
        live[row] += -1 if gone else 1
        moves.append((row, time, -1 if gone else 1))
    return peers, moves


def arrays(listed):
    """Partitions one after the other, as the kernel takes them."""
    first, head, peer, start, moves = [0], [], [], [0], []
    for peers, own in listed:
        moves += [(first[-1] + row, time, diff) for row, time, diff in own]
        head += [peers.index(group) for group in peers]
        peer += peers
        first.append(first[-1] + len(peers))
        start.append(len(moves))
    rows = Rows(*(np.array(a, np.int64) for a in (first, head, peer)))
    row, time, diff = (np.array([m[i] for m in moves], np.int64) for i in range(3))
    return rows, Moves(np.array(start, np.int64), row, time, diff, NOW)


@pytest.mark.parametrize("bounded", [False, True])
@effort(150)
@given(data=st.data())
def test_ranks_equal_those_of_sorted_rows(bounded, data):
    listed = data.draw(st.lists(partitions(bounded), min_size=1, max_size=3))
    last = data.draw(st.integers(0, 4) if bounded else st.one_of(st.integers(0, 5), st.just(NO_END)))
    kind = data.draw(st.sampled_from([ROW_NUMBER, RANK, DENSE_RANK]))
    wanted = Wanted(kind, data.draw(st.integers(0, 2)), last, data.draw(st.booleans()), bounded)
    rows, moves = arrays(listed)
    kept = np.zeros(len(rows.head), np.int64)
    found = Counter()
    for row, rank, copies, time in walk_ranks(rows, moves, wanted, kept).tolist():
        shown = rank if wanted.shown else 0
        for i in range(abs(copies)):
            step = i if wanted.shown and kind == ROW_NUMBER else 0
            found[time, row, shown + step] += 1 if copies > 0 else -1
    expected = Counter()
    for k, (peers, own) in enumerate(listed):
        live = Counter(row for row, time, _ in own if time == NOW)
        before = wanted_ranks(live, peers, wanted)
        for time in sorted({time for _, time, _ in own if time != NOW}):
            for row, at, diff in own:
                live[row] += diff if at == time else 0
            after = wanted_ranks(+live, peers, wanted)
            for row, rank in {*before, *after}:
                change = after[row, rank] - before[row, rank]
                expected[time, int(rows.first[k]) + row, rank] += change
            before = after
        ranks = slow_ranks(+live, peers, kind)
        for row in range(len(peers)):
            stay = sum(n for (r, rank), n in ranks.items() if r == row and (rank <= last or not bounded))
            assert kept[int(rows.first[k]) + row] == stay
    assert {k: n for k, n in found.items() if n} == {k: n for k, n in expected.items() if n}
