"""The live plan as a graph: every box says what it is, and has its place between sources, views and sinks."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill.serve.http.graph import plan_graph

SETUP = """
REGISTER SOURCE A (k INTEGER, x INTEGER, y INTEGER, at BIGINT) FROM FILES '{0}/*.a.csv' WITH (timestamp = 'at');
REGISTER SOURCE B (k INTEGER, z INTEGER, at BIGINT) FROM FILES '{0}/*.b.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM SA OVER A;
CREATE TAGGED STREAM SB OVER B KEY k;
CREATE VIEW J WITH (unbounded_state = true)
AS SELECT SB.z, sum(SA.x) AS s FROM SA JOIN SB ON SA.k = SB.k GROUP BY SB.z;
CREATE STREAMED VIEW W1 AS SELECT x, count(*) AS n FROM SA [RANGE 10 SLIDE 2] GROUP BY x;
CREATE STREAMED VIEW W2 AS SELECT x, y, count(*) AS n FROM SA [RANGE 4 SLIDE 2] GROUP BY x, y;
CREATE STREAMED VIEW W3 AS SELECT count(*) AS n FROM SA [RANGE 4 SLIDE 4];
CREATE SINK Out FROM J TO FILES '{0}/out' WITH (format = 'json');
"""


def graph_of(folder, *before):
    with LocalDatabase(str(folder / "db")) as db:
        for statement in before:
            db.execute(statement)
        db.execute(SETUP.format(folder))
        graph = plan_graph(db)
        bits = {op.id: "".join(str(int(i.early)) for i in op.joined) for op in joins(db)}
        return graph, bits


def joins(db):
    plan = db.explain().physical
    return [op for op in (*plan.reader, *plan.stage) if op.kind == "join_aggregate"]


@pytest.mark.parametrize("plan", ["early", "late"])
def test_an_aggregation_join_shows_its_bits(tmp_path, plan):
    graph, bits = graph_of(tmp_path, f"SET early_aggregation = '{plan}'")
    [node] = [node for node in graph.nodes.values() if node.kind == "join_aggregate"]
    assert node.label == "aggregation join" and node.detail == f"2 inputs, plan {bits[node.id]}"
    assert bits[node.id][0] == ("1" if plan == "early" else "0")


def test_shared_tables_fragments_groups_and_sinks_are_told_apart(tmp_path):
    graph, _ = graph_of(tmp_path)
    shown = {(node.label, node.detail) for node in graph.nodes.values()}
    assert ("shared tables", "4 tables, 1 phantom") in shown
    groups = {detail for label, detail in shown if label == "weaved group"}
    assert groups > {"x", "x, y"} and "" not in groups
    assert {detail for label, detail in shown if label == "fragments"} == groups
    assert {n.label: n.place for n in graph.nodes.values() if n.kind == "sink"} == {"Out": "sink"}
    assert ("view J", "sink Out") in graph.edges
    tables = next(node.id for node in graph.nodes.values() if node.kind == "lfta")
    assert graph.below(tables) == ["W1", "W2", "W3"]
