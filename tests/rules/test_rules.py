"""Every rewrite rule by example: the plan before and after, and queries on which it must not fire.

The cases live in one YAML file for each rule. `TIDEMILL_GOLDEN=1 pytest tests/rules` writes the plans anew; read the
diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import LocalDatabase
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.optimize.optimizer import RULES, optimize
from tidemill.plan.show.plans import Explanation

HERE = Path(__file__).parent
SETUP = """
REGISTER SOURCE rooms (RoomID INTEGER, Building INTEGER, Temperature INTEGER, ts BIGINT) FROM FILES '/nowhere*.csv'
  WITH (timestamp = 'ts');
CREATE TAGGED STREAM RoomTempStr OVER rooms KEY RoomID;
CREATE TAGGED STREAM Readings OVER rooms;
CREATE STREAMED VIEW BuildHotRooms AS
  SELECT Building, count(RoomID) AS cntRooms FROM RoomTempStr WHERE Temperature > 85 GROUP BY Building;
CREATE STREAMED VIEW Alarms AS SELECT TS FROM Readings WHERE Temperature > 120;
CREATE STREAMED VIEW Fires AS SELECT TS FROM Alarms WHERE TS > 0;
CREATE STREAMED VIEW Warm AS SELECT RoomID, Building, Temperature FROM Readings WHERE Temperature > 70;
CREATE STREAMED VIEW Warmer AS SELECT Building AS b FROM Warm WHERE Temperature > 80;
CREATE STREAMED VIEW Scaled AS SELECT RoomID, Temperature * 2 AS t FROM Readings;
CREATE STREAMED VIEW Sync2 AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 2 = 0;
CREATE STREAMED VIEW SecondOfFour AS SELECT TimePoint FROM clockStr WHERE TimePoint mod 4 = 2;
CREATE STREAMED VIEW TwoOrThree AS SELECT TimePoint FROM clockStr WHERE TimePoint mod 2 = 0 OR TimePoint mod 3 = 0;
"""
CASES = [
    (path, i, case["name"])
    for path in sorted(HERE.glob("*.yaml"))
    for i, case in enumerate(yaml.safe_load(path.read_text())["cases"])
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    db = LocalDatabase(str(tmp_path_factory.mktemp("rules")))
    db.execute(SETUP)
    yield db
    db.close()


@pytest.mark.parametrize(("path", "index", "name"), CASES, ids=[f"{p.stem}: {n}" for p, _, n in CASES])
def test_rule_rewrites_as_written_down(path: Path, index: int, name: str, database: LocalDatabase) -> None:
    data = yaml.safe_load(path.read_text())
    case = data["cases"][index]
    query = parse_one(case["sql"]).query
    before = database.workload.bind(query, Beginning(1)).node
    off = {rule.__name__ for rule in RULES} - {data["rule"]}
    after = optimize(before, off).node
    found = {"before": _text(before), "after": _text(after) if after is not before else None}
    if os.environ.get("TIDEMILL_GOLDEN"):
        data["cases"][index] = {**case, **found}
        path.write_text(yaml.dump(data, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=1000))
        return
    assert found["before"] == case.get("before")
    assert found["after"] == case.get("after")


def test_every_rule_has_a_case_where_it_fires_and_one_where_it_must_not() -> None:
    seen: dict[str, set[bool]] = {}
    for path in HERE.glob("*.yaml"):
        data = yaml.safe_load(path.read_text())
        for case in data["cases"]:
            seen.setdefault(data["rule"], set()).add(case.get("after") is not None)
    assert seen == {rule.__name__: {True, False} for rule in RULES}


class _Readable(yaml.SafeDumper):
    """Plans as literal blocks."""


def _literal(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _literal)


def _text(node: Any) -> str:
    return str(Explanation({"q": node}))
