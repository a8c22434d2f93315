"""The engine on Spark answers as it does in one process, where other tests look closely."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

import tidemill
from tests.harness import LocalDatabase
from tests.spark import scenario
from tidemill.runtime.spark.spread import spread
from tidemill.runtime.thresholds import changed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scenario.write_input(folder, files=8, rows=20)
    return folder


@pytest.fixture(scope="module")
def wanted(data, tmp_path_factory):
    """Everything the workload answers, computed in this process."""
    folder = tmp_path_factory.mktemp("wanted")
    with LocalDatabase(str(folder / "db")) as db:
        scenario.create(db, data, folder / "out")
        db.run(final=True)
        found = scenario.everything(db, folder / "out")
    assert all(found.values()), "a view without rows would compare nothing"
    return found


def test_files_to_a_filtered_view_to_an_ad_hoc_select(spark, data, tmp_path):
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        db.execute(scenario.SOURCES.format(data=data, options=""))
        db.execute("CREATE VIEW Sold AS SELECT B.shop, B.amount FROM R(Bills) B WHERE B.amount >= 50")
        summary = db.run(final=True)
        assert (summary.rows + summary.late, summary.bad) == (160, 3)
        found = db.query("SELECT shop, count(*) AS n FROM Sold GROUP BY shop HAVING min(amount) >= 50 ORDER BY shop")
        assert found.column("shop").to_pylist() == sorted(scenario.SHOPS)
        assert 0 < sum(found.column("n").to_pylist()) < 160


def test_workers_write_the_files_of_a_lake(spark, data, tmp_path):
    own = os.getpid()
    assert own not in spread(spark, lambda part: os.getpid(), range(3))
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db, changed(lake_file_rows=30):
        db.execute(scenario.SOURCES.format(data=data, options=""))
        db.execute("CREATE VIEW Sold AS SELECT B.shop, B.amount FROM R(Bills) B WHERE B.amount >= 50")
        db.execute(f"CREATE SINK K FROM Sold TO DELTA '{tmp_path}/lake'")
        db.state.outlet.sinks.spread = partial(spread, spark)  # as on a cluster
        db.run(final=True)
        wanted = sorted((row["shop"], row["amount"]) for row in db.query("SELECT shop, amount FROM Sold").to_pylist())
        assert db.status()["sinks"][0]["problem"] is None
    table = DeltaTable(str(tmp_path / "lake"))
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted((row["shop"], row["amount"]) for row in rows) == wanted
    assert len(table.file_uris()) >= len(wanted) // 30 >= 2


def test_every_view_sink_and_dead_letter_is_as_in_one_process(spark, data, wanted, tmp_path):
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        scenario.create(db, data, tmp_path / "out")
        db.run(final=True)
        assert scenario.differences(scenario.everything(db, tmp_path / "out"), wanted) == ""


def test_three_shards_and_small_batches_answer_the_same(spark, data, wanted, tmp_path):
    with tidemill.open(str(tmp_path / "db"), spark=spark, shards=3) as db:
        scenario.create(db, data, tmp_path / "out", batch_rows=60)
        assert db.run(final=True).batches >= 4
        assert scenario.differences(scenario.everything(db, tmp_path / "out"), wanted) == ""


def test_runs_one_after_the_other_go_on_where_the_last_one_ended(spark, data, wanted, tmp_path):
    """New files between two runs, a database opened again: as if all files had been there at once."""
    inbox = tmp_path / "inbox"
    names = sorted(p.relative_to(data) for p in data.glob("*/*.json"))
    for late in (False, True):
        for name in names:
            if (name.stem >= "0004") == late:
                (inbox / name.parent).mkdir(parents=True, exist_ok=True)
                (inbox / name).write_bytes((data / name).read_bytes())
        with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
            if not late:
                scenario.create(db, inbox, views=("Hot", "Levels", "Sizes"))
            db.run(final=late)
            found = {name: scenario.answer(db, name) for name in ("Hot", "Levels", "Sizes")}
    assert scenario.differences(found, {name: wanted[name] for name in found}) == ""
