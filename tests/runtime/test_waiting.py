"""The planner waits for a word of the engine: it hears every change, and none that is not there."""

from __future__ import annotations

import json
import threading
import time

from tests.harness import LocalDatabase
from tidemill.runtime.paths import write_json
from tidemill.runtime.planning.waiting import Watch, touch
from tidemill.runtime.spark.data_source import TidemillStreamReader


def test_a_file_that_stays_is_waited_for_until_the_end(tmp_path):
    path = str(tmp_path / "control.json")
    write_json(path, {"run": 1})
    began = time.monotonic()
    watch = Watch(path)
    assert not watch.wait_for_change(watch.look(), 0.05)
    assert time.monotonic() - began >= 0.05


def test_a_change_that_came_before_the_wait_is_not_missed(tmp_path):
    path = str(tmp_path / "control.json")
    watch = Watch(path)
    for change in (lambda: write_json(path, {}), lambda: write_json(path, {}), lambda: touch(path)):
        before = watch.look()
        change()
        assert watch.wait_for_change(before, 0.0)


def test_a_change_ends_the_wait(tmp_path):
    path = str(tmp_path / "control.json")
    write_json(path, {})
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            write_json(path, {})

    watch = Watch(path, nap)
    assert watch.wait_for_change(watch.look(), 60.0) and len(naps) == 3


def test_a_touch_changes_nothing_and_makes_nothing(tmp_path):
    path = tmp_path / "control.json"
    touch(str(path))
    assert not path.exists()
    path.write_text("{}")
    touch(str(path))
    assert path.read_text() == "{}"


def test_a_question_at_rest_is_answered_when_a_run_is_asked_for(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"ts": 1}) + "\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE P (ts BIGINT) FROM FILES '{tmp_path}/*.jsonl' WITH (timestamp = 'ts');"
            " CREATE TAGGED STREAM S OVER P; CREATE VIEW v AS SELECT count(*) AS n FROM S"
        )
        db.warm()
        reader = TidemillStreamReader(db.paths.root, 2)
        assert reader.latestOffset(db.offset, None) == db.offset, "nothing was asked for"
        asked = threading.Thread(
            target=lambda: (time.sleep(0.05), db.runner.publisher.write_control(mode="finite", run=1))
        )
        asked.start()
        found = reader.latestOffset(db.offset, None)
        asked.join()
        assert found["final"] == 1 and found["sources"]["P"]["position"] == {"file": 1, "at": 0}


def test_a_live_question_is_held_back_until_something_comes(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"ts": 1}) + "\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE P (ts BIGINT) FROM FILES '{tmp_path}/*.jsonl' WITH (timestamp = 'ts');"
            " CREATE TAGGED STREAM S OVER P; CREATE VIEW v AS SELECT count(*) AS n FROM S"
        )
        db.start()
        while db.step():
            pass
        reader = TidemillStreamReader(db.paths.root, 2)
        reader.planner.quiet_s = 1e9
        began = time.monotonic()
        assert reader.latestOffset(db.offset, None) == db.offset and time.monotonic() - began >= 0.2
        late = threading.Timer(0.05, lambda: (tmp_path / "b.jsonl").write_text(json.dumps({"ts": 2}) + "\n"))
        late.start()
        found = db.offset
        while found == db.offset:  # a question at a time, as Spark asks
            found = reader.latestOffset(db.offset, None)
        late.join()
        assert found["sources"] != db.offset["sources"] and time.monotonic() - began < 30
