"""Hundreds of queries in one fragment store: more predicates and more queries than a signature word has bits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb
import pytest

from tests.harness import LocalDatabase
from tests.properties.streams import PLAIN, UNIT, Stream
from tests.properties.trial import contents_of, database, log_of
from tests.reference.logs import replay
from tidemill.plan.physical import Physical, Weave
from tidemill.runtime.paths import load_plan

ROWS = tuple(
    {"k": i * 7 % 5, "v": i * 37 % 211, "x": i / 4, "d": None, "s": "abc"[i % 3] if i % 11 else None, "tm": i // 20}
    for i in range(800)
)
MANY = 25  # a longer union would be nested too deep
STREAM = Stream("A", PLAIN, ROWS, format="parquet", batch_rows=300)


@dataclass(frozen=True)
class Asked:
    """Query number q: rows with v > `least` (and a known s), in windows of its own."""

    q: int
    range: int
    slide: int
    least: int
    known: bool

    @property
    def text(self) -> str:
        where = f"a.v > {self.least}" + (" AND a.s IS NOT NULL" if self.known else "")
        return (
            f"SELECT {self.q} AS q, a.k AS k, COUNT(*) AS n, SUM(a.v) AS s, MAX(a.v) AS m"
            f" FROM A [RANGE {self.range} SLIDE {self.slide}] AS a WHERE {where} GROUP BY a.k"
        )


QUERIES = [Asked(q, 2 + q % 9, 1 + q % 4, q, q % 3 == 0) for q in range(200)]


def create(db: LocalDatabase, name: str, queries: list[Asked]) -> list[str]:
    """The queries in a few views; their names."""
    names = []
    for i in range(0, len(queries), MANY):
        names.append(f"{name}{i}")
        db.execute(f"CREATE STREAMED VIEW {name}{i} AS {' UNION ALL '.join(q.text for q in queries[i : i + MANY])}")
    return names


def shown(db: LocalDatabase, names: list[str]) -> Counter:
    """What the views show in the end."""
    return sum((contents_of(db, name) for name in names), Counter())


def answers(queries: list[Asked], moment: int) -> Counter:
    """What all of them show at a moment."""
    duck = duckdb.connect(":memory:")
    try:
        duck.execute("CREATE TABLE r (k INT, v INT, s VARCHAR, tm INT)")
        duck.executemany(
            "INSERT INTO r VALUES (?, ?, ?, ?)",
            [(x["k"], x["v"], x["s"], x["tm"]) for x in ROWS if x["tm"] <= moment],  # type: ignore[operator]
        )
        duck.execute("CREATE TABLE q (q INT, size INT, slide INT, least INT, known BOOLEAN)")
        duck.executemany(
            "INSERT INTO q VALUES (?, ?, ?, ?, ?)", [(x.q, x.range, x.slide, x.least, x.known) for x in queries]
        )
        # The last point at or before the moment; windows end at size + multiples of slide.
        found = duck.sql(f"""
            WITH w AS (SELECT *, CAST(floor(({moment} - size) / slide) AS INT) * slide + size AS p FROM q)
            SELECT q, k, count(*), sum(v), max(v) FROM w JOIN r ON p - size <= tm AND tm < p
            WHERE v > least AND (NOT known OR s IS NOT NULL) GROUP BY q, k""").fetchall()
        return Counter(found)
    finally:
        duck.close()


def plan(db: LocalDatabase) -> Physical:
    return load_plan(db.paths.plan(db.catalog.version))


def test_two_hundred_queries_in_one_store():
    with database([STREAM], shards=2) as db:
        names = create(db, "v", QUERIES)
        db.run()
        (store,) = [op for op in plan(db).stage if isinstance(op, Weave)]
        assert len(store.queries) == 200 and store.words == (0, 1, 2, 3)
        log = [change for name in names for change in log_of(db, name)]
        for moment, found in replay(log, [m * UNIT for m in (3, 11, 17, 24, 32, 39)]):
            assert found == answers(QUERIES, moment // UNIT)
        assert shown(db, names) == answers(QUERIES, 39)


@pytest.mark.parametrize("weaving", ["shared", "unshared"])
def test_no_bit_is_given_twice(weaving):
    """While one query stays, seventy go and seventy come: these read nothing that those have stored."""
    with database([STREAM.recut((), 100)], shards=1) as db:
        db.execute(f"SET weaving = {weaving}")
        stays = create(db, "stays", QUERIES[:1])
        goes = create(db, "goes", QUERIES[1:71])
        db.start()
        for _ in range(3):
            db.step()
        db.stop()
        for name in goes:
            db.execute(f"DROP VIEW {name}")
        comes = create(db, "comes", QUERIES[71:141])
        db.run()
        (store,) = [op for op in plan(db).stage if isinstance(op, Weave)]
        assert store.words == (0, 1, 2)
        assert shown(db, stays) == answers(QUERIES[:1], 39)
        assert shown(db, comes) == answers(QUERIES[71:141], 39)
