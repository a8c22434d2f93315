"""Many queries that fit running totals beside some that do not, over rows out of order, late, and with missing values:
answers are those of SQL from scratch, and do not depend on who has running totals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from unittest.mock import patch

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort, thorough
from tests.properties.streams import PLAIN, Stream
from tests.properties.trial import database
from tests.share.outcomes import aside
from tidemill.optimize.share import reader_plan
from tidemill.plan.physical import Lfta
from tidemill.runtime.paths import load_plan
from tidemill.runtime.share.reader.branch import Branch
from tidemill.runtime.share.reader.division import divide
from tidemill.runtime.thresholds import changed, mixed, smallest

KEYS = ("k", "s", "k, s", "k % 3", "v // 40", "k, v // 70")
PLAIN_TESTS = ("v > {0}", "k < {1}", "TRUE", "v > {0} AND v < 190", "k IN ({1}, 4)")
TESTS = (
    *PLAIN_TESTS,
    "v > {0} AND k <> {1}",
    "v > {0} OR k = {1}",
    "(v > {0} OR k < 2) AND NOT (k = {1} OR v < 9)",
    "v % 3 = 1",
    "x > {0}",
    "s LIKE 'a%'",
    "v + k > {0}",
    "s IS NULL OR v > 150",
)
PLAIN_SUMS = ("COUNT(*) AS n, SUM(v) AS t",)
SUMS = (
    *PLAIN_SUMS,
    "COUNT(*) AS n, MAX(v) AS m",
    "MIN(v) AS l, MAX(v) AS m, COUNT(v) AS c",
    "MIN(x) AS l, COUNT(*) AS n",
    "SUM(v) AS t, MIN(s) AS w",
    "COUNT(*) AS n, CAST(SUM(x) * 1000 AS BIGINT) AS t",
    "AVG(v) AS a",
)
COMPUTED = {"k % 3": "k3", "v // 40": "v40", "v // 70": "v70"}


@dataclass(frozen=True)
class Query:
    """One view: keys, aggregates, predicate, window."""

    keys: str
    sums: str
    test: str
    range: int
    slide: int

    def statement(self, name: str) -> str:
        named = ", ".join(f"{k} AS {COMPUTED[k]}" if k in COMPUTED else k for k in self.keys.split(", "))
        return (
            f"CREATE RSTREAM VIEW {name} AS SELECT {named}, {self.sums} FROM A"
            f" [RANGE {self.range} SLIDE {self.slide}] WHERE {self.test} GROUP BY {self.keys}"
        )

    def answer(self, duck: duckdb.DuckDBPyConnection, moment: int) -> Counter:
        points = f"SELECT unnest(range({self.range} - 40 * {self.slide}, {moment + 1}, {self.slide})) AS p"
        return Counter(
            duck.execute(
                f"SELECT p, {self.keys}, {self.sums} FROM ({points}) JOIN r ON p - {self.range} <= tm AND tm < p"
                f" WHERE {self.test} GROUP BY p, {self.keys}"
            ).fetchall()
        )


def drawn_rows(chance, count, disorder, missing):
    times = np.sort(chance.integers(0, 40, count))
    for i in np.flatnonzero(chance.random(count) < disorder):
        times[i] = max(0, times[i] + chance.integers(-6, 4))
    return tuple(
        {
            "k": int(chance.integers(0, 5)),
            "v": None if chance.random() < missing else int(chance.integers(0, 211)),
            "x": float(chance.choice([i / 4, 0.1])),
            "d": None,
            "s": None if chance.random() < 0.1 else "abc"[chance.integers(0, 3)],
            "tm": int(time),
        }
        for i, time in enumerate(times)
    )


def drawn_queries(chance, like, unlike):
    def query(keys, sums, tests):
        slide = int(chance.integers(1, 5))
        test = str(chance.choice(tests)).format(int(chance.integers(0, 200)), int(chance.integers(0, 5)))
        return Query(
            str(chance.choice(keys)),
            str(chance.choice(sums)),
            test,
            slide * int(chance.integers(1, 4)) + int(chance.integers(0, 2)),
            slide,
        )

    return [query(KEYS[:3], PLAIN_SUMS, PLAIN_TESTS) for _ in range(like)] + [
        query(KEYS, SUMS, TESTS) for _ in range(unlike)
    ]


@pytest.fixture(autouse=True)
def without_tables_below_the_raw_relation():
    with patch.object(reader_plan, "MANY", 1):
        yield


def check(stream, queries, **fixed):
    """Every view against SQL over the rows that are not late, with these thresholds `fixed`."""
    with database([stream], shards=2) as db, duckdb.connect(":memory:") as duck, changed(**fixed):
        for i, query in enumerate(queries):
            db.execute(query.statement(f"q{i}"))
        db.run()
        columns = ", ".join(f"{c.name} {c.type}" for c in PLAIN)
        duck.execute(f"CREATE TABLE r ({columns})")
        rows, late = stream.punctual()
        duck.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?)", [[r[c.name] for c in PLAIN] for r in rows])
        moment = max(r["tm"] for r in rows)
        for i, query in enumerate(queries):
            found = Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM q{i}").to_pylist())
            found = Counter(
                {
                    (int(row[0].timestamp()) if hasattr(row[0], "timestamp") else row[0], *row[1:]): n
                    for row, n in found.items()
                }
            )
            assert found == query.answer(duck, moment), query
        assert len(aside(db)) == len(late)


@pytest.mark.parametrize("how", ["running", "smallest", "mixed"])
@effort(2)
@given(seed=st.integers(0, 2**32), disorder=st.sampled_from([0.0, 0.02, 0.3]), missing=st.sampled_from([0.0, 0.05]))
def test_answers_of_a_mixture_are_those_of_sql(how, seed, disorder, missing):
    chance = np.random.default_rng(seed)
    stream = Stream(
        "A", PLAIN, drawn_rows(chance, 250, disorder, missing), lateness=4, format="parquet", batch_rows=120
    )
    small = {
        "running_rows": 1,
        "running_rows_an_entry": 0,
        "running_cells_a_row": 1 << 30,
        "running_looks_a_row": 1 << 30,
        "running_queries": 1,
        "running_alone": 1,
    }
    with changed(**small) if how == "running" else smallest() if how == "smallest" else mixed(seed):
        check(stream, drawn_queries(chance, 24, int(chance.integers(1, 8))))


def test_one_unlike_query_leaves_the_others_their_running_totals():
    """Each of them alone beside 27 that fit: most of those end in running totals, whatever the one is."""
    chance = np.random.default_rng(1)
    stream = Stream("A", PLAIN, drawn_rows(chance, 300, 0.01, 0.0), lateness=6, format="parquet")
    alike = [
        Query(KEYS[i % 3], PLAIN_SUMS[0], PLAIN_TESTS[i % 5].format(5 * i, i % 5), 4 + i // 3, 2) for i in range(27)
    ]
    unlike = [Query("k", PLAIN_SUMS[0], test.format(50, 2), 4, 2) for test in TESTS[5:]]
    # The parts of a sum of doubles make tables so wide that the planner prefers raw relations without others below.
    unlike += [Query("k", sums, "TRUE", 4, 2) for sums in SUMS[1:] if "SUM(x)" not in sums]
    unlike += [Query(keys, PLAIN_SUMS[0], "TRUE", 4, 2) for keys in KEYS[3:]]
    for query in unlike if thorough() else unlike[::4]:
        ended = []
        end = Branch._end

        def watched(self, totals, ended=ended, end=end):
            ended.append((totals.log is None, totals.layout.queries))
            yield from end(self, totals)

        with patch.object(Branch, "_end", watched):
            check(
                stream,
                [*alike, query],
                running_rows=1,
                running_rows_an_entry=0,
                running_cells_a_row=1 << 30,
                running_looks_a_row=1 << 30,
                running_queries=1,
                running_alone=1,
                running_classes=64,
                span=1 << 16,
                running_groups=1 << 10,
                running_bytes=1 << 29,
            )
        assert ended and all(running for running, _ in ended) and sum(q for _, q in ended) >= 20, query


def test_queries_of_a_division_are_all_there_once():
    chance = np.random.default_rng(2)
    stream = Stream("A", PLAIN, drawn_rows(chance, 50, 0.0, 0.0), format="parquet")
    with database([stream], shards=1) as db, changed(running_queries=1, running_classes=2):
        for i, query in enumerate(drawn_queries(chance, 30, 12)):
            db.execute(query.statement(f"q{i}"))
        db.run()
        tables = next(op for op in load_plan(db.paths.plan(db.catalog.version)).reader if isinstance(op, Lfta))
        shares = divide(tables)
        assert len(shares) > 1
        found = Counter(q.id for share in shares for q in share.tables.queries)
        assert found == Counter(q.id for q in tables.queries)
        for share in shares:
            for relation in share.tables.relations:
                above = share.tables.relations[relation.parent] if relation.parent >= 0 else None
                assert above is None or set(relation.attributes) <= set(above.attributes)
                assert set(relation.own) <= set(relation.queries)
