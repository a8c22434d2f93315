"""The JSON API: statements, errors at their place, listings, the plan as a graph."""

from __future__ import annotations

import http.client
import json
import random
import urllib.parse

import pytest

from tests.postgres.serving import wait_until


def test_a_query_is_answered_with_types_and_its_time(client):
    status, found = client.post("/api/query", {"sql": "SELECT room, temp, note FROM Hot ORDER BY room"})
    assert status == 200
    assert [c["name"] for c in found["columns"]] == ["room", "temp", "note"]
    assert [c["numeric"] for c in found["columns"]] == [True, True, False]
    assert found["rows"] == [[1, 90.5, "it's"], [3, 85.0, "ä€"], [5, 81.25, "b"]]
    assert found["total"] == 3 and isinstance(found["as_of"], int)
    assert client.post("/api/query", {"sql": "SELECT room FROM Hot ORDER BY room", "limit": 1})[1]["rows"] == [[1]]


def test_numbers_that_javascript_has_not_are_text(client):
    sql = "SELECT 9007199254740993 AS a, 'NaN'::DOUBLE AS b, 5::HUGEINT AS c, NULL AS d, 'infinity'::DATE AS e"
    assert client.post("/api/query", {"sql": sql})[1]["rows"] == [["9007199254740993", "NaN", 5, None, "infinity"]]


def test_errors_have_their_place(client):
    status, found = client.post("/api/execute", {"sql": "SHOW VIEWS;\n  SELECT nothing FROM Hot"})
    assert status == 400 and found["results"][0]["kind"] == "rows"
    assert (found["error"]["line"], found["error"]["column"]) == (2, 10)
    assert client.post("/api/query", {"sql": "DROP VIEW Hot"})[1]["error"]["code"] == "TM214"
    [problem] = client.post("/api/check", {"sql": "SELECT room FROM Hut"})[1]["problems"]
    assert problem["line"] == 1 and problem["code"].startswith("TM")
    assert client.post("/api/check", {"sql": "SELECT room FROM Hot"})[1]["problems"] == []
    made = "CREATE VIEW Nope AS SELECT sum(room) AS n, missing FROM Log GROUP BY room"
    assert client.post("/api/check", {"sql": made})[1]["problems"][0]["line"] == 1
    assert client.post("/api/check", {"sql": "CREATE VIEW Fine AS SELECT room FROM Log"})[1]["problems"] == []
    assert "fine" not in [r["name"].lower() for r in client.get("/api/views")[1]["relations"]]


def test_statements_are_executed_in_their_order(client, server):
    sql = "CREATE VIEW A1 AS SELECT room FROM Hot; CREATE VIEW A2 AS SELECT room FROM Hot; SHOW VIEWS; SUBSCRIBE A1;"
    status, found = client.post("/api/execute", {"sql": sql})
    assert status == 200
    assert [r["kind"] for r in found["results"]] == ["created", "created", "rows", "subscription"]
    assert found["results"][3]["views"] == ["A1"]
    status, found = client.post("/api/execute", {"sql": "EXPLAIN VIEW A1; DROP VIEW A2; DROP VIEW A1"})
    assert [r["kind"] for r in found["results"]] == ["plan", "created", "created"]


def test_a_query_ends_when_its_client_goes_away(client, server):
    text = "SELECT count(*) AS n FROM " + ", ".join(f"PerRoom AS r{i}" for i in range(14)) + " WHERE r0.n + r13.n < 0"
    line = http.client.HTTPConnection("127.0.0.1", client.port, timeout=0.5)
    headers = client._headers({"Content-Type": "application/json"})
    line.request("POST", "/api/query", json.dumps({"sql": text, "timeout": 50}), headers)
    with pytest.raises(TimeoutError):
        line.getresponse()
    assert server.server.services._turns._value == server.limits.queries - 1
    line.close()
    wait_until(lambda: server.server.services._turns._value == server.limits.queries, 10)
    assert client.post("/api/query", {"sql": "SELECT 1 AS x"})[1]["rows"] == [[1]]


def test_the_catalog_and_the_status(client):
    relations = {r["name"]: r for r in client.get("/api/views")[1]["relations"]}
    assert relations["Hot"]["columns"] == [["room", "INTEGER"], ["temp", "DOUBLE"], ["note", "VARCHAR"]]
    assert relations["Measured"]["kind"] == "source" and relations["Warm"]["kind"] == "view"
    status = client.get("/api/status")[1]
    assert status["running"] and {v["name"]: v["rows"] for v in status["views"]}["Hot"] == 3
    assert client.get("/api/session")[1]["database"] == "lot"
    assert client.get("/api/users")[1]["rows"] == []


def test_the_plan_is_a_graph_from_sources_to_views(client, server):
    graph = client.get("/api/plan")[1]
    nodes = {node["id"]: node for node in graph["nodes"]}
    edges = {(edge["from"], edge["to"]) for edge in graph["edges"]}
    assert len(nodes) == len(graph["nodes"]) and all(a in nodes and b in nodes for a, b in edges)
    places = {node["label"]: node["place"] for node in nodes.values()}
    assert places["Measured"] == "source"
    assert {label for label, place in places.items() if place == "view"} == {"Hot", "PerRoom", "Flow"}
    members = [m for node in nodes.values() for m in node["members"]]
    plan = server.db.explain().physical
    assert sorted(members) == sorted(op.id for op in (*plan.reader, *plan.stage))
    reached, todo = set(), [i for i, n in nodes.items() if n["place"] == "source"]
    while todo:
        here = todo.pop()
        reached.add(here)
        todo += [b for a, b in edges if a == here and b not in reached]
    assert {i for i, n in nodes.items() if n["place"] == "view"} <= reached


def test_explain_of_a_view_and_of_a_node(client):
    assert "Hot :=" in client.get("/api/explain?view=Hot")[1]["text"]
    nodes = client.get("/api/plan")[1]["nodes"]
    source = next(n for n in nodes if n["place"] == "source")
    found = client.get("/api/explain?node=" + source["id"])[1]
    assert found["views"] == ["Flow", "Hot", "PerRoom"] and "placement" in found["text"]
    assert client.get("/api/explain?node=nothing")[0] == 200
    assert client.get("/api/explain?view=nothing")[0] == 400


def test_rates_of_operators_show_what_happens(client, feed, server):
    before = client.get("/api/batches?limit=1")[1]["rows"]
    for _ in range(3):
        feed.write(*[(room % 7, 99, "x") for room in range(500)])
    wait_until(lambda: client.get("/api/batches?limit=1")[1]["rows"][0]["batch"] > before[0]["batch"])
    wait_until(lambda: any(n["rows_in"] > 0 for n in client.get("/api/plan")[1]["nodes"]))
    nodes = client.get("/api/plan")[1]["nodes"]
    assert 0.1 < sum(n["share"] for n in nodes) <= 1.01  # operators of dropped views have their share too
    [batch] = client.get("/api/batches?limit=1")[1]["rows"]
    assert batch["seconds"] > 0 and batch["outlet_seconds"] > 0 and batch["bad"] == 0


def test_dead_letters_and_changes_of_plan(client, feed, server):
    made = feed.folder / ".bad.csv"
    made.write_text("room,temp,note,at\nnone,1,x,99999\n", encoding="utf-8")
    made.rename(feed.folder / "zzz.csv")
    wait_until(lambda: client.get("/api/dead-letters")[1]["total"] == 1)
    [letter] = client.get("/api/dead-letters")[1]["rows"]
    assert letter["source"] == "Measured" and "none" in letter["raw"]
    client.post(
        "/api/execute", {"sql": "CREATE VIEW W AS SELECT room, count(*) AS n FROM Log [RANGE 5 SLIDE 5] GROUP BY room"}
    )
    rows = client.get("/api/plan-history")[1]["rows"]
    assert rows and {"at", "reason", "before", "after", "predicted_after", "measured_after"} <= set(rows[0])
    client.post("/api/execute", {"sql": "DROP VIEW W"})


@pytest.mark.parametrize("path", ["/api/batches?limit=x", "/api/subscribe", "/api/subscribe?view=Nothing"])
def test_bad_requests_are_told_why(client, path):
    found = client.events(path)
    text = found.answer.read(2000).decode()
    found.close()
    assert "TM" in text


_VALUES = (
    None,
    True,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "\0",
    "SELECT 1 AS x",
    "SUBSCRIBE Hot",
    "SELECT room FROM Hot",
)
_VALUES += ([], {}, 10**30, 10**400, "'; --", "(" * 3000, "CREATE VIEW q AS SELECT", "/*")  # type: ignore[assignment]


def test_random_requests_never_fail_in_the_server(client):
    rng = random.Random(19)
    assert client.post("/api/query", {"sql": "SELECT 1 AS x", "limit": float("inf")})[0] == 400
    for _ in range(80):
        body = {name: rng.choice(_VALUES) for name in ("sql", "limit", "timeout") if rng.random() < 0.8}
        path = rng.choice(("query", "execute", "check"))
        status, found = client.post(f"/api/{path}", rng.choice((body, body, rng.choice(_VALUES))))
        assert status < 500, (path, body, found)
        value = urllib.parse.quote(str(rng.choice(_VALUES)))
        path = rng.choice(("plan", "explain", "dead-letters", "batches", "views"))
        status, found = client.get(f"/api/{path}?{rng.choice(('view', 'node', 'limit'))}={value}")
        assert status < 500, (path, value, found)
