"""What the comparison of engines takes for granted: equal means equal, and DuckDB's SQL says what a window is."""

from __future__ import annotations

import math
import os
from itertools import islice

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import answers, packets
from benchmarks.peers import duckdb_side
from benchmarks.peers.figures import Figures
from benchmarks.peers.page import page
from benchmarks.peers.workloads import ASKED, EACH, ONE, PANES, POOL, SHARED, WORKS, Query, drawn

QUERY = Query("q", ("sip",), 60, 10)
END = 100_000_000


def rows(*values: tuple[int, int, int, int]) -> pa.Table:
    columns = list(zip(*values, strict=True))
    times = pa.array(columns[0], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"TS": times, **{n: pa.array(c) for n, c in zip(("sip", "n", "total"), columns[1:], strict=True)}})


@pytest.mark.parametrize(
    ("theirs", "equal"),
    [
        ([(1, 2, 3, 4), (1, 2, 3, 4)], True),
        ([(1, 2, 3, 4)], False),
        ([(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], False),
        ([(1, 2, 3, 4), (1, 2, 3, 5)], False),
        ([(1, 2, 3, 4), (1, 2, 3, 4), (END + 1, 7, 7, 7)], True),
    ],
    ids=["same", "one less", "one more", "other value", "a window that had not ended"],
)
def test_equal_answers_are_equal_bags_of_ended_windows(tmp_path, theirs, equal):
    until = pa.scalar(END, pa.timestamp("us")).as_py()
    for name, found in (("a", [(1, 2, 3, 4), (1, 2, 3, 4)]), ("b", theirs)):
        answers.store(str(tmp_path / name), QUERY, rows(*found))
    if equal:
        assert answers.check_equal([QUERY], str(tmp_path / "a"), str(tmp_path / "b"), until) == 2
    else:
        with pytest.raises(AssertionError, match="q: 2 rows against"):
            answers.check_equal([QUERY], str(tmp_path / "a"), str(tmp_path / "b"), until)


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> str:
    """Every hundredth packet of two minutes."""
    folder = str(tmp_path_factory.mktemp("trace"))
    whole = pa.concat_tables(islice(packets.table_minutes(), 2))
    pq.write_table(whole.take(pa.array(range(0, whole.num_rows, 100))), os.path.join(folder, "000.parquet"))
    return folder


def definition(query: Query, folder: str) -> set[tuple[object, ...]]:
    """For each multiple p of the slide: the rows of [p, p + range), reported at its end."""
    slide, length = query.slide * 1_000_000, query.range * 1_000_000
    with duckdb.connect() as db:
        found = db.execute(
            f"""WITH packets AS (SELECT *, epoch_us(ts) AS us FROM read_parquet('{folder}/*.parquet'){query.where}),
                ends AS (SELECT min(us) // {slide} * {slide} - {length} AS low, max(us) + 1 AS high FROM packets),
                windows AS (SELECT unnest(range(low, high, {slide})) AS first FROM ends)
                SELECT make_timestamp(first + {length}), {query.by}, count(*), sum(len)::BIGINT FROM windows, packets
                WHERE first <= us AND us < first + {length} GROUP BY ALL"""
        ).fetchall()
    return set(found)


@pytest.mark.parametrize(
    ("queries", "shape"),
    [
        (queries, shape)
        for queries in (
            WORKS["W1"].queries,
            (Query("q", ("sip",), 12, 4), Query("r", ("sip",), 30, 6)),
            (Query("q", ("dip", "dp"), 21, 7, "len > 100"),),
        )
        for ways in duckdb_side.shapes(queries).values()
        for shape in ways
    ],
)
def test_every_way_to_write_it_says_what_a_window_is(trace, tmp_path, queries, shape):
    duckdb_side.DuckDBSide().measure(trace, queries, shape, str(tmp_path))
    for query in queries:
        found = pq.read_table(tmp_path / query.name / "rows.parquet").select(["TS", *query.keys, "n", "total"])
        listed = [tuple(row.values()) for row in found.to_pylist()]
        assert len(listed) == len(set(listed)) and set(listed) == definition(query, trace)


def test_answers_are_well_below_a_tenth_of_the_rows():
    """At most this many rows a second as groups of a minute times windows that end in it."""
    for work in WORKS.values():
        groups = packets.SOURCES if all(q.keys == ("sip",) for q in work.queries) else packets.GROUPS
        assert sum(groups / q.slide for q in work.queries) < packets.RATE / 10


def test_the_twenty_windows_do_not_nest():
    slides = [q.slide for q in WORKS["W3"].queries]
    assert len(slides) == 20 and all(q.range % q.slide == 0 for q in WORKS["W3"].queries)
    assert math.gcd(*slides) == 1
    assert all(20 <= q.range <= 600 for q in WORKS["W3"].queries)


def test_drawn_queries_differ_in_everything():
    queries = drawn(1_000, 10, 40)
    assert {q.predicate for q in queries} == set(POOL) and len(POOL) == 36
    assert len({q.keys for q in queries}) == 15
    assert len({q.name for q in queries}) == 1_000 and len({(q.range, q.slide) for q in queries}) > 900


def measured(**sides: float) -> Figures:
    """Figures of 1,000 rows (the long trace 10,000) in which a side took this many seconds for every work."""
    found = Figures(1_000, 10_000, 1)
    for work in WORKS:
        for side, seconds in sides.items():
            ways = {"each": EACH, "one": ONE, "panes": PANES, "shared": SHARED}
            found.add(work, ways.get(side, side), {"seconds": seconds})
        found.long[work] = {"tidemill": [{"seconds": 3.0, "sustained": 5_000.0}], SHARED: [{"seconds": 4.0}]}
    run = {"seconds": 2.1, "running": 2.0, "sustained": 6_000.0, "out": 5, "creating": 0.1}
    found.many = {"one": [run], "all": [{**run, "seconds": 9.0, "running": 8.0, "sustained": 3_000.0}]}
    found.many_queries, found.mixture_sample = 1_000, 50
    found.mixture = {"tidemill": [{**run, "seconds": 10.0}], "duckdb": [{"seconds": 11.0}]}
    return found


def test_a_peer_counts_as_asked_and_the_fastest_way_by_hand_stands_beside():
    result = page(measured(tidemill=1.0, duckdb=2.0, shared=0.5, each=20.0, one=16.0, panes=2.0))
    against_spark = [c for c in result.checks if "W1" in c.what and "Spark" in c.what]
    assert [(c.measured, c.met) for c in against_spark] == [("20.00 ×", True), ("100.00 ×", True)]
    against_duckdb = [c for c in result.checks if "W3" in c.what and "DuckDB" in c.what]
    assert [(c.measured, c.met) for c in against_duckdb] == [("2.00 ×", False), ("10.00 ×", True)]
    assert result.tables[0].rows[0][-4:] == [1_000 / 2.0 / 1e6, 2.0, 1_000 / 0.5 / 1e6, 0.5]
    assert result.tables[1].rows[0][-2:] == [10_000 / 4.0 / 1e6, 2.0]
    assert not any("by hand" in c.what for c in result.checks)
    assert [(c.measured, c.met) for c in result.checks if "W5" in c.what] == [("0.25", False), ("0.50", True)]
    assert [(c.measured, c.met) for c in result.checks if "mixture" in c.what] == [("22.00 ×", True)]


def test_by_hand_is_the_fastest_way_of_all_and_absent_where_there_is_none():
    assert page(measured(tidemill=1.0, duckdb=0.5, shared=2.0, each=3.0)).tables[0].rows[0][-4:] == [
        "–", "–", 1_000 / 0.5 / 1e6, 0.5,
    ]  # fmt: skip


def test_as_asked_nothing_is_shared_between_queries():
    """Every query reads the files by itself; by hand one scan serves all of them."""
    for name, work in WORKS.items():
        ways = duckdb_side.shapes(work.queries)
        for shape in ways[ASKED]:
            assert _scans(work.queries, shape) == len(work.queries)
        assert (SHARED in ways) == (len(work.queries) > 1), name
        for shape in ways.get(SHARED, ()):
            assert _scans(work.queries, shape) == 1


def _scans(queries: tuple[Query, ...], shape: str) -> int:
    return sum(line.count("FILES") for line in duckdb_side.statements(queries, shape, "FILES"))


def test_without_flink_its_columns_say_so_and_nothing_is_promised():
    result = page(measured(tidemill=1.0, duckdb=0.5, each=20.0))
    place = result.tables[0].columns.index("Flink")
    assert all(row[place] == "not installed" for row in result.tables[0].rows)
    assert not any("Flink" in c.what for c in result.checks)
