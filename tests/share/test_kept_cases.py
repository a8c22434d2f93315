"""Cases of shared aggregation that once went wrong, kept by name."""

from __future__ import annotations

import pytest

from tests.properties.streams import Stream
from tests.properties.trial import database
from tests.share.outcomes import UNSHARED, check_same, outcome, shared_nodes
from tests.share.test_shared_answers import run
from tests.share.workloads import COLUMNS, view
from tidemill.runtime.share.reader import expressions


def stream(*given, **options):
    """Rows with NULL where nothing is said."""
    rows = tuple({c.name: None for c in COLUMNS} | record for record in given)
    return Stream("A", COLUMNS, rows, format="parquet", **options)


def same(source, *texts, **options):
    """What the queries give shared, which must be what they give unshared."""
    views = [view(f"v{i}", "STREAMED", text) for i, text in enumerate(texts)]
    expected, _ = run(source.recut((), None), views, without=UNSHARED, shards=1, cores=1)
    found, shared = run(source, views, **options)
    assert shared >= len(texts)
    check_same(found, expected)
    assert len(found.aside) == len(expected.aside)
    return found


@pytest.mark.parametrize("missing", [(), ({"tm": 1},)])
def test_both_zeros_are_one_group(missing):
    """A column with a NULL goes through a dictionary, in which -0.0 and 0.0 had two numbers."""
    zeros = [{"x": 0.0, "tm": 0}, {"x": -0.0, "tm": 0}, {"x": -0.0, "tm": 3}, {"x": 1.0, "tm": 9}]
    text = "SELECT a.x AS o0, COUNT(*) AS c0 FROM A [RANGE 2 SLIDE 2] AS a GROUP BY a.x"
    found = same(stream(*zeros[:2], *missing, *zeros[2:]), text, shards=3)
    assert (2_000_000, "+", 0.0, 2) in found.logs["v0"]


def test_only_landmark_windows_are_left():
    """Their store still held fragments of a window that was dropped."""
    rows = [{"k": i % 2, "tm": i} for i in range(20)]
    left = view("l", "STREAMED", "SELECT a.k AS o0, COUNT(*) AS c0 FROM A SYNC EVERY 2 AS a GROUP BY a.k")

    def life(**options):
        with database([stream(*rows, batch_rows=5)], **options) as db:
            db.execute("CREATE VIEW w AS SELECT a.k, COUNT(*) AS n FROM A [RANGE 6 SLIDE 2] AS a GROUP BY a.k")
            db.execute(left.statement)
            db.start()
            db.step()
            db.execute("DROP VIEW w")
            db.stop()
            db.run()
            return outcome(db, [left]), shared_nodes(db)

    (found, shared), (expected, _) = life(), life(without=UNSHARED)
    assert shared == 1 and found.logs["l"]
    check_same(found, expected)


GUARDED = "SELECT a.k AS o0, SUM(CAST(a.s AS INTEGER)) AS c0 FROM A [RANGE 4 SLIDE 2] AS a WHERE a.k = 1 GROUP BY a.k"


def test_a_row_that_a_query_does_not_want_fails_for_nobody():
    """WHERE keeps CAST from failing; the rows it leaves out became dead letters."""
    rows = [{"k": i % 2, "s": "7" if i % 2 else "no number", "tm": i} for i in range(12)]
    found = same(stream(*rows), GUARDED)
    assert found.logs["v0"] and not found.aside
    found = same(stream(*rows), GUARDED, GUARDED.replace("a.k = 1", "a.k >= 0"))
    assert len(found.aside) == 6


def test_rows_that_nobody_wants_are_not_searched_for_failures(monkeypatch):
    """Each failing row costs a dozen statements, so the rows that WHERE leaves out must not be tried."""
    rows = [{"k": i % 2, "s": "7" if i % 2 else "no number", "tm": 0} for i in range(400)]
    asked, run_duck = [], expressions.duck.run  # type: ignore[attr-defined]

    def counted(sql, **tables):
        asked.append(sql)
        return run_duck(sql, **tables)

    monkeypatch.setattr(expressions.duck, "run", counted)  # type: ignore[attr-defined]
    with database([stream(*rows, {"k": 1, "s": "7", "tm": 5})], cores=1) as db:
        db.execute(f"CREATE VIEW v AS {GUARDED}")
        db.run()
        assert [int(n) for n in db.query("SELECT c0 FROM v").column("c0").to_pylist()] == [200 * 7]
        assert 0 < len([sql for sql in asked if " AS e FROM" in sql]) < 10


@pytest.mark.parametrize("gap", [10**6, 10**9])
def test_nobody_walks_through_the_points_of_a_gap(gap):
    rows = [{"k": 1, "b": 1, "tm": 0}, {"k": 1, "b": 2, "tm": 1}, {"k": 1, "b": 4, "tm": gap}, {"k": 2, "tm": gap + 9}]
    whole = view("whole", "RSTREAM", "SELECT a.k AS o0, COUNT(*) AS c0 FROM A [RANGE 3 SLIDE 1] AS a GROUP BY a.k")
    found, _ = run(stream(*rows), [whole])
    assert sum(found.contents["whole"].values()) == 4 + 3  # the last row is never reported
    same(
        stream(*rows, batch_rows=2),
        "SELECT a.k AS o0, SUM(a.b) AS c0 FROM A [RANGE 3 SLIDE 1] AS a GROUP BY a.k",
        "SELECT a.k AS o0, MIN(a.b) AS c0 FROM A SYNC EVERY 1 AS a WHERE NOW - 2 < a.TS GROUP BY a.k",
    )
