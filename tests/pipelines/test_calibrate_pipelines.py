"""`tidemill calibrate` measures what a row costs the operators over a keyed stream."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tidemill.engine.adapt import calibration
from tidemill.engine.adapt.calibration import Costs, JoinCosts, PipelineCosts
from tidemill.engine.adapt.sharing import costs_path, keep_costs, read_join_constants, read_row_costs
from tidemill.errors import EngineProblem, TidemillError
from tidemill.optimize.views.cost import RowCosts
from tidemill.runtime.calibrate.pipelines import GROUPS, KEYS, SteadyPipeline
from tidemill.serve import calibrate
from tidemill.serve.cli import app

MEASURED = PipelineCosts(filter=1.5e-8, synchronizer=4.5e-7, tagger=1e-6, grouping=1.1e-7, finer=2e-7, joint=3e-8)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_the_pipeline_does_what_is_measured():
    """Of n updates drawn from K keys, K(1 - (1 - 1/K)^n) are the last of their key; from the second batch on groups
    change.
    """
    pipeline, rows = SteadyPipeline(calibration.tagger_plan(), 2_000), 2_000
    for _ in range(3):
        found = pipeline.run_batch()
    assert found["filter"][1] == found["synchronizer"][1] == rows
    assert found["tagger"][1] == pytest.approx(KEYS * (1 - (1 - 1 / KEYS) ** rows), rel=0.02)
    assert found["tagger"][1] <= found["grouping"][1] <= 2 * found["tagger"][1]
    assert all(seconds > 0 for seconds, _ in found.values()) and rows > GROUPS


def test_everything_is_measured():
    said: list[str] = []
    try:
        costs = calibration.measure_pipelines(said.append, rounds=1, rows=5_000)
    except EngineProblem as problem:
        assert problem.code == "TM507" and problem.hint
    else:
        assert min(costs) > 0
    assert said == ["pipelines"]


def test_a_measure_that_makes_no_sense_is_refused(monkeypatch):
    monkeypatch.setattr(calibration, "pipeline_costs", lambda *_: MEASURED._replace(tagger=-1e-9))
    with pytest.raises(TidemillError) as caught:
        calibration.measure_pipelines()
    assert caught.value.code == "TM507"


def test_the_command_prints_and_keeps_them(monkeypatch):
    joins = JoinCosts(P_n=1.5e-9, P_h=2.5e-8, U_n=6e-7, U_h=5e-7, U_g=3e-9)
    monkeypatch.setattr(calibrate, "measure_sharing", lambda say: Costs(2e-9, 5e-8, 4e-7, 1e-9))
    monkeypatch.setattr(calibrate, "measure_joins", lambda say: joins)
    monkeypatch.setattr(calibrate, "measure_pipelines", lambda say: MEASURED)
    done = CliRunner().invoke(app, ["calibrate"])
    assert done.exit_code == 0, done.output
    for part in ("reaches a tagger", "1,000.0 ns", "reaches a grouping", "110.0 ns"):
        assert part in done.output
    with open(costs_path()) as file:
        assert json.load(file)["pipelines"] == MEASURED.nanoseconds()
    costs = RowCosts(filter=15.0, synchronizer=450.0, tagger=1000.0, grouping=110.0, finer=200.0, joint=30.0)
    assert read_row_costs() == costs


def test_what_is_not_measured_stays():
    keep_costs(15.0, {}, {"P_h": 25.0}, MEASURED.nanoseconds())
    keep_costs(25.0, {})
    assert read_row_costs().grouping == 110.0 and read_join_constants().P_h == 25.0


@pytest.mark.parametrize(
    "text", ["", "[]", '{"pipelines": 3}', '{"pipelines": {"tagger": -1}}', '{"pipelines": {"x": 1}}']
)
def test_a_damaged_file_means_the_rough_defaults(home, text):
    (home / "tidemill").mkdir(parents=True)
    (home / "tidemill" / "costs.json").write_text(text)
    assert read_row_costs() == RowCosts()
