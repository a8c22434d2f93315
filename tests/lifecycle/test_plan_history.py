"""Every change of plan is kept and shown: when, why, from what to what, predicted and measured."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tidemill.engine.adapt.history import InForce, PlanHistory, Subject
from tidemill.sql.catalog import Catalog

PACKETS = """
    REGISTER SOURCE Packets (src INTEGER, dst INTEGER, len INTEGER, at TIMESTAMP)
    FROM GENERATE (rate = 2000, rows = 20000, seed = 5, src = 'uniform(1,60)', dst = 'uniform(1,50)',
                   len = 'uniform(40,1500)') WITH (timestamp = 'at', batch_rows = 4000);
    CREATE TAGGED STREAM P OVER Packets;
    CREATE VIEW BySrc AS SELECT src, count(*) AS n FROM P [RANGE 2 SECONDS] GROUP BY src;
    CREATE VIEW ByDst AS SELECT dst, count(*) AS n FROM P [RANGE 2 SECONDS] GROUP BY dst;
"""
JOIN = """
    CREATE VIEW Pairs AS SELECT A.src, count(*) AS n, sum(B.len) AS bytes
    FROM P AS A [RANGE 2 SECONDS], P AS B [RANGE 2 SECONDS] WHERE A.dst = B.dst GROUP BY A.src;
"""


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        yield db


def plans(db: LocalDatabase, kind: str) -> list[dict]:
    return [row for row in db.execute("SHOW PLANS").to_pylist() if row["kind"] == kind]


def test_the_first_plan_is_a_change_made_by_its_statement(db):
    db.execute(PACKETS + JOIN)
    db.run()
    first, *_ = plans(db, "windows")
    assert (first["name"], first["before"], first["batch"]) == ("Packets", None, -1)
    assert first["reason"] == "CREATE VIEW BySrc and 2 more"
    assert first["predicted_after"] > 0
    join, *_ = plans(db, "join")
    assert (join["name"], join["before"]) == ("Pairs", None)
    assert join["after"].startswith(("LAP", "EAP"))


def test_a_set_is_a_reason_and_each_side_has_its_numbers(db):
    db.execute(PACKETS + JOIN + "SET early_aggregation = 'late'")
    db.run()
    db.execute("SET lfta_memory = 5000; SET early_aggregation = 'early'")
    db.run()
    windows, join = plans(db, "windows")[-1], plans(db, "join")[-1]
    assert windows["reason"] == join["reason"] == "SET lfta_memory = 5000 and 1 more"
    assert windows["before"] == plans(db, "windows")[-2]["after"] != windows["after"]
    assert (join["before"], join["after"]) == ("LAP", "EAP11")
    assert windows["measured_before"] > 0
    assert join["predicted_before"] > 0
    assert join["predicted_after"] > 0
    assert windows["batch"] >= 0


def test_what_statistics_change_is_recorded_with_the_version_that_brings_it(db):
    db.execute("SET lfta_memory = 6000")  # too little for the 40,000 pairs of values that nothing was known of
    db.execute(PACKETS.replace("uniform(1,60)", "uniform(1,200)").replace("uniform(1,50)", "uniform(1,200)"))
    db.run()
    after = [row for row in plans(db, "windows") if row["reason"].startswith("statistics")]
    assert after
    for row in after:
        assert row["before"] != row["after"]
        assert row["batch"] >= 0
        assert row["predicted_after"] < 0.8 * row["predicted_before"]
        assert row["measured_before"] > 0
    assert plans(db, "windows")[-1]["measured_after"] > 0


def test_a_dropped_query_ends_its_plan(db):
    db.execute(PACKETS + JOIN)
    db.run()
    db.execute("DROP VIEW Pairs; CREATE VIEW Again AS SELECT src, max(len) AS n FROM P [RANGE 2 SECONDS] GROUP BY src")
    db.run()
    last = plans(db, "join")[-1]
    assert (last["name"], last["after"]) == ("Pairs", None)
    assert last["reason"] == "DROP VIEW Pairs and 1 more"


def test_nothing_is_recorded_where_nothing_changes(db):
    db.execute(PACKETS + "SET pin_plan = on")
    db.run()
    before = db.execute("SHOW PLANS").num_rows
    db.execute("SET sealed_rows = 100")
    db.run()
    assert db.execute("SHOW PLANS").num_rows == before


def test_the_history_outlives_the_process(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(PACKETS + JOIN)
        db.run()
        shown, blobs, offset, batch = db.execute("SHOW PLANS").to_pylist(), db.blobs, db.offset, db.batch
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.execute("SHOW PLANS").to_pylist() == shown
        db.blobs, db.offset, db.batch = blobs, offset, batch
        db.execute("SET lfta_memory = 5000")
        db.run()
        assert db.execute("SHOW PLANS").to_pylist()[: len(shown)] == shown
        assert plans(db, "windows")[-1]["reason"] == "SET lfta_memory = 5000"


def test_the_status_has_the_last_changes(db):
    db.execute(PACKETS)
    db.run()
    status = db.status()
    assert status["plan_changes"][-1]["after"] == plans(db, "windows")[-1]["after"]
    json.dumps(status)


def test_at_most_so_many_changes_are_kept():
    catalog = Catalog()
    history = PlanHistory.of(catalog, length=5)
    for version in range(20):
        history.publish(version, version, {Subject("join", "a"): InForce("V", f"plan {version}", 1.0)})
        history.record_cost(Subject("join", "a"), float(version))
    history.save()
    again = PlanHistory.of(Catalog.from_dict(json.loads(json.dumps(catalog.to_dict()))), length=5)
    assert [c.version for c in again.changes] == [15, 16, 17, 18, 19]
    assert [(c.measured_before, c.measured_after) for c in again.changes[-2:]] == [(17.0, 18.0), (18.0, 19.0)]


def test_a_reason_holds_for_one_version():
    history = PlanHistory()
    subject = Subject("windows", "S")
    history.record_reason(subject, "peak load", 7.0)
    (first,) = history.publish(1, -1, {subject: InForce("S", "a", 5.0)})
    (second,) = history.publish(2, 3, {subject: InForce("S", "b", 4.0)})
    assert (first.reason, first.predicted_before, first.predicted_after) == ("peak load", 7.0, 5.0)
    assert (second.reason, second.predicted_before, second.before, second.after) == ("start", 5.0, "a", "b")
