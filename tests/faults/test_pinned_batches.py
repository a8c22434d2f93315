"""A batch that fails for certain can be left behind: by DROP, by a repaired input, or by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tidemill.engine.directory.consistency import problems
from tidemill.errors import TidemillError
from tidemill.runtime.checkpoint.offsets import Offset
from tidemill.runtime.checkpoint.progress import Checkpoint
from tidemill.runtime.stage.stage import Stage

SOURCES = """
    REGISTER SOURCE Good (k INTEGER, at BIGINT) FROM FILES '{data}/good/*.json' WITH (timestamp = 'at');
    REGISTER SOURCE Bad (k INTEGER, at BIGINT) FROM FILES '{data}/bad/*.{form}'
      WITH (timestamp = 'at', on_error = 'fail', format = '{form}'{options});
    CREATE TAGGED STREAM G OVER Good;
    CREATE TAGGED STREAM B OVER Bad;
    CREATE VIEW OfGood AS SELECT count(*) AS n FROM G;
    CREATE VIEW OfBad AS SELECT count(*) AS n FROM B;
    CREATE VIEW OfBoth AS SELECT G.k FROM G [WINDOW 5] AS G, B [WINDOW 5] AS B WHERE G.k = B.k;
"""


def lines(rows: list[dict[str, Any]], form: str = "json") -> str:
    if form == "json":
        return "".join(json.dumps(r) + "\n" for r in rows)
    return "k,at\n" + "".join(f"{r['k']},{r['at']}\n" for r in rows)


def prepared(data: Path, form: str) -> None:
    for name in ("good", "bad"):
        (data / name).mkdir(parents=True)
    (data / "good" / "a.json").write_text(lines([{"k": i, "at": i} for i in range(10)]))
    (data / "bad" / f"a.{form}").write_text(lines([{"k": i, "at": i} for i in range(5)], form))
    (data / "bad" / f"b.{form}").write_text(
        lines([{"k": 7, "at": 7}, {"k": "no number", "at": 8}, {"k": 9, "at": 9}], form)
    )


@pytest.fixture(params=["json", "csv"])
def form(request) -> str:
    return request.param


@pytest.fixture(params=["", ", batch_rows = 2"])
def broken(tmp_path, form, request):
    prepared(tmp_path / "in", form)
    options = request.param + (", header = true" if form == "csv" else "")
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(SOURCES.format(data=tmp_path / "in", form=form, options=options))
        for _ in range(2):  # starting again does not help
            with pytest.raises(TidemillError, match="TM400"):
                db.run()
        yield db


def count(db: Any, view: str) -> int:
    return db.query(f"SELECT n FROM {view}").column(0)[0].as_py()


def test_drop_source_takes_effect_on_the_failed_batch(broken):
    """on_error = 'fail' with a bad record: restarts, DROP SOURCE … CASCADE and reopening fail, unrelated views stay
    dead.
    """
    broken.execute("DROP SOURCE Bad CASCADE")
    broken.run()
    assert count(broken, "OfGood") == 10


def test_drop_view_takes_effect_on_the_failed_batch(broken):
    """The logged offset pins the plan, so DROP does not help."""
    broken.execute("DROP VIEW OfBad; DROP VIEW OfBoth")
    broken.run()
    assert count(broken, "OfGood") == 10


def test_a_repaired_file_takes_effect_on_the_failed_batch(broken, tmp_path, form):
    path = tmp_path / "in" / "bad" / f"b.{form}"
    path.write_text(path.read_text().replace('"no number"', "8").replace("no number", "8"))
    broken.run()
    assert (count(broken, "OfGood"), count(broken, "OfBad")) == (10, 8)


def test_a_batch_of_one_source_is_skipped_into_dead_letters_by_hand(broken):
    broken.execute("SKIP BATCH OF Bad")
    broken.run()
    assert count(broken, "OfGood") == 10
    lost = broken.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
    assert {x["source"] for x in lost} == {"Bad"}
    assert any("no number" in x["reason"] or "no number" in x["raw"] for x in lost)
    seen = broken.query("SELECT n FROM OfBad").to_pylist()
    assert len(lost) + (seen[0]["n"] if seen else 0) == 8
    with pytest.raises(TidemillError, match="TM512"):
        broken.execute("SKIP BATCH OF Bad")


def test_a_file_that_is_gone_is_skipped_by_hand(broken, tmp_path, form):
    (tmp_path / "in" / "bad" / f"b.{form}").unlink()
    for _ in range(3):
        try:
            broken.run()
            break
        except TidemillError as error:
            assert error.code == "TM401"
            broken.execute("SKIP BATCH OF Bad")
    assert count(broken, "OfGood") == 10
    assert "skipped by hand" in broken.query("SELECT reason FROM dead_letters").column(0).to_pylist()[-1]


def test_a_batch_that_is_committed_is_replayed_as_it_was(tmp_path, monkeypatch):
    """A crash between the commits of outlet and Spark: a view that is dropped then may not change what is replayed."""
    prepared(tmp_path / "in", "json")
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(SOURCES.format(data=tmp_path / "in", form="json", options=""))
        (tmp_path / "in" / "bad" / "b.json").unlink()
        db.warm()
        db.runner.publisher.publish(mode="finite", run=1)
        db.logged = end = db.plan()
        _, out = db.compute(end)
        db.outlet.apply(db.batch, out)
        db.stop()
        db.execute("DROP VIEW OfBoth")
        versions: list[int] = []
        before = Stage.step

        def seen(self: Stage, messages: Any) -> Any:
            found = before(self, messages)
            versions.append(self.plan.version)
            return found

        monkeypatch.setattr(Stage, "step", seen)
        db.run()
        assert versions[0] == end["plan"] < versions[-1]
        assert (count(db, "OfGood"), count(db, "OfBad")) == (10, 5)


def test_a_logged_batch_that_takes_in_no_feedback_misses_none(tmp_path):
    """A crash in one of the first batches: the database said that feedback/-00000000001.json is missing."""
    prepared(tmp_path / "in", "json")
    (tmp_path / "in" / "bad" / "b.json").unlink()
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(SOURCES.format(data=tmp_path / "in", form="json", options=""))
        db.run()
        offset = Offset(plan=db.catalog.version)
        logged = Checkpoint(db.outlet.committed + 1, db.outlet.committed, offset, db.paths.database)
        for name in ("metadata", "state"):  # what Spark has beside its logs
            (tmp_path / "db" / "checkpoint" / name).mkdir(parents=True)
        assert list(problems(db.paths, db.catalog, db.store, logged)) == []
