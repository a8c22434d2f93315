"""What one operator of a batch may use: beyond it its views stop, and the others go on."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from tests.faults.test_failing_operators import stopped
from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.evaluation.limits import OutOfTime, memory_limited, time_limited
from tidemill.runtime.operators.grouping.group import GroupBy

SETUP = """
    REGISTER SOURCE S (k INTEGER, n INTEGER, at BIGINT) FROM FILES '{data}/*.json' WITH (timestamp = 'at');
    CREATE TAGGED STREAM T OVER S;
    CREATE VIEW Fine AS SELECT k FROM T;
"""


@pytest.fixture
def db(tmp_path):
    lines = [json.dumps({"k": i, "n": 1_000_000, "at": i}) for i in range(80)]
    (tmp_path / "a.json").write_text("\n".join(lines) + "\n")
    with LocalDatabase(str(tmp_path / "db"), cores=1) as found:
        found.execute(SETUP.format(data=tmp_path))
        yield found


def fine(db: Any) -> bool:
    return db.query("SELECT count(*) AS n FROM Fine").column(0)[0].as_py() == 80


def test_an_operator_that_needs_too_much_memory_stops_its_views(db):
    """repeat('x', 30000000) over 80 rows: no single value is that long any more, but all of a row together may be."""
    columns = ", ".join(f"repeat('x', n) AS v{i}" for i in range(30))
    db.execute(f"SET operator_memory = '400 MB'; CREATE VIEW Large AS SELECT k, {columns} FROM T")
    db.run()
    assert fine(db)
    assert "TM510" in stopped(db)["Large"]


def test_an_operator_that_takes_too_long_stops_its_views(db, monkeypatch):
    """An aggregate, or anything in Python, that never ends."""
    before = GroupBy.step

    def endless(self: GroupBy, *args: Any) -> Any:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        return before(self, *args)

    monkeypatch.setattr(GroupBy, "step", endless)
    db.execute("SET operator_time = '1 second'; CREATE VIEW Slow AS SELECT k, count(*) AS c FROM T GROUP BY k")
    began = time.monotonic()
    db.run()
    assert time.monotonic() - began < 40
    assert fine(db)
    assert "TM511" in stopped(db)["Slow"]


def test_limits_that_make_no_sense_are_refused(db):
    for text in ("SET operator_memory = '3 apples'", "SET operator_memory = 5", "SET operator_time = 'x'"):
        with pytest.raises(TidemillError, match="TM217"):
            db.execute(text)


def test_memory_is_as_it_was_behind_the_limit():
    with memory_limited(200 << 20), pytest.raises(MemoryError):
        np.ones(1 << 28)
    assert len(np.ones(1 << 26)) == 1 << 26


def test_nested_times_do_not_count_for_the_outer_one():
    with time_limited(0.6):
        for _ in range(4):
            with time_limited(5):
                time.sleep(0.3)
    with pytest.raises(OutOfTime), time_limited(0.2):
        for _ in range(100):
            time.sleep(0.1)
