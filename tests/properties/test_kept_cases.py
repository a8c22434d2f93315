"""Cases that once went wrong, kept by name."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from tests.properties.query_text import Query, View
from tests.properties.streams import KEYED, PLAIN, TABLE, UNIT, Stream
from tests.properties.trial import check_view, create, database, log_of, oracle


def rows(columns, *given):
    """Records with NULL where nothing is said."""
    return tuple({c.name: None for c in columns} | record for record in given)


def holds(streams, *statements, **options):
    """All views equal the oracle at every moment."""
    views = []
    for i, text in enumerate(statements):
        output, _, query = text.partition(" VIEW ")
        name, _, query = query.partition(" AS ")
        views.append(View(name or f"v{i}", output, Query(query, (), {}, plain=False)))
    with database(streams, **options) as db:
        made = create(db, views)
        assert len(made) == len(views)
        db.run()
        with oracle(db, streams) as truth:
            for view in made:
                check_view(db, view, truth)


def append_only(*given, name="A", **options):
    return Stream(name, PLAIN, rows(PLAIN, *given), **options)


def keyed(*given, name="K", **options):
    return Stream(name, KEYED, rows(KEYED, *({"op": "insert", **row} for row in given)), ("k",), **options)


def test_a_window_over_a_narrowed_parquet_source():
    stream = append_only({"k": 2, "s": "a", "tm": 0}, {"k": 1, "tm": 3}, format="parquet")
    holds([stream], "STREAMED VIEW v AS SELECT DISTINCT a.k, a.s FROM A AS a WHERE NOW - 1 < a.TS AND a.TS <= NOW")


def test_a_full_join_has_two_rows_whose_key_is_null():
    stream = keyed({"k": None, "s": "c", "tm": 0}, {"k": None, "s": "a", "tm": 2}, {"k": None, "op": "delete", "tm": 3})
    holds([stream], "STREAMED VIEW v AS SELECT a.k AS k, b.k AS l, a.s FROM K AS a FULL JOIN K AS b ON a.k = b.k")
    holds([stream], "STREAMED VIEW v AS SELECT a.k AS k, b.k AS l FROM K AS a FULL JOIN K AS b ON a.k = b.k")


def test_time_stamps_of_a_view_with_short_column_names():
    stream = append_only({"k": 1, "s": "a", "tm": 0}, {"k": 1, "s": "b", "tm": 2}, {"k": 2, "tm": 5})
    holds(
        [stream],
        "STREAMED VIEW v AS SELECT a.k AS k, MAX(a.s) AS d, MIN(a.s) AS i, COUNT(*) AS n FROM A AS a GROUP BY a.k",
        "STREAMED VIEW w AS SELECT a.k, a.d, a.i, a.n, a.TS AS t FROM v [WINDOW 2] AS a",
    )


def test_rstream_of_a_view_with_short_column_names():
    stream = append_only({"k": 1, "s": "a", "tm": 0}, {"k": 1, "s": "b", "tm": 2}, {"k": 2, "tm": 5})
    holds([stream], "RSTREAM VIEW v AS SELECT a.k AS i, MAX(a.s) AS n FROM A SYNC EVERY 2 AS a GROUP BY a.k")


def test_grouping_by_a_quotient_is_not_an_epoch():
    stream = append_only({"v": 7, "tm": 0}, {"v": 6, "tm": 1}, {"v": 7, "tm": 2})
    holds([stream], "STREAMED VIEW v AS SELECT a.v / 2 AS h, COUNT(*) AS n FROM A AS a GROUP BY a.v / 2")
    with database([stream]) as db:
        db.execute("CREATE VIEW v AS SELECT a.v / 2 AS h, COUNT(*) AS n FROM A AS a GROUP BY a.v / 2")
        db.run()
        assert sorted(db.query("SELECT h, n FROM v").to_pydict()["h"]) == [3.0, 3.5]


def test_grouping_by_a_quotient_of_the_event_time_is_an_epoch_and_waits_for_its_end():
    stream = append_only({"k": 0, "v": -2, "x": 0.25, "tm": 0}, {"k": 0, "v": 0, "x": -4.0, "tm": 0})
    view = """STREAMED VIEW v AS SELECT abs(a.k) AS k, a.tm / 2 AS i, STDDEV(a.v) FILTER (WHERE a.x <= -0.25) AS n
              FROM A AS a WHERE (a.tm BETWEEN 0 AND 4 AND a.tm % 2 = 0) GROUP BY abs(a.k), a.tm / 2"""
    holds([stream], view, shards=2)
    for last, said in ((1, []), (2, [(2 * UNIT, (0, 0, None))])):
        with database([append_only(*stream.rows, {"k": 1, "tm": last})]) as db:
            db.execute(f"CREATE {view}")
            db.run()
            assert [(c.time, tuple(c.row)) for c in log_of(db, "v") if c.row[0] == 0] == said


@pytest.mark.parametrize("batch", [None, 1])
def test_rstream_of_a_table_is_reported_once(batch):
    table = Stream("D", TABLE, rows(TABLE, {"k": 1, "label": "x", "w": 2}), static=True)
    stream = append_only({"k": 1, "tm": 1}, {"k": 2, "tm": 4}, {"k": 1, "tm": 9}, batch_rows=batch)
    holds(
        [table, stream],
        "STREAMED VIEW t AS SELECT D.k, D.w FROM D",
        "RSTREAM VIEW v AS SELECT t.k, t.w FROM t SYNC EVERY 2",
        "RSTREAM VIEW w AS SELECT D.k, D.w, a.tm FROM A SYNC EVERY 3 AS a RIGHT JOIN D ON a.k = D.k",
        "STREAMED VIEW n AS SELECT COUNT(*) AS n FROM A",
    )


def test_changes_that_cancel_are_no_answer():
    """At time 2 the old row of K meets the new row of L, which never were there together."""
    left = keyed({"k": 1, "v": 1, "tm": 0}, {"k": 1, "v": 2, "tm": 2}, {"k": 1, "v": 1, "tm": 4})
    right = keyed({"k": 1, "v": 3, "tm": 0}, {"k": 1, "v": 1, "tm": 2}, {"k": 9, "v": 1, "tm": 5}, name="L")
    joined = "K AS a JOIN L AS b ON a.k = b.k AND a.v = b.v"
    for batch in (None, 1):
        holds(
            [left.recut((), batch), right.recut((), batch)],
            f"STREAMED VIEW n AS SELECT COUNT(*) AS n FROM {joined}",
            f"RSTREAM VIEW r AS SELECT a.k, a.v FROM {joined}",
            "STREAMED VIEW p AS SELECT a.k, a.TS AS t FROM K AS a",
            f"STREAMED VIEW q AS SELECT a.k, a.v, b.tm FROM {joined}",
        )


def test_a_row_that_leaves_a_window_early_is_not_inserted_again():
    """Key 2 is deleted before its window ends; its early and its late leaving cancel at time 5."""
    gone = {"k": 2, "op": "delete", "tm": 3}
    stream = keyed({"k": 2, "tm": 2}, {"k": 3, "tm": 2}, gone, {"k": 1, "tm": 9}, batch_rows=1)
    holds(
        [stream],
        "STREAMED VIEW v AS SELECT a.k FROM K SYNC EVERY 2 AS a",
        "STREAMED VIEW w AS SELECT a.k FROM v [WINDOW 2] SYNC EVERY 1 ROWS AS a",
        "STREAMED VIEW p AS SELECT a.TS FROM K AS a WHERE NOW - 4 < a.TS AND a.TS <= NOW",
        "STREAMED VIEW q AS SELECT a.k FROM K SYNC ON p AS a",
        "RSTREAM VIEW r AS SELECT a.k FROM K SYNC ON p AS a",
    )


SPREAD = [{"k": i % 4, "s": "abcd"[i % 3], "v": i, "tm": i} for i in range(12)]


@pytest.mark.parametrize("shards", [1, 3])
def test_both_sides_of_a_union_meet_in_the_shard_of_their_group(shards):
    """One side lies in the shards by k, the other comes from a reader and goes by k and s."""
    holds(
        [append_only(*SPREAD), keyed(*SPREAD)],
        "STREAMED VIEW u AS SELECT q.k, q.s, COUNT(*) AS n FROM"
        " (SELECT a.k, a.s FROM K AS a UNION ALL SELECT b.k, b.s FROM A AS b) AS q GROUP BY q.k, q.s",
        "RSTREAM VIEW r AS SELECT a.k, a.s FROM K SYNC EVERY 2 AS a UNION ALL SELECT b.k, b.s FROM A SYNC EVERY 2 AS b",
        shards=shards,
    )


@pytest.mark.parametrize("shards", [1, 3])
def test_groups_lie_where_their_input_lies(shards):
    """Groups of (k, s) over rows that lie by k stay there; a join on (k, s) must know it."""
    holds(
        [append_only(*SPREAD), keyed(*SPREAD)],
        "STREAMED VIEW g AS SELECT a.k, a.s, COUNT(*) AS n FROM K AS a GROUP BY a.k, a.s",
        "STREAMED VIEW j AS SELECT g.k, g.s, g.n, b.v FROM g JOIN A AS b ON g.k = b.k AND g.s = b.s",
        "STREAMED VIEW e AS SELECT g.k, g.s FROM g EXCEPT ALL SELECT b.k, b.s FROM A AS b",
        shards=shards,
    )


@pytest.mark.parametrize("shards", [1, 3])
def test_the_clock_may_be_synchronized_itself(shards):
    holds(
        [append_only(*SPREAD)],
        "STREAMED VIEW p AS SELECT a.TS FROM A AS a WHERE a.v % 3 = 0",
        "STREAMED VIEW c AS SELECT C.TimePoint AS t FROM clockStr SYNC ON p AS C",
        "STREAMED VIEW n AS SELECT C.t % 4 AS m, COUNT(*) AS n FROM c AS C GROUP BY C.t % 4",
        "STREAMED VIEW w AS SELECT c.t, c.TS AS seen FROM c",
        shards=shards,
    )


def test_the_count_of_nothing_waits_for_its_synchronizer():
    """Time begins at 1; the count is looked at from 2 on, wherever the synchronizer stands."""
    stream = append_only({"k": 1, "v": 1, "tm": 1}, {"k": 2, "v": 5, "tm": 4}, {"k": 2, "v": 5, "tm": 7})
    holds(
        [stream],
        "STREAMED VIEW n AS SELECT q.n FROM (SELECT COUNT(*) AS n FROM A AS a WHERE a.v > 3) SYNC EVERY 3 AS q",
    )


@pytest.mark.parametrize("batch", [None, 1])
def test_the_count_of_nothing_does_not_depend_on_an_empty_neighbour(batch):
    """K has no rows, so it is not known when the clock of the database begins until the run ends."""
    stream = append_only({"k": 1, "tm": 3}, {"k": 2, "tm": 2}, {"k": 2, "tm": 7}, lateness=2, batch_rows=batch)
    holds(
        [stream, keyed()], "STREAMED VIEW n AS SELECT COUNT(*) AS n FROM A AS a", "COMPLETE VIEW m AS SELECT K.k FROM K"
    )


def test_a_later_view_over_a_synchronized_one_begins_now():
    """The next point of v is 8; at 6 its contents stand, and a view created then shows them at once."""
    stream = append_only({"k": 1, "tm": 1}, {"k": 2, "tm": 3}, {"k": 3, "tm": 6})
    with database([stream]) as db:
        db.execute("CREATE VIEW v AS SELECT a.k FROM A SYNC EVERY 4 AS a")
        db.run()
        db.execute("CREATE STREAMED VIEW w AS SELECT v.k FROM v")
        db.run()
        assert [(c.time, c.tag, c.row) for c in log_of(db, "w")] == [(6 * UNIT, "+", (1,)), (6 * UNIT, "+", (2,))]


def test_sums_forget_what_has_left():
    """A great value that has gone leaves no trace in the small ones."""
    big = [
        {"k": 0, "x": 1e15, "tm": 0},
        {"k": 1, "x": 0.1, "tm": 0},
        {"k": 0, "x": 3e-7, "tm": 1},
        {"k": 0, "x": math.inf, "tm": 2},
        {"k": 0, "x": -0.0, "tm": 3},
        {"k": 2, "x": math.nan, "tm": 4},
        {"k": 2, "op": "delete", "tm": 5},
    ]
    holds(
        [keyed(*big)],
        "STREAMED VIEW v AS SELECT SUM(a.x) AS s, AVG(a.x) AS m, MIN(a.x) AS l, COUNT(*) AS n FROM K AS a",
    )


def test_variance_of_great_close_values():
    values = [{"k": i, "x": 1e6 + i / 4, "v": 5, "tm": i} for i in range(6)]
    holds([keyed(*values)], "STREAMED VIEW v AS SELECT STDDEV(a.x) AS s, VAR_POP(a.x) AS p FROM K AS a")


def test_decimals_are_exact():
    values = [{"k": i % 3, "d": Decimal("123456.78") - i, "tm": i} for i in range(9)]
    calls = "SUM(a.d) AS s, AVG(a.d) AS m, MIN(a.d) AS l, COUNT(DISTINCT a.d) AS n"
    holds([keyed(*values)], f"STREAMED VIEW v AS SELECT {calls} FROM K AS a")


@pytest.mark.parametrize("batch", [None, 1])
def test_the_greatest_of_nothing_is_null_until_a_row_comes(batch):
    """The answer of no rows is remembered as it was shown: the first row takes away (0, NULL), not (0, 0)."""
    rows = [{"k": 1, "v": 0, "tm": 0}, {"k": 1, "v": 0, "tm": 2}, {"k": 1, "v": 5, "tm": 6}, {"k": 2, "v": 7, "tm": 8}]
    holds(
        [append_only(*rows, batch_rows=batch)],
        "STREAMED VIEW v AS SELECT COUNT(a.k) AS n, MAX(a.tm) AS t, MIN(a.v) AS l FROM A AS a WHERE a.v > 1",
    )


def test_an_answer_over_an_empty_table_is_there_before_all_time():
    """Whether or not a stream makes the clock of the database tick."""
    table = Stream("D", TABLE, (), format="parquet", static=True)
    streams = [append_only({"k": 0, "tm": 0}, {"k": 2, "tm": 3}, format="parquet"), table]
    count = "STREAMED VIEW n AS SELECT COUNT(*) AS k FROM D AS a WHERE a.k > 1"
    holds(streams, "STREAMED VIEW v AS SELECT COUNT(*) AS k FROM A AS a WHERE NOW - 1 < a.TS AND a.TS <= NOW", count)
    holds(streams, count)
