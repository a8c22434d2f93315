"""What calibration measures is kept, and plans follow it. Times are not checked here."""

from __future__ import annotations

import json

import pytest
from fake_db import FakeDatabase
from typer.testing import CliRunner

from tests.harness import LocalDatabase
from tidemill.engine.adapt import calibration
from tidemill.engine.adapt.sharing import Sharing, costs_path, keep_costs
from tidemill.errors import EngineProblem, TidemillError
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.runtime.calibrate import sharing as runtime
from tidemill.runtime.calibrate.joins import JoinCosts
from tidemill.runtime.calibrate.pipelines import PipelineCosts
from tidemill.runtime.calibrate.sharing import Costs
from tidemill.serve import calibrate, opening
from tidemill.serve.cli import app
from tidemill.sql.catalog import Catalog


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def measured(monkeypatch):
    costs = Costs(probe=2e-9, eviction=5e-8, journey=4e-7, operation=1e-9)
    monkeypatch.setattr(calibrate, "measure_sharing", lambda say: say("probes") or costs)
    joins = JoinCosts(P_n=1.5e-9, P_h=2.5e-8, U_n=6e-7, U_h=5e-7, U_g=3e-9)
    monkeypatch.setattr(calibrate, "measure_joins", lambda say: say("joins") or joins)
    pipelines = PipelineCosts(filter=1.5e-8, synchronizer=4.5e-7, tagger=1e-6, grouping=1.1e-7, finer=1e-7, joint=2e-8)
    monkeypatch.setattr(calibrate, "measure_pipelines", lambda say: say("pipelines") or pipelines)
    return costs


def constants(catalog: Catalog | None = None) -> Constants:
    return Sharing(catalog or Catalog()).settings.constants


def test_a_tight_table_evicts_every_row_and_a_roomy_one_each_group_once(tmp_path, monkeypatch):
    seen = {}
    batch = runtime.batch_cost

    def watched(folder, version):
        seen[version] = batch(folder, version)
        return seen[version]

    monkeypatch.setattr(runtime, "batch_cost", watched)
    roomy, tight, wide = (
        calibration.window_plan(1, 20_000, 1 << 22),
        calibration.window_plan(2, 20_000, 1),
        calibration.window_plan(3, 20_000, 1 << 22, groups=20_000),
    )
    runtime.entry_seconds(str(tmp_path), roomy, tight, rounds=1)
    runtime.entry_seconds(str(tmp_path), roomy, wide, rounds=1)
    few, many, different = (seen[version][1] for version in (1, 2, 3))
    # With one bucket a row stays only where the next is of its group; of 20,000 draws 63 % of 20,000 values come.
    assert few < 2_300 and 19_900 < many <= 20_000 and 12_000 < different < 14_000


def test_everything_is_measured():
    said: list[str] = []
    try:
        costs = calibration.measure_sharing(said.append, rounds=1, rows=20_000)
    except EngineProblem as problem:
        assert problem.code == "TM507" and problem.hint
    else:
        assert min(costs) > 0
    assert said[1:] == ["probes", "evictions", "journeys to a fragment store", "aggregate operations"]


@pytest.mark.parametrize("what", ["probe_seconds", "operation_seconds"])
def test_a_measure_that_makes_no_sense_is_refused(monkeypatch, what):
    monkeypatch.setattr(runtime, what, lambda *_: -1e-9)
    with pytest.raises(TidemillError) as caught:
        calibration.measure_sharing(rounds=1, rows=1_000)
    assert caught.value.code == "TM507"


def test_the_command_prints_and_keeps(measured, home):
    assert "tidemill calibrate --db" in CliRunner().invoke(app, ["calibrate", "--help"]).output
    done = CliRunner().invoke(app, ["calibrate"])
    assert done.exit_code == 0, done.output
    for part in ("2.0 ns", "50.0 ns", "400.0 ns", "1.0 ns", "25.0", "15 in paper 002", "1.5 ns", "600.0 ns", str(home)):
        assert part in done.output
    assert json.loads((home / "tidemill" / "costs.json").read_text())["seconds"]["probe"] == 2e-9
    assert constants() == Constants(1.0, 25.0)


def test_with_a_database_it_is_set_there(measured, monkeypatch):
    fake = FakeDatabase()
    monkeypatch.setattr(opening, "connect", lambda path, **settings: fake)
    done = CliRunner().invoke(app, ["calibrate", "--db", "lot"])
    assert done.exit_code == 0 and fake.log == ["SET eviction_cost = 25.0", "<close>"]


def test_a_database_keeps_its_own(tmp_path):
    keep_costs(25.0, {})
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.workload.sharing.settings.constants == Constants(1.0, 25.0)
        db.execute("SET eviction_cost = 7.5")
        assert db.workload.sharing.settings.constants == Constants(1.0, 7.5)
        with pytest.raises(TidemillError) as caught:
            db.execute("SET eviction_cost = 'dear'")
        assert caught.value.code == "TM217" and caught.value.hint
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.workload.sharing.settings.constants == Constants(1.0, 7.5)
        assert db.catalog.settings["sharing"]["constants"] == {"c1": 1.0, "c2": 7.5}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"eviction_cost": "x"}', '{"eviction_cost": -1}', "null", "3", '{"eviction_cost": NaN}']
)
def test_a_damaged_file_means_the_papers_constants(home, text):
    assert constants() == Constants()
    (home / "tidemill").mkdir(parents=True)
    (home / "tidemill" / "costs.json").write_text(text)
    assert constants() == Constants()


def test_where_a_user_keeps_state(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert costs_path() == "/home/ann/.local/state/tidemill/costs.json"


def test_predictions_follow_the_cost_of_an_eviction(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("""
            REGISTER SOURCE S (a INTEGER, b INTEGER, at TIMESTAMP) FROM GENERATE (rows = 10) WITH (timestamp = 'at');
            CREATE TAGGED STREAM T OVER S; SET lfta_memory = 1000;
            CREATE VIEW A AS SELECT a, count(*) AS n FROM T [RANGE 5 SECONDS] GROUP BY a;
            CREATE VIEW B AS SELECT b, count(*) AS n FROM T [RANGE 5 SECONDS] GROUP BY b;
        """)
        predicted = []
        for cost in (2, 200):
            db.execute(f"SET eviction_cost = {cost}")
            predicted.append(db.explain().to_dict()["sharing"][0]["cost"])
    assert predicted[1] > 10 * predicted[0]
