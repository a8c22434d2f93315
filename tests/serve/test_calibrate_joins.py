"""What calibration measures of joins is what the cost functions mean, and it is kept."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from fake_db import FakeDatabase
from typer.testing import CliRunner

from tidemill.engine.adapt import calibration
from tidemill.engine.adapt.sharing import costs_path, keep_costs, read_constants, read_join_constants
from tidemill.errors import EngineProblem, TidemillError
from tidemill.optimize.joins.cost import Constants, hash_join, nested_loop, unit_time_cost
from tidemill.optimize.joins.parameters import derive_parameters
from tidemill.optimize.joins.streams import Stream
from tidemill.runtime.calibrate import joins as runtime
from tidemill.runtime.calibrate.joins import Arrivals, JoinCosts, SteadyJoin
from tidemill.runtime.calibrate.pipelines import PipelineCosts
from tidemill.runtime.calibrate.sharing import Costs
from tidemill.serve import calibrate, opening
from tidemill.serve.cli import app

MEASURED = JoinCosts(P_n=1.5e-9, P_h=2.5e-8, U_n=6e-7, U_h=5e-7, U_g=3e-9)
METHODS = {"hash": hash_join, "nested loop": nested_loop}
ALONE = {"hash": "U_h", "nested loop": "U_n"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_constants_are_found_again_in_times_that_the_cost_functions_give(monkeypatch):
    """Rows are found once a batch: P_h, meant for 40 changes of each join value, is less when there are more."""
    known = Constants(P_n=1.5, P_h=25.0, U_n=600.0, U_h=500.0, U_g=30.0, U_r=3.0)

    def predicted(joins, rounds):
        taken = {}
        for method, run in joins:
            streams = [Stream(i.rate, i.window, i.groups, i.values) for i in run.inputs]
            there = replace(known, P_h=known.P_h * 40 * run.values / run.changes)
            cost = unit_time_cost(derive_parameters(streams, whole_key=True), "00", METHODS[method](there))
            taken[method, run] = 0.02 + (run.changes * getattr(known, ALONE[method]) if run.apart else cost) * 1e-9
        return taken

    monkeypatch.setattr(runtime, "least", predicted)
    found = runtime.join_costs(calibration.join_plan("00"), calibration.join_plan("00", "nested loop")).nanoseconds()
    # The few matches of the nested loop are not taken out.
    assert found == pytest.approx({k: getattr(known, k) for k in found}, rel=0.01)


@pytest.mark.parametrize("method", ["hash", "nested loop"])
def test_windows_stay_full_and_every_plan_gives_the_same(method):
    inputs, answers = [Arrivals(40, 100, 3, 4), Arrivals(30, 60, 2, 4)], []
    for bits in product("01", repeat=2):
        join, found = SteadyJoin(calibration.join_plan("".join(bits), method), inputs), Counter()
        for units in (1, 3):
            assert join.unit(units) >= 0
            assert [i.rows for i in join.note.inputs] == [100, 60]
            for row in join.out.rows.to_pylist():
                found[tuple(row.values())] += 1
        answers.append(found)
        # Every change comes at a time of its own, and about a quarter of the other window matches.
        assert join.note.inputs[0].changes == 240 and join.note.inputs[1].changes == 180
        if bits == ("0", "0"):
            assert join.note.pairs == pytest.approx(240 * 60 / 4 + 180 * 100 / 4, rel=0.2)
    assert all(a == answers[0] for a in answers) and answers[0]


def test_inputs_apart_share_no_join_value():
    join = SteadyJoin(calibration.join_plan("00"), [Arrivals(50, 20, 1, 5), Arrivals(50, 20, 1, 5, first=5)])
    join.unit()
    assert join.note.pairs == 0
    assert join.nothing() >= 0 and join.note.inputs[0].changes == 0


def test_everything_is_measured():
    said: list[str] = []
    try:
        costs = calibration.measure_joins(said.append, rounds=1, tuples=1_000)
    except EngineProblem as problem:
        assert problem.code == "TM507" and problem.hint
    else:
        assert min(costs) > 0
    assert said == ["joins"]


def test_a_measure_that_makes_no_sense_is_refused(monkeypatch):
    monkeypatch.setattr(calibration, "join_costs", lambda *_: MEASURED._replace(U_g=-1e-9))
    with pytest.raises(TidemillError) as caught:
        calibration.measure_joins()
    assert caught.value.code == "TM507"


def test_the_command_prints_and_keeps_them(monkeypatch):
    monkeypatch.setattr(calibrate, "measure_sharing", lambda say: Costs(2e-9, 5e-8, 4e-7, 1e-9))
    monkeypatch.setattr(calibrate, "measure_joins", lambda say: MEASURED)
    pipelines = PipelineCosts(1.5e-8, 4.5e-7, 1e-6, 1.1e-7, 1e-7, 2e-8)
    monkeypatch.setattr(calibrate, "measure_pipelines", lambda say: pipelines)
    monkeypatch.setattr(opening, "connect", lambda path, **settings: FakeDatabase())
    done = CliRunner().invoke(app, ["calibrate", "--db", "lot"])
    assert done.exit_code == 0, done.output
    for part in ("(P_h)", "25.0 ns", "(P_n)", "1.5 ns", "(U_g)", "3.0 ns"):
        assert part in done.output
    with open(costs_path()) as file:
        assert json.load(file)["joins"] == MEASURED.nanoseconds()
    assert read_join_constants() == Constants(P_n=1.5, P_h=25.0, U_n=600.0, U_h=500.0, U_g=3.0)
    assert read_constants().c2 == 25.0


def test_what_is_not_measured_stays():
    keep_costs(15.0, {}, MEASURED.nanoseconds())
    keep_costs(25.0, {"probe": 1e-9})
    assert read_join_constants().P_h == 25.0 and read_constants().c2 == 25.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"joins": 3}',
        '{"joins": {"P_h": -1}}',
        '{"joins": {"P_h": NaN}}',
        '{"joins": {"P_h": "x"}}',
        '{"joins": {"P_x": 1}}',
        '{"eviction_cost": 25}',
    ],
)
def test_a_damaged_file_means_the_rough_defaults(home, text):
    assert read_join_constants() == Constants()
    (home / "tidemill").mkdir(parents=True)
    (home / "tidemill" / "costs.json").write_text(text)
    assert read_join_constants() == Constants()
