"""SHOW, DESCRIBE, EXPLAIN, DROP, OR REPLACE, IF [NOT] EXISTS: statements about what stands."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import fill
from tidemill.errors import TidemillError


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    fill(database, tmp_path)
    database.execute("CREATE STREAMED VIEW Hot AS SELECT grp, v FROM K WHERE v > 5")
    database.execute("CREATE VIEW Totals AS SELECT grp, sum(v) AS total, count(*) AS n FROM Hot GROUP BY grp")
    yield database
    database.close()


def named(table) -> list[str]:
    return table.column("name").to_pylist()


def test_show_lists_each_kind_in_order_of_creation(db, tmp_path):
    db.execute(f"CREATE SINK Log FROM Hot TO FILES '{tmp_path}/log'")
    query = db.execute("SELECT STREAMED grp FROM Hot").name
    assert named(db.execute("SHOW SOURCES")) == ["Raw", "RawL"]
    assert named(db.execute("SHOW STREAMS")) == ["S", "K", "L"]
    assert named(db.execute("SHOW TABLES")) == ["T"]
    assert named(db.execute("SHOW VIEWS")) == ["Hot", "Totals"]
    assert named(db.execute("SHOW SINKS")) == ["Log"]
    assert named(db.execute("SHOW QUERIES")) == [query]
    assert named(db.execute("SHOW ALL")) == ["Raw", "RawL", "T", "S", "K", "L", "Hot", "Totals", "Log", query]
    assert db.execute("SHOW DEAD_LETTERS").num_rows == 0
    assert "unit_us" in named(db.execute("SHOW SETTINGS"))
    row = db.execute("SHOW VIEWS").to_pylist()[1]
    assert row["detail"] == "complete" and row["reads"] == "Hot"
    assert row["definition"].startswith("CREATE VIEW Totals AS SELECT grp, sum(v)")


def test_describe_gives_columns_types_and_the_key(db):
    def described(name):
        return [tuple(r.values()) for r in db.execute(f"DESCRIBE {name}").to_pylist()]

    assert [row[:3] for row in described("totals")] == [
        ("grp", "VARCHAR", True),
        ("total", "HUGEINT", False),
        ("n", "BIGINT", False),
    ]
    assert described("Hot") == [("grp", "VARCHAR", True, "every change"), ("v", "INTEGER", False, "every change")]
    assert described("T") == [("key", "VARCHAR", False), ("label", "VARCHAR", False), ("n", "INTEGER", False)]
    assert ("grp", "VARCHAR", True) in described("K") and ("grp", "VARCHAR", False) in described("S")
    assert described("clockStr") == [("TimePoint", "BIGINT", False)]


def test_drop_is_refused_while_something_needs_it(db):
    with pytest.raises(TidemillError) as caught:
        db.execute("DROP STREAM K")
    assert caught.value.code == "TM306" and caught.value.detail == "by view Hot, view Totals"
    assert named(db.execute("SHOW VIEWS")) == ["Hot", "Totals"]


def test_drop_cascade_takes_the_dependents_along(db):
    db.execute("DROP STREAM K CASCADE")
    assert named(db.execute("SHOW VIEWS")) == [] and named(db.execute("SHOW STREAMS")) == ["S", "L"]
    db.execute("DROP SOURCE IF EXISTS Nobody; DROP VIEW IF EXISTS Hot; DROP TABLE T; DROP TAGGED STREAM L")
    assert named(db.execute("SHOW ALL")) == ["Raw", "RawL", "S"]


def test_if_not_exists_and_or_replace(db):
    kept = db.execute("CREATE VIEW IF NOT EXISTS Totals AS SELECT grp FROM S")
    assert "exists already" in str(kept)
    assert db.execute("DESCRIBE Totals").num_rows == 3
    db.execute("CREATE OR REPLACE VIEW Totals AS SELECT grp FROM Hot")
    assert db.execute("DESCRIBE Totals").num_rows == 1
    db.execute("CREATE TAGGED STREAM IF NOT EXISTS K OVER Raw KEY id")
    assert db.execute("SHOW STREAMS").to_pylist()[1]["detail"] == "key grp"
    with pytest.raises(TidemillError) as caught:
        db.execute("CREATE OR REPLACE STREAMED VIEW Hot AS SELECT v FROM S")
    assert caught.value.code == "TM306", "a reader cannot go on"


def test_a_replacement_that_is_wrong_leaves_the_old_one(db):
    with pytest.raises(TidemillError):
        db.execute("CREATE OR REPLACE VIEW Totals AS SELECT nothing FROM Hot")
    db.run()
    assert db.query("SELECT * FROM Totals").num_rows == 2


def test_names_do_not_depend_on_case_and_quoting(db):
    db.execute('CREATE VIEW "Mixed Name" AS SELECT GRP AS "The Group" FROM hOt')
    db.run()
    assert db.query('SELECT "the group" FROM "mixed name"').num_rows == 2


# ---- EXPLAIN -----------------------------------------------------------------------------------

QUERY = "SELECT STREAMED K.grp, count(*) AS n FROM K SYNC EVERY 10 JOIN L ON K.grp = L.key WHERE K.v > 5 GROUP BY K.grp"


def test_explain_for_people_programs_and_pictures(db):
    db.execute("SET view_matching = off")
    plan = db.explain(QUERY)
    assert str(plan).startswith("query :=\n  Project") and "GroupBy" in str(plan) and "merge_select_tagger" in str(plan)
    data = plan.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["nodes"][data["roots"]["query"]]["schema"] == [["grp", "VARCHAR"], ["n", "BIGINT"]]
    assert {"JoinAggregate", "Tag", "Scan"} <= {n["type"] for n in data["nodes"].values()}
    picture = plan.to_mermaid()
    assert picture.startswith("flowchart LR") and picture.count("-->") >= 5 and '(["query"])' in picture


def test_explain_changes_nothing(db):
    before = db.catalog.to_dict()
    db.explain(QUERY)
    db.execute("EXPLAIN CREATE VIEW Another AS SELECT grp FROM S")
    assert db.catalog.to_dict() == before


def test_explain_is_the_same_from_run_to_run(db, tmp_path):
    def all_of(database):
        plans = [
            database.explain(QUERY),
            database.execute("EXPLAIN Hot"),
            database.execute("EXPLAIN VIEW Totals"),
            database.explain(),
        ]
        return [(str(p), p.to_dict(), p.to_mermaid()) for p in plans]

    other = LocalDatabase(str(tmp_path / "other"))
    fill(other, tmp_path)
    for entry in db.catalog.of("view"):
        other.execute(entry.text)
    assert all_of(db) == all_of(db) == all_of(other)
    other.close()


def test_explain_of_everything_names_shared_nodes_once(db):
    db.execute("CREATE STREAMED VIEW Hot2 AS SELECT grp, v FROM K WHERE v > 5")
    text = str(db.explain())
    assert "Hot2 :=" in text and text.count("Scan") == 1
    assert "placement" in text and "stage" in text
