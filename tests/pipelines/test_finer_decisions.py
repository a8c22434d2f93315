"""`auto` has a finer grouping where the model says that it pays, from the start, and goes by what it counts then."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill.optimize.views.streams import StreamRate
from tidemill.optimize.views.tagging import TaggingSettings, predict_finer
from tidemill.plan.periods import Every
from tidemill.runtime.paths import load_plan

ROOMS, TIMES = 40, 30
SOURCE = """
REGISTER SOURCE Readings (room INTEGER, building INTEGER, degrees INTEGER, at BIGINT)
FROM FILES '{}/*.csv' WITH (timestamp = 'at', batch_rows = 200);
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
"""
COUNTED = "room, degrees FROM Rooms"
KEYS = ("building", "degrees", "building % 2", "degrees % 2", "degrees % 3", "degrees % 5", "building, degrees")
# Each by another key, or they would read together.
GROUPED = [
    f"{', '.join(f'{key} AS k{i}' for i, key in enumerate(keys.split(', ')))}, sum(room) AS s FROM Rooms SYNC EVERY 2"
    f" GROUP BY {keys}"
    for keys in KEYS
]


def write_readings(folder, unlike, part=1):
    """Every room reports every second; few different readings, or as many as there are records."""
    lines = []
    for at in range(1 + (part - 1) * TIMES, 1 + part * TIMES):
        for room in range(ROOMS):
            lines.append(f"{room},{room % 2},{at * ROOMS + room if unlike else (room + at) % 3},{at}")
    (folder / f"{part}.csv").write_text("\n".join(["room,building,degrees,at", *lines, ""]))


def finer_in(plan):
    return [op.id for op in plan.stage if op.id.startswith("finer.")]


def running(db):
    return finer_in(load_plan(db.paths.plan(db.catalog.version)))


@pytest.fixture
def start(tmp_path):
    opened = []

    def begin(unlike, first=COUNTED):
        write_readings(tmp_path, unlike)
        db = LocalDatabase(str(tmp_path / "db"))
        opened.append(db)
        db.execute(SOURCE.format(tmp_path))
        if first:
            db.execute(f"CREATE VIEW First AS SELECT {first}")
            db.run(final=False)
        db.execute(";".join(f"CREATE STREAMED VIEW V{i} AS SELECT {text}" for i, text in enumerate(GROUPED)))
        db.runner.publisher.publish()
        return db

    yield begin
    for db in opened:
        db.close()


def share_of(db):
    found = db.execute("EXPLAIN VIEW V0")
    (report,) = found.to_dict()["tagging"]
    return report["finer"], next(plan["name"] for plan in report["plans"] if plan["chosen"]), str(found)


def test_the_model_decides_where_the_stream_was_counted(start):
    db = start(unlike=False)
    finer, plan, text = share_of(db)
    assert finer["basis"] == "predicted" and 0.6 < finer["rows"] < 0.7 and plan == "phantom"
    assert running(db) and "% of rows, predicted" in text


def test_where_nothing_was_counted_nothing_is_assumed_to_be_saved(start):
    db = start(unlike=False, first=None)
    finer, plan, _ = share_of(db)
    assert finer == {"rows": 1.0, "basis": "assumed"} and plan == "tagger" and not running(db)


def test_a_finer_grouping_that_was_counted_to_save_nothing_goes(start, tmp_path):
    """No two readings are in one group: what comes in goes out. It goes while the run goes on."""
    db = start(unlike=True)
    assert running(db)
    write_readings(tmp_path, unlike=True, part=2)
    db.run(final=False)
    finer, plan, _ = share_of(db)
    assert finer["basis"] == "counted" and finer["rows"] > 0.9 and plan == "tagger" and not running(db)


def test_a_finer_grouping_that_was_counted_to_save_stays(start, tmp_path):
    db = start(unlike=False)
    write_readings(tmp_path, unlike=False, part=2)
    db.run(final=False)
    finer, plan, _ = share_of(db)
    assert finer["basis"] == "counted" and finer["rows"] < 0.3 and plan == "phantom" and running(db)


def test_one_that_begins_without_counts_comes_when_the_stream_was_counted(start):
    db = start(unlike=False, first=None)
    db.run(final=False)
    assert running(db)


def test_a_pinned_plan_stays(start, tmp_path):
    db = start(unlike=True)
    db.execute("SET pin_plan = on")
    write_readings(tmp_path, unlike=True, part=2)
    db.run(final=False)
    assert running(db)


def test_logs_are_those_of_separate_queries(start, tmp_path):
    """While the finer grouping comes and goes."""
    db = start(unlike=True)
    db.execute("SET shared_tagging = off")
    db.execute(";".join(f"CREATE STREAMED VIEW P{i} AS SELECT {text}" for i, text in enumerate(GROUPED)))
    db.execute("SET shared_tagging = auto")
    write_readings(tmp_path, unlike=True, part=2)
    db.run()
    for i in range(len(GROUPED)):
        mine, plain = (sorted(map(repr, db.changes(f"{name}{i}").to_pylist())) for name in ("V", "P"))
        assert mine == plain and mine


def test_the_prediction_lies_between_its_bounds():
    for records in (1.0, 50.0, 5_000.0):
        share = predict_finer([Every(3_000_000), Every(5_000_000)], StreamRate(records, 100.0), 200)
        assert 0.6 < share <= 1.0
    assert TaggingSettings().rates == {}
