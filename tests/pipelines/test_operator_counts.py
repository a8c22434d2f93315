"""Every operator counts rows in, rows out and time; EXPLAIN shows them beside what the cost model predicts."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tidemill.plan import physical as p
from tidemill.plan.operator_rows import OperatorRows

ROOMS, TIMES, BUILDINGS = 20, 60, 4
SETUP = """
REGISTER SOURCE Readings (room INTEGER, building INTEGER, degrees INTEGER, at BIGINT)
FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
CREATE STREAMED VIEW Buildings AS
SELECT building, sum(degrees) AS total FROM Rooms SYNC EVERY 6 GROUP BY building;
"""


def write_readings(folder, first=1, last=TIMES):
    lines = [f"{r},{r % BUILDINGS},{70 + (r * at) % 19},{at}" for at in range(first, last + 1) for r in range(ROOMS)]
    (folder / f"{first}.csv").write_text("\n".join(["room,building,degrees,at", *lines, ""]))


def operators_of(db, view="Buildings"):
    """The operators of a view by kind, with what EXPLAIN says of each."""
    found = db.execute(f"EXPLAIN VIEW {view}")
    ops = (*found.physical.reader, *found.physical.stage)
    return {op.kind: found.operators[op.id] for op in ops if op.id in found.operators}


def test_rows_and_times_of_every_operator(tmp_path):
    write_readings(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.run()
        found = operators_of(db)
        points = TIMES // 6
        assert found["scan"].counted == found["synchronize"].counted == (ROOMS * TIMES, ROOMS * TIMES)
        assert found["latest"].counted == (ROOMS * TIMES, ROOMS * points)
        assert found["tagger"].counted.rows_in == ROOMS * points
        changes = found["tagger"].counted.rows_out
        assert found["partial"].counted.rows_in == changes and changes > ROOMS
        assert found["group"].counted.rows_in == found["partial"].counted.rows_out
        shown = db.changes("Buildings").num_rows
        assert found["gate"].counted.rows_out == 2 * shown - BUILDINGS  # an update is two changes
        assert all(found[kind].seconds > 0 for kind in ("latest", "tagger", "partial", "group", "gate"))
        assert found["synchronize"].seconds is None  # it is a part of another statement


def test_predictions_beside_the_counts(tmp_path):
    """Regular updates, six in each gap: that no key is left out at any point says that they are."""
    write_readings(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.run()
        found = operators_of(db)
        for kind in ("latest", "partial"):
            assert found[kind].predicted.rows_out == pytest.approx(found[kind].counted.rows_out, rel=0.1)
        assert found["scan"].predicted is None
        text = str(db.execute("EXPLAIN VIEW Buildings"))
        assert "1,200 → 200 rows (predicted 1,200 → 197)" in text
        assert json.loads(json.dumps(db.execute("EXPLAIN VIEW Buildings").to_dict()))["operators"]


def test_a_predicate_in_the_tagger_has_no_prediction(tmp_path):
    write_readings(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.execute("SET shared_tagging = off")
        db.execute("CREATE VIEW Hot AS SELECT building, count(*) AS n FROM Rooms WHERE degrees > 80 GROUP BY building")
        db.run()
        found = operators_of(db, "Hot")
        assert found["tagger"].predicted is None and found["tagger"].counted.rows_in == ROOMS * TIMES


def test_counts_add_up_over_batches_and_survive_closing(tmp_path):
    write_readings(tmp_path, 1, 30)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.run(final=False)
        before = operators_of(db)
        write_readings(tmp_path, 31, 60)
        db.run()
        after = operators_of(db)
        assert before["scan"].counted.rows_in == ROOMS * 30 and after["scan"].counted.rows_in == ROOMS * 60
        assert after["latest"].seconds > before["latest"].seconds
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert {k: v.counted for k, v in operators_of(db).items()} == {k: v.counted for k, v in after.items()}


@pytest.mark.parametrize("content", ["", "{}", '{"database": "another", "operators": {"scan.Readings": [1, 1, 0, 0]}}'])
def test_a_lost_file_loses_counts_and_nothing_else(tmp_path, content):
    write_readings(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.run()
    (tmp_path / "db" / "operators.json").write_text(content)
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.execute("EXPLAIN VIEW Buildings").operators == {}
        assert db.changes("Buildings").num_rows > BUILDINGS


def test_operators_of_dropped_views_are_forgotten(tmp_path):
    write_readings(tmp_path, 1, 30)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.execute("SET shared_tagging = off")
        db.execute("CREATE VIEW Hot AS SELECT room, degrees FROM Rooms WHERE degrees > 80")
        db.run(final=False)
        assert sum(op.startswith("tag.") for op in db.state.operators.counts) == 2
        db.execute("DROP VIEW Hot")
        write_readings(tmp_path, 31, 60)
        db.run()
        assert sum(op.startswith("tag.") for op in db.state.operators.counts) == 1


def test_hash_tables_are_counted(tmp_path):
    write_readings(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path) + "CREATE TAGGED STREAM Plain OVER Readings;")
        db.execute("CREATE VIEW W AS SELECT building, count(*) AS n FROM Plain [RANGE 10] GROUP BY building")
        db.run()
        found = operators_of(db, "W")
        assert found[p.Lfta.kind].counted.rows_in == ROOMS * TIMES and found[p.Lfta.kind].counted.rows_out > 0
        assert isinstance(found[p.Weave.kind], OperatorRows)
