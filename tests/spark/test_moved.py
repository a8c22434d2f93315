"""Under Spark: a directory that was moved, copied or restored from a backup goes on where it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidemill
from tests.harness import LocalDatabase
from tests.spark import scenario
from tests.spark.processes import until

pytestmark = pytest.mark.spark
VIEWS = ("Hot", "Levels", "Sizes")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scenario.write_input(folder, files=6, rows=20)
    return folder


@pytest.fixture(scope="module")
def wanted(data, tmp_path_factory):
    with LocalDatabase(str(tmp_path_factory.mktemp("wanted") / "db")) as db:
        scenario.create(db, data, views=VIEWS)
        db.run(final=True)
        return {name: scenario.answer(db, name) for name in VIEWS}


def bring(data: Path, inbox: Path, late: bool) -> None:
    """The first or the second half of the files."""
    for path in sorted(data.glob("*/*.json")):
        if (path.stem >= "0003") == late:
            (inbox / path.parent.name).mkdir(parents=True, exist_ok=True)
            scenario.write_lines(inbox / path.parent.name / path.name, path.read_text().splitlines())


def finished(path: Path, spark) -> dict:
    with tidemill.open(str(path), spark=spark) as db:
        db.run(final=True)
        return {name: scenario.answer(db, name) for name in VIEWS}


def test_moved_copied_and_restored_directories_go_on(spark, data, wanted, tmp_path):
    bring(data, tmp_path / "inbox", late=False)
    with tidemill.open(str(tmp_path / "db1"), spark=spark) as db:
        scenario.create(db, tmp_path / "inbox", views=VIEWS)
        db.run()
        db.start()
        db.backup(str(tmp_path / "backup"))
        bring(data, tmp_path / "inbox", late=True)
        batch = db.status()["batch"]
        until(lambda: db.status()["batch"] > batch, 60, "a batch with the second half")
        db.backup(str(tmp_path / "later"))
        db.stop()
    (tmp_path / "db1").rename(tmp_path / "db 2")
    shutil.copytree(tmp_path / "db 2", tmp_path / "db3")
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "db4"))
    tidemill.restore(str(tmp_path / "later"), str(tmp_path / "db5"))
    for name in ("db 2", "db3", "db4", "db5"):
        assert scenario.differences(finished(tmp_path / name, spark), wanted) == "", name


def test_a_copy_and_its_original_run_side_by_side(spark, data, tmp_path):
    """Spark runs one query of an id at a time: the copy has one of its own."""
    bring(data, tmp_path / "inbox", late=False)
    with tidemill.open(str(tmp_path / "db1"), spark=spark) as db:
        scenario.create(db, tmp_path / "inbox", views=("Hot",))
        db.run()
    shutil.copytree(tmp_path / "db1", tmp_path / "db2")
    paths = [str(tmp_path / name) for name in ("db1", "db2")]
    with tidemill.open(paths[0], spark=spark) as one, tidemill.open(paths[1], spark=spark) as two:
        one.start()
        two.start()
        batches = [db.status()["batch"] for db in (one, two)]
        for db in (one, two):
            db.execute("CREATE VIEW More AS SELECT count(*) AS n FROM Hot")
        until(
            lambda: all(db.status()["batch"] > before for db, before in zip((one, two), batches, strict=True)),
            60,
            "a batch of both",
        )
        assert [db.is_running for db in (one, two)] == [True, True]


def test_another_number_of_shards_answers_the_same(spark, data, wanted, tmp_path):
    """Spark's checkpoint begins anew with the states of the new shards, and counts its batches from 0."""
    bring(data, tmp_path / "inbox", late=False)
    with tidemill.open(str(tmp_path / "db"), spark=spark, shards=2) as db:
        scenario.create(db, tmp_path / "inbox", views=VIEWS)
        db.run()
        batch = db.outlet.committed
        db.rescale(3)
        db.backup(str(tmp_path / "backup"))
        bring(data, tmp_path / "inbox", late=True)
        db.run()
        assert db.outlet.committed > batch and db.catalog.settings["shards"] == 3
        db.rescale(1)
        db.backup(str(tmp_path / "later"))
    with tidemill.open(str(tmp_path / "db"), spark=spark, shards=1) as db:
        db.run(final=True)
        found = {name: scenario.answer(db, name) for name in VIEWS}
    assert scenario.differences(found, wanted) == ""
    for name in ("backup", "later"):
        tidemill.restore(str(tmp_path / name), str(tmp_path / f"from {name}"))
        assert scenario.differences(finished(tmp_path / f"from {name}", spark), wanted) == "", name
