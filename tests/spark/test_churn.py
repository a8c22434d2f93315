"""CREATE and DROP again and again on real Spark: files, tables, memory and the time of a batch do not grow."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

import tidemill
from tests.properties.effort import thorough

ROUNDS = 60 if thorough() else 5

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


def grown(root: Path) -> dict[str, int]:
    """Files outside of what Spark keeps for the last hundred batches."""
    found = {
        name: sum(len(files) for _, _, files in os.walk(root / name))
        for name in ("plans", "sources", "state", "sealed", "inbox", "outbox")
    }
    return {**found, "folders of sources": len(list((root / "sources").iterdir()))}


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def in_force(db) -> None:
    """Wait for a batch with the newest plan, and the one after it: then what no batch needs any more is gone."""
    end = time.monotonic() + 120
    while db.status()["last_batch"].get("plan") != db.status()["plan"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    batch = db.status()["last_batch"]["batch"]
    while db.status()["last_batch"]["batch"] < batch + 2:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_nothing_grows_with_the_number_of_changes(tmp_path):
    """15 minutes of CREATE and DROP left 340 plan files, 200 tables and hundreds of notes behind."""
    (tmp_path / "in").mkdir()
    found, taken, memory = [], [], []
    with tidemill.open(str(tmp_path / "db"), shards=2) as db:
        db.execute("""REGISTER SOURCE Live (k INTEGER, v INTEGER, at TIMESTAMP)
                      FROM GENERATE (rate = 200, seed = 3, k = 'uniform(1,9)', v = 'uniform(1,99)')
                      WITH (timestamp = 'at');
                      CREATE TAGGED STREAM S OVER Live;
                      CREATE VIEW Kept AS SELECT k, count(*) AS n FROM S GROUP BY k""")
        with db.running():
            for number in range(ROUNDS):
                began = time.monotonic()
                (tmp_path / "in" / f"{number}.json").write_text('{"w": 1}\n')
                db.execute(f"""REGISTER SOURCE Raw{number} (w INTEGER) FROM FILES '{tmp_path}/in/{number}.json';
                               CREATE TAGGED STREAM R{number} OVER Raw{number};
                               CREATE STREAMED VIEW A{number} AS SELECT w + {number} AS w{number} FROM R{number};
                               CREATE VIEW B{number} AS SELECT k, max(v) AS m{number} FROM S GROUP BY k;
                               CREATE VIEW C{number} AS SELECT k, sum(v) AS s{number}
                               FROM S [RANGE 4 SLIDE 2] GROUP BY k;
                               CREATE VIEW D{number} AS SELECT n, count(*) AS c{number} FROM Kept GROUP BY n""")
                db.execute(
                    f"DROP VIEW D{number}; DROP VIEW C{number}; DROP VIEW B{number}; DROP SOURCE Raw{number} CASCADE"
                )
                in_force(db)
                taken.append(time.monotonic() - began)
                memory.append(resident_mb())
                tables = len(db.store.cursor().sql("SELECT * FROM duckdb_tables()").fetchall())
                notes = sum(map(len, db.store.metas().values()))
                found.append({**grown(tmp_path / "db"), "tables": tables, "notes": notes // 1000})
    early, late = found[min(5, ROUNDS // 2)], found[-1]
    more = {name: (early[name], late[name]) for name in late if late[name] > early[name] + 2}
    assert not more, more
    if not thorough():
        return  # what is loaded and compiled on the way tells nothing of time and memory in a few rounds
    third = ROUNDS // 3
    assert statistics.median(taken[-third:]) < 2 * statistics.median(taken[:third]) + 1
    assert memory[-1] < 1.3 * memory[third] + 50, memory
