"""A plan as text: a line for each operator and edge, and nothing lost."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tests.rules.test_rules import SETUP
from tidemill.plan.physical import Exchange, HotKeys, Physical

VIEWS = """
CREATE RSTREAM VIEW A AS SELECT Building, count(*) AS n FROM Readings [RANGE 10 SLIDE 5]
  WHERE Temperature > 8 GROUP BY 1;
CREATE VIEW B AS SELECT a.Building, sum(b.Temperature) AS t FROM RoomTempStr a JOIN RoomTempStr b ON a.RoomID = b.RoomID
  GROUP BY a.Building;
CREATE VIEW C AS SELECT * FROM BuildHotRooms;
"""


@pytest.fixture
def plan(tmp_path) -> Physical:
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        db.warm()
        db.execute(VIEWS)
        return db.workload.physical(7, (0, 1))


def test_text_and_plan_are_each_other_s_inverse(plan):
    found = Physical.from_json(plan.to_json())
    assert found.to_json() == plan.to_json()
    assert plan.seeds and plan.outputs and plan.exchanges


def test_an_operator_is_a_line(plan):
    lines = plan.to_json().splitlines()
    for op in (*plan.reader, *plan.stage):
        assert sum(json.loads(line.rstrip(",")).get("id") == op.id for line in lines if line.startswith('{"id"')) == 1


def test_hot_keys_come_back():
    hot = Exchange("p", "o", "hash", ("k",), "loop", HotKeys(("c",), (1, 2), (3,)))
    plan = Physical(1, 1_000_000, (0,), exchanges=(hot,))
    assert Physical.from_json(plan.to_json()) == plan
    assert Physical.from_json(Physical(1, 1, ()).to_json()) == Physical(1, 1, ())
