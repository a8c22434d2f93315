"""A hot key of a join on Spark is split while the query runs, and everything after that answers as if it were not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tests.harness import LocalDatabase

pytestmark = pytest.mark.spark

HOT, ROWS = 7, 100  # rows of a stream in a moment; half of them have the hot key
DAYS = (range(28), range(28, 38), range(38, 48))  # moments of each run; the first one has batches to find the key
VIEW = """CREATE STREAMED VIEW {name} AS SELECT {by}, count(*) AS n, sum(A.x) AS x, sum(B.x) AS y, max(B.x) AS most
    FROM SA AS A [RANGE 4 SLIDE 2], SB AS B [RANGE 4 SLIDE 2] WHERE A.k = B.k GROUP BY {by}"""


def deliver(folder: Path, day: int) -> None:
    """One more file of each stream."""
    rng, moments = np.random.default_rng(day), np.repeat(np.array(DAYS[day]), ROWS)
    for name in "AB":
        (folder / name).mkdir(exist_ok=True, parents=True)
        count = len(moments)
        pq.write_table(
            pa.table(
                {
                    "k": np.where(rng.random(count) < 0.5, HOT, rng.integers(0, 60, count)).astype(np.int32),
                    "g": rng.integers(0, 5, count).astype(np.int32),
                    "x": rng.integers(-900, 900, count).astype(np.int32),
                    "at": moments,
                }
            ),
            folder / name / f"{day}.parquet",
        )


class Days:
    """What happens to a database day by day: `v` runs alone, then `w` comes, then neither."""

    def __init__(self, folder: Path, hot: str) -> None:
        self.arrived, self.hot = folder / "in", hot
        self.changes: list[list[str]] = []
        self.plans: list[str] = []

    def begin(self, db: Any) -> None:
        for name in "AB":
            (self.arrived / name).mkdir(exist_ok=True, parents=True)
            db.execute(f"""REGISTER SOURCE r{name} (k INTEGER, g INTEGER, x INTEGER, at BIGINT)
                FROM FILES '{self.arrived}/{name}/*.parquet' WITH (timestamp = 'at', batch_rows = 400);
                CREATE TAGGED STREAM S{name} OVER r{name}""")
        db.execute(f"SET early_aggregation = late; SET hot_keys = {self.hot}")
        db.execute(VIEW.format(name="v", by="A.k"))

    def first_two(self, db: Any) -> None:
        self.begin(db)
        self.day(db, "v")
        db.execute(VIEW.format(name="w", by="A.g"))
        self.day(db, "vw")

    def day(self, db: Any, views: str = "vw") -> None:
        """One day, with all changes of the views and the plan of the first one at its end."""
        deliver(self.arrived, len(self.plans))
        db.run(final=True)
        self.changes.append(sorted(f"{view} {row}" for view in views for row in db.changes(view).to_pylist()))
        self.plans.append(str(db.explain("EXPLAIN VIEW v")))


def test_a_split_key_changes_no_answer_of_this_view_of_a_later_one_nor_after_a_restart(spark, tmp_path):
    unsplit, split = Days(tmp_path / "off", "off"), Days(tmp_path / "auto", "auto")
    with LocalDatabase(str(tmp_path / "off" / "db")) as db:
        unsplit.first_two(db)
        unsplit.day(db)
    with tidemill.open(str(tmp_path / "auto" / "db"), spark=spark) as db:
        split.first_two(db)
    with tidemill.open(str(tmp_path / "auto" / "db"), spark=spark) as db:
        split.day(db)
    assert not any("hot keys" in plan for plan in unsplit.plans)
    assert all(f"hot keys, in all shards: {HOT} (the rows of " in plan for plan in split.plans)
    assert split.changes == unsplit.changes
    before, after = (sum(line.startswith("w ") for line in day) for day in split.changes[1:])
    assert 0 < before < after, "the later view said nothing"
