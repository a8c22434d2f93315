"""A long time: a year of events in many runs, with gaps of weeks; answers are right and what is kept does not grow."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.harness import LocalDatabase
from tests.properties.effort import thorough

DAYS, RUNS, ROWS = (365, 240, 400_000) if thorough() else (60, 12, 5_000)
BEGIN = dt.datetime(2025, 1, 1)
DEVICES = 40
VIEWS = {
    "Latest": ("SELECT device, value FROM K", "SELECT device, last(value ORDER BY tm, n) FROM r GROUP BY device"),
    "Silent": (
        "SELECT device FROM K WHERE TS <= NOW - INTERVAL '1' DAY",
        "SELECT device FROM r GROUP BY device HAVING max(tm) <= max(e) - INTERVAL 1 DAY",
    ),
    "Days": (
        "SELECT d, count(*) AS n, sum(value) AS s FROM S GROUP BY TS/86400 AS d",
        "SELECT epoch_us(tm) // 86400000000, count(*), sum(value) FROM r WHERE tm < date_trunc('day', e) GROUP BY 1",
    ),
    "Hourly": (
        "SELECT device, max(value) AS m FROM S [RANGE 1 DAY SLIDE 1 HOUR] GROUP BY device",
        "SELECT device, max(value) FROM r WHERE tm >= date_trunc('hour', e) - INTERVAL 1 DAY"
        " AND tm < date_trunc('hour', e) GROUP BY device",
    ),
    "Again": (
        "SELECT A.device, count(B.device) AS n FROM S [WINDOW 2 HOURS] A LEFT JOIN S [WINDOW 2 HOURS] B"
        " ON A.device = B.device AND A.value = B.value GROUP BY A.device",
        "WITH w AS (SELECT * FROM r WHERE tm >= e - INTERVAL 2 HOUR AND tm < e) SELECT a.device, count(b.device)"
        " FROM w a LEFT JOIN w b ON a.device = b.device AND a.value = b.value GROUP BY a.device",
    ),
    "Starts": (
        "SELECT count(*) AS n FROM (SELECT A.device FROM S A LEFT JOIN S B ON A.device = B.device AND B.TS"
        " BETWEEN A.TS - 7200 AND A.TS - 1 WHERE B.device IS NULL) q",
        "SELECT count(*) FROM r a WHERE NOT EXISTS (SELECT 1 FROM r b WHERE a.device = b.device AND b.tm"
        " BETWEEN a.tm - INTERVAL 2 HOUR AND a.tm - INTERVAL 1 SECOND)",
    ),
}


def moments(rng: random.Random) -> list[int]:
    """Seconds of the year at which something happens: busy hours, quiet nights, weeks of nothing."""
    found, at, each = [], 0.0, DAYS * 86_400 / ROWS
    while at < DAYS * 86_400:
        at += rng.expovariate(1 / each) if rng.random() < 0.999 else rng.uniform(0, 20 * 86_400)
        found.append(int(at))
    return found


def truth(sql: str, rows: pa.Table) -> Counter:
    with duckdb.connect() as duck:
        duck.register("given", rows)
        duck.execute("CREATE TABLE r AS SELECT *, (SELECT max(tm) FROM given) AS e FROM given")
        return Counter(duck.sql(sql).fetchall())


def test_a_year(tmp_path):
    rng = random.Random(7)
    times = moments(rng)
    rows = pa.table(
        {
            "n": pa.array(range(len(times)), pa.int64()),
            "device": pa.array([rng.randrange(DEVICES) for _ in times], pa.int32()),
            "value": pa.array([rng.randrange(100) for _ in times], pa.int32()),
            "tm": pa.array([BEGIN + dt.timedelta(seconds=s) for s in times], pa.timestamp("us")),
        }
    )
    (tmp_path / "in").mkdir()
    held = []
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE Raw (n BIGINT, device INTEGER, value INTEGER, tm TIMESTAMP)
            FROM FILES '{tmp_path}/in/*.parquet' WITH (timestamp = 'tm');
            CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY device""")
        for name, (text, _) in VIEWS.items():
            db.execute(f"CREATE VIEW {name} AS {text}")
        part = -(-len(times) // RUNS)
        for run in range(RUNS):
            pq.write_table(rows.slice(run * part, part), tmp_path / "in" / f"{run:04}.parquet")
            db.run(final=run == RUNS - 1)
            held.append(db.status()["state"]["rows"])
        for name, (_, sql) in VIEWS.items():
            found = Counter(tuple(r.values()) for r in db.query(f"SELECT * FROM {name}").to_pylist())
            assert found == truth(sql, rows), name
        assert db.status()["sources"][0]["late"] == 0
    third = RUNS // 3
    assert max(held[-third:]) < 1.5 * max(held[third : 2 * third]) + 200, held
