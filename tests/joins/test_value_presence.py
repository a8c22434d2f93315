"""Values told without their pairs: the kernel beside a slow twin, and the operator beside the path over pairs."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.joins.test_extremes import SOURCES, WINDOWS
from tests.properties.effort import effort
from tidemill.runtime.joins.value_presence import ValuePresence
from tidemill.runtime.kernels.joins.delta_join_rows import order_rows
from tidemill.runtime.kernels.joins.presence import count_partners, room_for_partners, tell_presence

RANKS, CELLS, BUCKETS = 6, 4, 2
Change = tuple[int, int, int]  # which, rank, n


def changes(which: int) -> st.SearchStrategy[list[Change]]:
    """Changes by which no count falls below zero at the end of a rank."""
    change = st.tuples(st.integers(0, which - 1), st.integers(0, RANKS - 1), st.integers(-3, 3))
    return st.lists(change, max_size=14).map(_kept_positive)


def _kept_positive(drawn: list[Change]) -> list[Change]:
    counts: dict[int, int] = {}
    kept = []
    for which, rank, n in sorted(drawn, key=lambda c: c[1]):
        n = max(n, -counts.get(which, 0))
        counts[which] = counts.get(which, 0) + n
        kept.append((which, rank, n))
    return kept


def counts(drawn: list[Change], which: int) -> np.ndarray:
    """The count of one of them at each rank."""
    total = np.zeros(RANKS, np.int64)
    for x, rank, n in drawn:
        if x == which:
            total[rank:] += n
    return total


def ordered(drawn: list[Change], which: int) -> tuple[np.ndarray, ...]:
    of, rank, n = (np.array([c[i] for c in drawn], np.int64) for i in range(3))
    start = np.empty(which + 1, np.int64)
    return order_rows(of, rank, which, RANKS, start), start, rank, n


def told_of(own: list[Change], others: list[Change], bucket: list[int]) -> tuple[bool, np.ndarray]:
    order, start, rank, n = ordered(others, BUCKETS)
    partners = room_for_partners(BUCKETS, len(others))
    sound = count_partners(order, start, rank, n, partners)
    order, start, rank, n = ordered(own, CELLS)
    if not sound:
        return False, np.empty((0, 3))
    return tell_presence(order, start, rank, n, np.array(bucket), partners, 0)


@effort(300)
@given(changes(CELLS), changes(BUCKETS), st.lists(st.integers(0, BUCKETS - 1), min_size=CELLS, max_size=CELLS))
def test_what_is_told_is_positive_where_the_product_is_and_ends_as_it_does(own, others, bucket):
    sound, told = told_of(own, others, bucket)
    assert sound
    for x in range(CELLS):
        product = counts(own, x) * counts(others, bucket[x])
        shown = counts([tuple(row) for row in told.tolist()], x) + product[0]
        assert ((shown > 0) == (product > 0)).all()
        assert shown[-1] == product[-1]
        assert all(rank > 0 for cell, rank, _ in told.tolist() if cell == x)


@pytest.mark.parametrize("own, others", [([(0, 2, -1)], [(0, 0, 1)]), ([(0, 0, 1)], [(0, 1, -1)])])
def test_a_negative_count_is_told_by_its_pairs(own, others):
    assert not told_of(own, others, [0] * CELLS)[0]


def test_a_value_whose_partners_change_is_told_once():
    """Its partners come and go at every rank, but there always is one."""
    others = [(0, 0, 2), *((0, rank, (-1) ** rank) for rank in range(1, RANKS - 1))]
    _, told = told_of([(0, 1, 1), (0, 5, -1)], others, [0] * CELLS)
    assert told.tolist() == [[0, 1, 1], [0, 5, -1]]


SELECTS = (
    "min(A.v) AS a, max(A.v) AS b, min(B.v) AS c, max(B.v) AS d",
    "sum(A.v) AS s, max(B.t) AS m, count(DISTINCT A.t) AS d",
    "max(CASE WHEN B.v > 50000 THEN B.v END) AS m",
)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("select", SELECTS)
def test_pairs_and_presence_give_one_answer(tmp_path, select, window):
    """Few rows a batch: stored values meet changes, keys appear and leave."""

    def answer(name: str) -> list[tuple]:
        with LocalDatabase(str(tmp_path / name), shards=2, cores=1) as db:
            db.execute(
                SOURCES.replace("'at')", "'at', batch_rows = 1500)")
                + f"CREATE RSTREAM VIEW V AS SELECT A.k, count(*) AS n, {select} FROM A {window}, B {window}"
                " WHERE A.k = B.k AND A.v < 9000 GROUP BY A.k"
            )
            db.run()
            return sorted(tuple(row.values()) for row in db.query("SELECT * FROM V").to_pylist())

    with patch.object(ValuePresence, "count_values", autospec=True, side_effect=ValuePresence.count_values) as counting:
        told = answer("presence")
    assert counting.called and told
    with patch.object(ValuePresence, "of", return_value=None):
        assert answer("pairs") == told
