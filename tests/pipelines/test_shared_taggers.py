"""Queries over one keyed stream give the same answers and logs whether they share a tagger or not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.optimize.views.tagging import MODES

SOURCE = """
REGISTER SOURCE Readings (room INTEGER, building VARCHAR, degrees INTEGER, humid DOUBLE, op VARCHAR, at BIGINT)
FROM FILES '{folder}/*.csv' WITH (timestamp = 'at', operation = 'op', batch_rows = {rows});
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
"""
PREDICATES = (
    "",
    "degrees > 3",
    "room < 3",
    "building = 'a'",
    "room = 1 AND degrees <= 4",
    "humid > 0.5",
    "1 / room > 0",
)
POINTS = ("", " SYNC EVERY 2", " SYNC EVERY 3", " SYNC EVERY 4", " SYNC EVERY 6")
GROUPED = (
    "building, count(*) AS n FROM Rooms{points}{where} GROUP BY building",
    "degrees, count(*) AS n, sum(room) AS s FROM Rooms{points}{where} GROUP BY degrees",
    "degrees % 2 AS odd, sum(degrees) AS s, avg(degrees) AS m FROM Rooms{points}{where} GROUP BY degrees % 2",
    "building, max(degrees) AS hot, count(DISTINCT degrees) AS d FROM Rooms{points}{where} GROUP BY building",
    "building, sum(humid) AS h FROM Rooms{points}{where} GROUP BY building",
    "count(*) AS n, sum(degrees) AS s FROM Rooms{points}{where}",
    "room, degrees FROM Rooms{points}{where}",
    "room, TS AS at FROM Rooms{points}{where}",
)

queries = st.builds(
    lambda text, points, predicate: text.format(points=points, where=f" WHERE {predicate}" if predicate else ""),
    st.sampled_from(GROUPED),
    st.sampled_from(POINTS),
    st.sampled_from(PREDICATES),
)
records = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["a", "b", ""]),
    st.integers(0, 6),
    st.sampled_from(["0.25", "0.1", "3e-15", "7e-14", "", "-0.0"]),
    st.sampled_from(["upsert", "upsert", "upsert", "delete"]),
    st.integers(0, 2),
)


def write_records(folder, rows, part="1", at=1):
    """The records as one file; the time of the last one."""
    lines = []
    for *values, later in rows:
        at += later
        lines.append(",".join([*map(str, values), str(at)]))
    (Path(folder) / f"{part}.csv").write_text("\n".join(["room,building,degrees,humid,op,at", *lines, ""]))
    return at


def logs_of(folder, views, mode, rows=7):
    """The log of every view, each time in an order of its own."""
    with LocalDatabase(f"{folder}/{mode}{rows}") as db:
        db.execute(f"SET shared_tagging = {mode}")
        db.execute(SOURCE.format(folder=folder, rows=rows))
        create(db, views)
        db.run()
        return [sorted(db.changes(f"V{i}").to_pylist(), key=_order) for i in range(len(views))]


def create(db, views, first=0, kind="STREAMED"):
    db.execute(";".join(f"CREATE {kind} VIEW V{first + i} AS SELECT {text}" for i, text in enumerate(views)))


def contents_in_runs(folder, views, mode, parts):
    """What views hold after each of several runs over input that grows: all but the last stay open."""
    files, at, found = Path(folder) / f"runs {mode}", 1, []
    files.mkdir()
    with LocalDatabase(f"{folder}/runs {mode} db") as db:
        db.execute(f"SET shared_tagging = {mode}")
        db.execute(SOURCE.format(folder=files, rows=7))
        create(db, views, kind="COMPLETE")
        for number, part in enumerate(parts):
            at = write_records(files, part, str(number), at)
            db.run(final=number == len(parts) - 1)
            tables = [db.query(f"SELECT * FROM V{i}").to_pylist() for i in range(len(views))]
            found.append([sorted(table, key=_order) for table in tables])
    return found


def _order(row):
    return [str(row[name]) for name in sorted(row)]


@effort(8, thorough_cases=240)
@given(rows=st.lists(records, min_size=1, max_size=30), views=st.lists(queries, min_size=2, max_size=5, unique=True))
def test_logs_do_not_depend_on_the_setting(rows, views):
    with tempfile.TemporaryDirectory() as folder:
        write_records(folder, rows)
        expected = logs_of(folder, views, "off")
        for mode in MODES:
            if mode != "off":
                assert logs_of(folder, views, mode) == expected, mode
        assert logs_of(folder, views, "phantom", rows=1000) == expected


@effort(5)
@given(
    parts=st.lists(st.lists(records, min_size=1, max_size=15), min_size=2, max_size=3),
    views=st.lists(queries, min_size=2, max_size=4, unique=True),
)
def test_views_of_open_runs_do_not_depend_on_the_setting(parts, views):
    with tempfile.TemporaryDirectory() as folder:
        expected = contents_in_runs(folder, views, "off", parts)
        for mode in ("tagger", "phantom"):
            assert contents_in_runs(folder, views, mode, parts) == expected, mode


def test_doubles_that_cancel_leave_no_rest(tmp_path):
    """Between two points of the first query a room goes from 0 to 1e-13 and back, and another from 0 to 1e-29. Added up
    as they come to the shared tagger, at a point of the second query, 1e-29 would be lost.
    """
    readings = [(0, "0", 0), (1, "0", 0), (0, "1e-13", 4), (1, "1e-29", 0), (0, "0", 2), (2, "0", 6)]
    write_records(tmp_path, [(room, "a", 0, humid, "upsert", later) for room, humid, later in readings])
    query = "building, sum(humid) AS h FROM Rooms SYNC EVERY {} GROUP BY building"
    views = (query.format(4), query.format(3))
    expected = logs_of(tmp_path, views, "off", rows=1000)
    assert [row["h"] for row in expected[0]] == [0.0, 1e-29]
    assert logs_of(tmp_path, views, "tagger", rows=1000) == expected


VIEWS = (
    "building, count(*) AS n FROM Rooms SYNC EVERY 2 GROUP BY building",
    "degrees, sum(room) AS s FROM Rooms SYNC EVERY 3 WHERE degrees > 3 GROUP BY degrees",
    "building, max(degrees) AS hot FROM Rooms SYNC EVERY 2 GROUP BY building",
)
ROWS = [(r % 5, "ab"[r % 2], (3 * r) % 7, "0.25", "upsert", r % 2) for r in range(40)]


def kinds_of(db):
    plan = db.execute("EXPLAIN").physical
    return [op.id.partition(".")[0] if op.kind == "finer" else op.kind for op in (*plan.reader, *plan.stage)]


@pytest.mark.parametrize(
    ("mode", "taggers", "finer"), [("off", 3, 0), ("tagger", 1, 0), ("phantom", 1, 1), ("auto", 1, 0)]
)
def test_operators_of_each_setting(tmp_path, mode, taggers, finer):
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"SET shared_tagging = {mode}")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, VIEWS)
        db.run()
        kinds = kinds_of(db)
        assert (kinds.count("tagger"), kinds.count("finer")) == (taggers, finer)
        assert ("synchronize_periods" in kinds) == (mode != "off")


def taggers_of(db):
    return {op.id for op in db.execute("EXPLAIN").physical.stage if op.kind == "tagger"}


def test_a_later_query_leaves_running_taggers_alone(tmp_path):
    """Queries that begin later share among themselves; the operators of those that run stay."""
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, VIEWS[:2])
        db.run(final=False)
        before = taggers_of(db)
        create(db, VIEWS, first=2)
        db.run()
        assert len(before) == 1 and before < taggers_of(db) and len(taggers_of(db)) == 2


def test_the_choice_outlives_the_process_and_the_setting(tmp_path):
    """A tagger has state: neither SET nor opening again nor dropping a neighbour changes which one a query reads."""
    write_records(tmp_path, ROWS[:20])
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, VIEWS)
        db.run(final=False)
        before = taggers_of(db)
        db.execute("SET shared_tagging = off; DROP VIEW V2")
        assert taggers_of(db) == before
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert taggers_of(db) == before and len(before) == 1
        db.execute("DROP VIEW V0; DROP VIEW V1")
        create(db, VIEWS, first=3)
        db.runner.publisher.publish()
        assert len(taggers_of(db)) == 3
        assert db.catalog.settings["tagging"]["taggers"] == {}


def test_a_finer_grouping_comes_and_goes_while_its_queries_run(tmp_path):
    """It has no state, so SET changes it between two batches; logs stay."""
    write_records(tmp_path, ROWS)
    expected = logs_of(tmp_path, VIEWS, "off")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = phantom")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, VIEWS)
        db.runner.publisher.publish(mode="live")
        db.runner.bring_up()
        for mode in ("tagger", "phantom", "tagger", "auto", "phantom"):
            db.step()
            db.execute(f"SET shared_tagging = {mode}")
            db.runner.publisher.publish()
            assert ("finer" in kinds_of(db)) == (mode == "phantom")
        db.run()
        assert [sorted(db.changes(f"V{i}").to_pylist(), key=_order) for i in range(len(VIEWS))] == expected


@pytest.mark.parametrize(
    ("views", "taggers"),
    [
        (("room, degrees FROM Rooms WHERE 1 / room > 0", "building, count(*) AS n FROM Rooms GROUP BY building"), 2),
        (("room FROM Rooms WHERE building = 1", "building, count(*) AS n FROM Rooms GROUP BY building"), 1),
        (("room, degrees FROM Rooms", "room, degrees FROM Rooms WHERE degrees > 3"), 1),
        (("room, degrees FROM Rooms",), 1),
    ],
    ids=["a predicate that can fail", "a text read as a number behind the tagger", "one with all columns", "alone"],
)
def test_where_a_tagger_is_shared_and_where_not(tmp_path, views, taggers):
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = tagger")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, views)
        assert len(taggers_of(db)) == taggers


@pytest.mark.parametrize(
    ("other", "fed"),
    [
        ("degrees, count(*) AS n FROM Rooms GROUP BY degrees", True),
        ("degrees, sum(humid) AS h FROM Rooms GROUP BY degrees", False),
        ("humid, count(*) AS n FROM Rooms GROUP BY humid", False),
        ("degrees, max(room) AS m FROM Rooms GROUP BY degrees", False),
        ("degrees, sum(room + 1) AS s FROM Rooms GROUP BY degrees", False),
        ("degrees + 1 AS d, count(*) AS n FROM Rooms GROUP BY degrees + 1", True),
    ],
    ids=["count", "sum of doubles", "doubles as keys", "extreme", "argument that can fail", "key that is computed"],
)
def test_what_a_finer_grouping_feeds(tmp_path, other, fed):
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = phantom")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, ("building, count(*) AS n FROM Rooms GROUP BY building", other))
        assert ("finer" in kinds_of(db)) == fed


def test_explain_lists_the_pipelines(tmp_path):
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, VIEWS)
        db.run()
        found = db.execute("EXPLAIN VIEW V0")
        (report,) = found.to_dict()["tagging"]
        assert report["queries"] == ["V0", "V1", "V2"] and report["statistics"] == "assumed"
        assert [plan["plan"] for plan in report["plans"]] == ["a", "a′", "b"]
        separate, tagger, _ = report["plans"]
        assert tagger["chosen"] and not separate["chosen"] and tagger["cost"] < separate["cost"]
        assert separate["NS"] == 3 * 1_000 and "a′ (tagger)" in str(found)
        assert 1_000 + 3 * 2 * 400 < tagger["NS"] < 1_000 + 3 * 2 * 1_000  # all changes of the tagger, for each query


def test_what_was_counted_is_used_for_later_queries(tmp_path):
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = phantom")
        db.execute(SOURCE.format(folder=tmp_path, rows=7).replace(", operation = 'op'", ""))
        create(db, VIEWS)
        db.run()
        create(db, VIEWS, first=3)
        db.runner.publisher.publish()
        (records, keys, *_), (share,) = (
            db.catalog.settings["tagging"]["rates"]["Readings room"],
            (db.workload.tagging.settings.finer_rows.values()),
        )
        assert keys == 5 and 1.5 < records < 2.5 and 0 < share <= 1
        assert db.execute("EXPLAIN VIEW V3").tagging[0]["statistics"] == "measured"


def test_the_setting_is_checked_and_shown(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        with pytest.raises(TidemillError) as caught:
            db.execute("SET shared_tagging = some")
        assert caught.value.code == "TM217" and "phantom" in caught.value.hint
        db.execute("SET shared_tagging = Phantom")
        shown = {row["name"]: row["value"] for row in db.execute("SHOW SETTINGS").to_pylist()}
        assert shown["shared_tagging"] == "phantom" and "tagging" not in shown
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.workload.tagging.settings.mode == "phantom"
