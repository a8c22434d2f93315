"""Cases of aggregation joins that once went wrong, or that no draw can reach, kept by name."""

from __future__ import annotations

import pytest

from tests.joins.rows import APPENDED
from tests.joins.switching import switch
from tests.joins.test_join_language import plans
from tests.properties.query_text import Query, View
from tests.properties.streams import UNIT, Stream
from tests.properties.trial import database, log_of
from tidemill.runtime.thresholds import changed


def appended(name, *given, **options):
    """Rows with NULL where nothing is said."""
    rows = tuple({c.name: None for c in APPENDED} | record for record in given)
    return Stream(name, APPENDED, rows, **options)


def logged(streams, text, plan="auto", **options):
    """(time, tag, row) of every change, in the order of time, then of rows."""
    with database(streams, **options) as db:
        switch(db, plan)
        db.execute(View("v", "STREAMED", Query(text, (), {}, plain=False)).statement)
        db.run()
        return sorted(((c.time // UNIT, c.tag, c.row) for c in log_of(db, "v")), key=lambda c: (c[0], c[2]))


@pytest.mark.parametrize("plan", plans(3))
@pytest.mark.parametrize("shards", [1, 3])
def test_an_input_of_which_only_the_number_of_rows_matters(plan, shards):
    """No column of b and c is read: each row of a counts once for each of their pairs."""
    a = appended("A", {"k": 1, "tm": 0}, {"k": 1, "tm": 1}, {"k": 2, "tm": 2}, {"tm": 9}, batch_rows=1)
    b = appended("B", {"tm": 1}, {"tm": 2}, {"tm": 9}, batch_rows=2)
    text = "SELECT a.k, COUNT(*) AS n FROM A [WINDOW 3] AS a, B [WINDOW 3] AS b, B [WINDOW 3] AS c GROUP BY a.k"
    # a holds key 1 twice at 2 and 3, once at 4, and key 2 from 3 to 5; b and c hold 1, 2, 2, 1 rows at 2 to 5.
    assert logged([a, b], text, plan, shards=shards) == [
        (2, "+", (1, 2)),
        (3, "u", (1, 8)),
        (3, "+", (2, 4)),
        (4, "u", (1, 4)),
        (5, "-", (1, 4)),
        (5, "u", (2, 1)),
        (6, "-", (2, 1)),
    ]


@pytest.mark.parametrize("plan", plans(2))
@pytest.mark.parametrize("batch", [None, 1])
def test_rows_without_columns_that_come_and_go_at_one_time(plan, batch):
    """At 4 one row of b leaves and one comes: nothing is left of the change, and there is no column to see it by."""
    a = appended("A", {"k": 1, "v": 5, "tm": 0}, {"k": 1, "v": 6, "tm": 6}, {"tm": 9}, batch_rows=batch)
    b = appended("B", {"tm": 1}, {"tm": 3}, {"tm": 3}, {"tm": 9}, batch_rows=batch)
    text = "SELECT a.k, COUNT(*) AS n, SUM(a.v) AS v FROM A [WINDOW 8] AS a, B [WINDOW 2] AS b GROUP BY a.k"
    assert logged([a, b], text, plan) == [(2, "+", (1, 1, 5)), (4, "u", (1, 2, 10)), (6, "-", (1, 2, 10))]


@pytest.mark.parametrize("plan", plans(2))
def test_an_argument_beside_rows_without_columns(plan):
    """b has no columns to compute a part from: its rows only multiply."""
    a = appended("A", {"k": 1, "v": 5, "x": 0.5, "tm": 0}, {"k": 1, "v": 6, "x": 1.5, "tm": 3}, {"k": 2, "tm": 9})
    b = appended("B", {"tm": 1}, {"tm": 3}, {"tm": 3}, {"tm": 9})
    text = """SELECT COUNT(*) AS n, AVG(a.v) AS m, COUNT(DISTINCT a.v) AS d, SUM(a.x) AS x,
              COUNT(*) FILTER (WHERE a.x > 1) AS f FROM A [WINDOW 8] AS a, B [WINDOW 2] AS b HAVING COUNT(*) > 0"""
    assert logged([a, b], text, plan) == [
        (2, "+", (1, 5.0, 1, 0.5, 0)),
        (4, "u", (4, 5.5, 2, 4.0, 2)),
        (6, "-", (4, 5.5, 2, 4.0, 2)),
    ]


def test_no_pairs_are_no_sample_of_hot_keys():
    """However few pairs are worth a sample, a probe without matches has nothing to sample."""
    a = appended("A", {"k": 1, "v": 5, "tm": 0}, {"k": 2, "v": 6, "tm": 1}, {"k": 3, "v": 7, "tm": 50})
    b = appended("B", {"k": 1, "tm": 20}, {"k": 2, "tm": 21}, {"k": 4, "tm": 50})
    text = (
        "SELECT a.k, COUNT(*) AS n, SUM(a.v) AS v FROM A [WINDOW 2] AS a JOIN B [WINDOW 2] AS b ON a.k = b.k"
        " GROUP BY a.k"
    )
    with changed(hot_pairs=1):
        assert logged([a, b], text, shards=2) == []
