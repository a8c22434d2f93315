"""A database with another number of shards goes on as if it had always had it."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.spark import scenario
from tidemill.engine.directory.examine import examine
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import changed
from tidemill.serve import opening
from tidemill.serve.cli import app

FILES = 6
MORE = """
    CREATE STREAMED VIEW Total AS SELECT count(*) AS n, sum(amount) AS s FROM Bills;
    CREATE STREAMED VIEW Kinds AS SELECT level, count(DISTINCT room) AS n, min(temp) AS t FROM Rooms GROUP BY level;
    CREATE STREAMED VIEW Last AS SELECT shop, sum(amount) AS s FROM Bills [ROWS 20 SLIDE 5] GROUP BY shop;
    CREATE STREAMED VIEW Landmark AS SELECT shop, max(amount) AS m FROM Bills [WINDOW UNTIL NOW] GROUP BY shop;
    CREATE STREAMED VIEW Both AS SELECT room FROM Rooms INTERSECT SELECT room FROM Stays;
    CREATE STREAMED VIEW Often AS SELECT level, count(*) AS n FROM Rooms SYNC EVERY 7 ROWS GROUP BY level;
    CREATE STREAMED VIEW Tick AS SELECT TimePoint FROM clockStr WHERE TimePoint % 5 = 0;
"""


def opened(folder: Path, shards: int) -> CheckpointedDatabase:
    return CheckpointedDatabase(str(folder / "db"), shards=shards)


def made(folder: Path, shards: int) -> CheckpointedDatabase:
    """With every kind of operator."""
    db = opened(folder, shards)
    scenario.create(db, folder / "inbox", folder / "out")
    db.execute(MORE)
    return db


def small(folder: Path, shards: int) -> CheckpointedDatabase:
    """With loops, which is what the moment of a change matters to."""
    db = opened(folder, shards)
    scenario.create(db, folder / "inbox", views=("Levels", "Sizes", "Lately"))
    return db


def check(found: dict, wanted: dict) -> None:
    assert found
    assert scenario.differences(found, {name: wanted[name] for name in found}) == ""


def bring(data: Path, folder: Path, first: int, last: int) -> None:
    for path in sorted(data.glob("*/*.json")):
        if first <= int(path.stem) < last:
            scenario.write_lines(folder / "inbox" / path.parent.name / path.name, path.read_text().splitlines())


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scenario.write_input(folder, files=FILES, rows=14)
    return folder


@pytest.fixture(scope="module")
def wanted(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wanted")
    (folder / "inbox").mkdir()
    shutil.copytree(data, folder / "inbox", dirs_exist_ok=True)
    with made(folder, 2) as db:
        db.run()
        return everything(db, folder)


def everything(db: CheckpointedDatabase, folder: Path) -> dict:
    """Sink files of one time lie in the order of batches, which cut differently."""
    found = scenario.everything(db, folder / "out" if (folder / "out").exists() else None)
    dead = found.pop("dead")
    return {**found, "dead": sorted({row["raw"] for row in dead})}


def folders(tmp_path: Path, data: Path) -> Path:
    for source in ("readings", "guests", "sales"):
        (tmp_path / "inbox" / source).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("shards, sizes", [((2, 3), "usual"), ((3, 1, 2), "smallest")])
def test_any_number_of_shards_answers_the_same(tmp_path, data, wanted, shards, sizes):
    """Every kind of operator has state when it is moved."""
    folder, draw = folders(tmp_path, data), random.Random(str((shards, sizes)))
    cuts = sorted(draw.sample(range(1, FILES), len(shards) - 1))
    with changed(**({"inline_bytes": 0} if sizes == "smallest" else {})):
        with made(folder, shards[0]) as db:
            bring(data, folder, 0, cuts[0])
            db.run(final=False)
            for count, first, last in zip(shards[1:], cuts, [*cuts[1:], FILES], strict=True):
                db.rescale(count)
                assert db.catalog.settings["shards"] == count
                bring(data, folder, first, last)
                db.run(final=last == FILES)
            check(everything(db, folder), wanted)
            plan = db.outlet.plan
        with opened(folder, shards[-1]) as db:
            assert db.outlet.plan == plan
            db.run()
            check(everything(db, folder), wanted)
    assert all(one.state == "ok" for one in examine(str(folder / "db")))


def test_a_live_database_that_was_stopped_between_batches_is_drained(tmp_path, data, wanted):
    """What loops bring to other shards is on its way when the job is stopped."""
    folder = folders(tmp_path, data)
    with small(folder, 2) as db:
        bring(data, folder, 0, 4)
        db.start()
        db.step()
        db.stop()
        db.rescale(3)
        bring(data, folder, 4, FILES)
        db.run()
        check(everything(db, folder), wanted)


def test_a_database_that_has_not_run_is_simply_told(tmp_path, data, wanted):
    folder = folders(tmp_path, data)
    with small(folder, 2) as db:
        db.rescale(3)
    with opened(folder, 3) as db:
        bring(data, folder, 0, FILES)
        db.run()
        check(everything(db, folder), wanted)


@pytest.mark.parametrize("moment", ["written", "between", "renamed"])
def test_a_crash_leaves_the_old_number_or_the_new_one(tmp_path, data, wanted, moment, monkeypatch):
    class Crash(BaseException):
        pass

    folder, rename, renames = folders(tmp_path, data), os.rename, []

    def crashing(source, target):
        stop = {"written": 0, "between": 1}.get(moment)
        if stop == len(renames):
            raise Crash
        renames.append(target)
        rename(source, target)

    def crashing_at_the_end(paths, labels):
        raise Crash

    with small(folder, 2) as db:
        bring(data, folder, 0, 4)
        db.run(final=False)
        with monkeypatch.context() as patch:
            patch.setattr("tidemill.engine.directory.rescale.os.rename", crashing)
            if moment == "renamed":
                patch.setattr("tidemill.engine.directory.rescale.finish", crashing_at_the_end)
            with pytest.raises(Crash):
                db.rescale(3)
        db.outlet.close()
        db.store.close()
        db.directory.release()
        db._closed = True
    count = 3 if moment == "renamed" else 2
    with opened(folder, count) as db:
        assert sorted(p.name for p in (folder / "db").glob("checkpoint*")) == ["checkpoint"]
        bring(data, folder, 4, FILES)
        db.run()
        check(everything(db, folder), wanted)


def test_it_is_refused_while_the_job_runs_and_where_rows_are_not_where_they_should_be(tmp_path, data):
    folder = folders(tmp_path, data)
    with small(folder, 2) as db:
        bring(data, folder, 0, 4)
        db.start()
        with pytest.raises(TidemillError) as caught:
            db.rescale(3)
        assert caught.value.code == "TM502"
        db.stop()
        db.run(final=False)
        homes = db.workload.homes

        def wrong(shards):
            return {name: type(home)("one") if home.how == "hash" else home for name, home in homes(shards).items()}

        db.workload.homes = wrong
        with pytest.raises(TidemillError) as caught:
            db.rescale(3)
        assert caught.value.code == "TM647" and "not where they should be" in str(caught.value.detail)
        db.workload.homes = homes
        before = everything(db, folder)
        db.run(final=False)
        assert scenario.differences(everything(db, folder), before) == "", "the database is as it was"
        db.rescale(3)
        assert db.catalog.settings["shards"] == 3


def test_the_command_changes_the_number_of_shards(tmp_path, data, monkeypatch):
    folder = folders(tmp_path, data)
    bring(data, folder, 0, 2)
    with small(folder, 2) as db:
        db.run(final=False)
        before = everything(db, folder)
    monkeypatch.setattr(opening, "connect", lambda path, **settings: CheckpointedDatabase(path, **settings))
    result = CliRunner().invoke(app, ["rescale", str(folder / "db"), "--shards", "3"])
    assert result.exit_code == 0 and "3 shards" in result.output, result.output
    with opened(folder, 3) as db:
        db.run(final=False)
        assert everything(db, folder) == before
    with pytest.raises(TidemillError) as caught:
        opened(folder, 2)
    assert caught.value.code == "TM605" and "tidemill rescale" in str(caught.value.hint)
