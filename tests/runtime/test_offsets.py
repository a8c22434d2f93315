"""Offsets: Spark compares them as text, and they outlive the version that wrote them."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.paper.notation import Feed
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.offsets import Offset, SourceOffset, offset_sum, read_offset, sign_offset
from tidemill.runtime.paths import Paths


def test_an_offset_at_which_nothing_is_new_is_returned_as_it_was_logged(tmp_path):
    """Otherwise Spark would see another text, and begin a batch without rows for ever."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("REGISTER SOURCE R (v INTEGER) FROM GENERATE (rate = 10, rows = 10); CREATE TAGGED STREAM S OVER R")
        db.execute("CREATE VIEW V AS SELECT count(*) AS n FROM S")
        db.run()
        assert db.planner is not None and db.offset is not None
        logged = json.loads(json.dumps({k: db.offset[k] for k in reversed(db.offset)}))
        assert db.planner.latest(logged) is logged


def test_keys_have_the_same_order_in_every_offset():
    one, two = (Offset(plan=n, sources={"S": SourceOffset({"row": n}, clock=n)}, batch=n) for n in (1, 2))
    assert list(one.encode()) == list(two.encode())
    assert list(one.encode()["sources"]["S"]) == list(two.encode()["sources"]["S"])


def test_an_offset_that_is_not_as_it_was_signed_is_refused(tmp_path):
    (tmp_path / "db").mkdir()
    paths = Paths(str(tmp_path / "db"))
    end = sign_offset(Offset(plan=3), Offset(batch=4), None, "")
    assert end.batch == 5 and read_offset(paths, "", end.encode(), 5) == end
    with pytest.raises(EngineProblem, match="checksum"):
        read_offset(paths, "", {**end.encode(), "plan": 4})
    with pytest.raises(EngineProblem, match="batch 5"):
        read_offset(paths, "", end.encode(), 6)
    assert offset_sum(end.encode()) == end.sum


def test_a_database_goes_on_after_offsets_that_an_older_version_logged(tmp_path):
    """They had no keys for what was not so, an empty text for a time that was not known, and another order."""
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        feed = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send("<a,1>1 <b,2>2")
        db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT k, count(*) AS n FROM S GROUP BY k")
        db.run()
    log = tmp_path / "db" / "checkpoint" / "offsets"
    for path in sorted(log.iterdir(), key=lambda p: int(p.name)):
        *head, line = path.read_text().splitlines()
        offset = as_logged_before(json.loads(line))
        path.write_text("\n".join([*head, json.dumps(offset)]))
        assert read_offset(Paths(str(tmp_path / "db")), "", offset).encode() != offset
    with duckdb.connect(str(tmp_path / "db" / "views.duckdb")) as duck:
        duck.execute("UPDATE __meta SET value = ? WHERE name = 'offset'", [json.dumps(offset["sum"])])
    feed.send("<a,3>3")
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        db.run()
        assert db.query("SELECT n FROM V ORDER BY k").column("n").to_pylist() == [2, 1]


def as_logged_before(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset with the keys that a version before wrote, and its checksum."""
    always = ("clock", "done", "floor", "idle", "position", "top")
    sources = {
        name: {k: entry[k] for k in always} | {"clock": "" if entry["clock"] is None else entry["clock"], "jumps": []}
        for name, entry in offset["sources"].items()
    }
    found = dict(sorted({**offset, "sources": sources}.items()))
    return {**found, "sum": offset_sum(found)}
