"""Operators as JSON: every kind comes back as it was, and plans of the version before are read."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tidemill.plan import node
from tidemill.plan import physical as p
from tidemill.plan.physical import OPERATORS, Physical
from tidemill.plan.physical.codec import decoder, encode
from tidemill.plan.sources import Column
from tidemill.plan.window_calls import WindowCall
from tidemill.plan.window_frames import Frame

# Written when operators had a dictionary of parameters: columns are arrays of name and type, and nothing says which
# columns an expression reads.
BEFORE = Path(__file__).parent / "plan_before_types.json"


def test_a_plan_of_the_version_before_is_read():
    plan = Physical.from_json(BEFORE.read_text())
    found = {type(op) for op in (*plan.reader, *plan.stage)}
    younger = {p.CatchUp, p.ChangeStream, p.Finer, p.Shed, p.SynchronizePeriods, p.Ranked, p.WindowFunctions}
    younger |= {p.Sessions, p.JoinAt, p.Unnest, p.Recursive, p.Alternatives, p.NumberedRows, p.JointGroup}
    assert set(OPERATORS) - found == {p.Filter, p.Picked, p.Stamp} | younger
    assert Physical.from_json(plan.to_json()) == plan
    (group, *_) = [op for op in plan.stage if isinstance(op, p.Group)]
    assert group.keys == (Column("Building", "INTEGER"),)
    lfta = plan.lfta_of("rooms")
    assert lfta is not None and lfta.relations[0].parent == -1 and lfta.reads is None


def older(value: Any) -> Any:
    """JSON of a plan as the version before wrote it."""
    if isinstance(value, list):
        return [older(v) for v in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"name", "type"}:
        return [value["name"], value["type"]]
    return {k: v if k == "schema" else older(v) for k, v in value.items() if k not in ("columns_read", "sides")}


VIEWS = {
    "window": "SELECT g, sum(v) AS s FROM S [RANGE 4 SLIDE 2] WHERE v > 1 GROUP BY g",
    "grouping": "SELECT g, count(*) AS n, max(v) AS m FROM S WHERE v > 1 GROUP BY g",
    "set": "SELECT g FROM S EXCEPT SELECT v FROM S WHERE v > 2",
    "join": "SELECT a.g, count(*) AS n FROM S [RANGE 4] a JOIN S [RANGE 4] b ON a.g = b.g GROUP BY a.g",
}


@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS)
def test_a_batch_runs_under_a_plan_of_the_version_before(tmp_path, monkeypatch, query):
    (tmp_path / "s.csv").write_text("g,v,ts\n1,1,1\n1,2,2\n2,3,3\n1,4,5\n2,5,6\n3,1,9\n")
    source = (
        f"REGISTER SOURCE R (g INTEGER, v INTEGER, ts BIGINT) FROM FILES '{tmp_path}/s.csv' WITH (timestamp = 'ts')"
    )
    written = Physical.to_json
    answers = []
    for form in ("older", "newer"):
        if form == "older":
            monkeypatch.setattr(Physical, "to_json", lambda plan: json.dumps(_older_plan(json.loads(written(plan)))))
        else:
            monkeypatch.setattr(Physical, "to_json", written)
        with LocalDatabase(str(tmp_path / form)) as db:
            db.execute(f"{source}; CREATE TAGGED STREAM S OVER R; CREATE STREAMED VIEW x AS {query}")
            db.run()
            answers.append(sorted(map(str, db.changes("x").to_pylist())))
    assert answers[0] == answers[1] != []


def _older_plan(data: dict[str, Any]) -> dict[str, Any]:
    for op in (*data["reader"], *data["stage"]):
        op["params"] = older(op["params"])
    return data


@pytest.mark.parametrize(
    "text",
    [
        "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        "RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
        "GROUPS BETWEEN CURRENT ROW AND 3 FOLLOWING",
    ],
)
def test_a_frame_of_the_version_before_is_its_text_and_fingerprints_stay(text):
    """Frames were text, in plans and in what fingerprints are made of."""
    read, write = decoder(WindowCall), lambda call: json.loads(json.dumps(call, default=encode))
    call = WindowCall("s", "BIGINT", "sum", ('"v"',), frame=Frame.of(text))
    assert read({**write(call), "frame": text}) == read(write(call)) == call
    assert json.dumps(text) in node._text(call)


def test_every_kind_has_a_name_of_its_own_and_only_declared_types():
    assert len({cls.kind for cls in OPERATORS}) == len(OPERATORS)
    for cls in OPERATORS:
        assert not [f.name for f in fields(cls) if "dict[str, Any]" in str(f.type)], cls


def test_steps_of_a_chain_are_told_apart_by_their_tags():
    chain: tuple[p.Step, ...] = (p.Shift(3), p.Period(5, 1), p.PointsInput(0))
    text = json.dumps(chain, default=encode)
    assert json.loads(text) == [["shift", 3], ["period", 5, 1], ["points", 0]]
    assert decoder(tuple[p.Step, ...])(json.loads(text)) == chain
