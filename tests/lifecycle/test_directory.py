"""A database directory: opened again, opened twice, opened by an older program."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of, tagged
from tidemill.errors import TidemillError

SETUP = """
    CREATE TAGGED STREAM K OVER Raw KEY k;
    CREATE TAGGED STREAM S OVER Raw;
    CREATE STREAMED VIEW V AS SELECT k, v FROM K WHERE v > 1;
    CREATE STREAMED VIEW G AS SELECT count(*) AS n, sum(v) AS s FROM V;
    CREATE VIEW W AS SELECT k, max(v) AS m FROM S WHERE NOW - 10 < TS GROUP BY k;
    CREATE STREAMED VIEW Y AS SELECT k, v FROM S SYNC EVERY 4;
"""


def reopened(db: LocalDatabase) -> LocalDatabase:
    """Close and open again; what Spark would remember is carried over by hand."""
    kept = db.blobs, db.offset, db.batch
    db.close()
    fresh = LocalDatabase(str(db.paths.root))
    fresh.blobs, fresh.offset, fresh.batch = kept
    return fresh


CHUNKS = ["<a,1>1 <b,2>2", "<a,3>3 <c,4>5", "<b,0>6 <d,9>7", "<c,5>11 <a,1>13"]


@pytest.mark.parametrize("reopen", [False, True], ids=["in one go", "closed between"])
def test_everything_goes_on_after_reopening(tmp_path, reopen):
    db = LocalDatabase(str(tmp_path / "db"))
    feed = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER")
    db.execute(SETUP)
    for chunk in CHUNKS:
        db.start()
        feed.send(chunk)
        settle(db)
        db.stop()
        db = reopened(db) if reopen else db
    db.run()
    assert tagged(db, "V") == ["+<b,2>2", "+<a,3>3", "+<c,4>5", "-<b,2>6", "+<d,9>7", "u<c,5>11", "-<a,3>13"]
    assert tagged(db, "G") == [
        "+<0,>1",
        "u<1,2>2",
        "u<2,5>3",
        "u<3,9>5",
        "u<2,7>6",
        "u<3,16>7",
        "u<3,17>11",
        "u<2,14>13",
    ]
    assert tagged(db, "Y") == ["+<a,1>4", "+<a,3>4", "+<b,2>4", "+<b,0>8", "+<c,4>8", "+<d,9>8", "+<c,5>12"]
    assert rows_of(db, "SELECT * FROM W ORDER BY k") == [("a", 1), ("b", 0), ("c", 5), ("d", 9)]
    assert db.status()["sources"][0]["rows"] == 8
    db.close()


def test_the_catalog_survives(tmp_path):
    db = LocalDatabase(str(tmp_path / "db"), clock="1 minute")
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send(CHUNKS[0])
    db.execute(SETUP)
    query = db.execute("SELECT STREAMED k FROM V").name
    db.execute(f"CREATE SINK Out FROM V TO FILES '{tmp_path}/out'")
    db.run()
    shown, settings = db.execute("SHOW ALL"), db.execute("SHOW SETTINGS")
    plans = {name: str(db.execute(f"EXPLAIN {name}")) for name in ("V", "G", "W", "Y", query)}
    db = reopened(db)
    assert db.execute("SHOW ALL") == shown and db.execute("SHOW SETTINGS") == settings
    assert {name: str(db.execute(f"EXPLAIN {name}")) for name in plans} == plans
    assert tagged(db, query) == ["+<b>2"]
    db.close()


def test_a_statement_after_reopening_continues_the_numbering(tmp_path):
    db = LocalDatabase(str(tmp_path / "db"))
    feed = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send(CHUNKS[0])
    db.execute(SETUP)
    first = db.execute("SELECT STREAMED k FROM V").name
    db.run()
    db = reopened(db)
    second = db.execute("SELECT STREAMED k FROM V").name
    assert second != first
    feed.send(CHUNKS[1])
    db.run()
    assert tagged(db, second) == ["+<b>2", "+<a>3", "+<c>5"]
    db.close()


@pytest.mark.parametrize("options", [{"shards": 3}, {"clock": "1 hour"}], ids=["shards", "clock"])
def test_what_cannot_change_is_refused(tmp_path, options):
    db = LocalDatabase(str(tmp_path / "db"), clock="1 minute")
    Feed(db, tmp_path, "Raw", "k VARCHAR")
    db.close()
    with pytest.raises(TidemillError) as caught:
        LocalDatabase(str(tmp_path / "db"), **options)
    assert caught.value.code == "TM605"
    LocalDatabase(str(tmp_path / "db")).close()


def test_a_second_process_is_refused(tmp_path):
    db = LocalDatabase(str(tmp_path / "db"))
    program = """
import sys
from tidemill.engine.database import Database
from tidemill.errors import TidemillError
try:
    Database(sys.argv[1]).close()
    print("opened")
except TidemillError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "db")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.startswith("TM601") and "in use by another process" in said and "hint:" in said
    db.close()
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip() == "opened"


def test_a_second_open_in_the_same_process_is_refused(tmp_path):
    db = LocalDatabase(str(tmp_path / "db"))
    with pytest.raises(TidemillError) as caught:
        LocalDatabase(str(tmp_path / "db"))
    assert caught.value.code == "TM601"
    db.close()


def test_a_newer_format_is_refused_and_let_go(tmp_path):
    LocalDatabase(str(tmp_path / "db")).close()
    path = tmp_path / "db" / "format.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({"format": found["format"] + 1, "tidemill": "9.9"}))
    with pytest.raises(TidemillError) as caught:
        LocalDatabase(str(tmp_path / "db"))
    assert caught.value.code == "TM603" and "9.9" in str(caught.value) and "upgrade" in str(caught.value.hint)
    path.write_text(json.dumps(found))
    LocalDatabase(str(tmp_path / "db")).close()


def test_a_path_that_cannot_be_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TidemillError) as caught:
        LocalDatabase(str(tmp_path / "file"))
    assert caught.value.code == "TM602"
