"""Two sites on real Spark and real Flight: rows that arrive there are answered here, while both run."""

from __future__ import annotations

import time

import pytest

import tidemill
from tests.network import free_port

pytestmark = pytest.mark.spark

SOURCE = """
REGISTER SOURCE {0}Source (ip INTEGER, len INTEGER, at INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM {0} OVER {0}Source;
"""


def write(folder, name, number, first):
    """Five rows, whole at once."""
    rows = "".join(f"{i % 3},{i},{i}\n" for i in range(first, first + 5))
    part = folder / name / f".{number}.csv"
    part.write_text("ip,len,at\n" + rows)
    part.rename(folder / name / f"{number}.csv")


def until(reached, seconds=90):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_two_sites_that_run(spark, tmp_path):
    port = free_port()
    for name in ("Here", "There"):
        (tmp_path / name).mkdir()
    with (
        tidemill.open(str(tmp_path / "paris"), spark=spark, shards=2) as paris,
        tidemill.open(str(tmp_path / "lyon"), spark=spark, shards=2) as lyon,
    ):
        paris.execute(SOURCE.format("There", tmp_path))
        paris.execute(f"CREATE LOCAL SITE paris AT 'localhost:{port}' WITH (plaintext = true)")
        paris.execute("CREATE SITE lyon WITH (plaintext = true); EXPORT STREAM There TO SITE lyon")
        paris.start()
        lyon.execute(SOURCE.format("Here", tmp_path))
        lyon.execute("CREATE LOCAL SITE lyon AT 'localhost:0' WITH (plaintext = true)")
        lyon.execute(f"CREATE SITE paris AT 'localhost:{port}' WITH (plaintext = true)")
        lyon.execute(
            "CREATE STREAMED VIEW Both AS SELECT A.len AS here, B.len AS there"
            " FROM Here [WINDOW 100] A JOIN paris.There [WINDOW 100] B ON A.ip = B.ip"
        )
        lyon.start()
        until(lambda: any(paris.catalog.of("edge")))
        for number in range(3):
            write(tmp_path, "There", number, 5 * number)
            write(tmp_path, "Here", number, 5 * number)
        # Time 14 is open on both sides: 14 rows each, of which 5, 5 and 4 have the same ip.
        until(lambda: len(lyon.changes("Both")) >= 5 * 5 + 5 * 5 + 4 * 4)
        pairs = {(r["here"], r["there"]) for r in lyon.changes("Both").to_pylist()}
        assert pairs == {(a, b) for a in range(14) for b in range(14) if a % 3 == b % 3}
        [shown] = lyon.status()["sites"]
        assert shown["connected"] and shown["reads"][0]["received"] > 0
        time.sleep(3)  # what the newest times show, and what is on its way
        batches = paris.status()["batch"], lyon.status()["batch"]
        time.sleep(4)
        assert (paris.status()["batch"], lyon.status()["batch"]) == batches, "idle is idle: no micro-batch"
