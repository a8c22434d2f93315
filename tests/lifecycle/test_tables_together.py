"""The tables of all views that come in one text are made together, before anything names them."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tidemill.errors import EngineProblem
from tidemill.runtime.views.store import ViewStore

MANY = ";".join(
    f"CREATE {kind} VIEW V{i} AS SELECT k, v FROM K WHERE v > {i}"
    for i, kind in enumerate(("COMPLETE", "STREAMED", "RSTREAM", "COMPLETE"))
)


@pytest.fixture
def made(db, monkeypatch) -> list[tuple[list[str], set[str]]]:
    """The views that get their tables at once, and what the catalog names at this moment."""
    found: list[tuple[list[str], set[str]]] = []
    plain = ViewStore.create

    def create(store, *views, **more):
        kept = json.loads(Path(db.paths.catalog).read_text())["entries"]
        found.append(([v.name for v in views], {e["name"] for e in kept}))
        return plain(store, *views, **more)

    monkeypatch.setattr(ViewStore, "create", create)
    return found


def test_one_text_is_one_transaction(db, feed, made):
    db.execute(MANY)
    assert made == [(["V0", "V1", "V2", "V3"], {"Raw", "K"})]


def test_a_statement_that_reads_finds_the_tables_of_those_before_it(db, feed, made):
    assert db.execute(f"{MANY}; SELECT * FROM V0").num_rows == 0
    assert len(made) == 1


def test_a_standing_query_has_its_tables_when_it_stands(db, feed, made):
    name = db.execute("SELECT STREAMED k, v FROM K").name
    assert [views for views, _ in made] == [[name]]
    assert db.changes(name).num_rows == 0


def test_a_view_that_goes_in_the_same_text_leaves_nothing(db, feed, made):
    db.execute(f"{MANY}; DROP VIEW V0; CREATE OR REPLACE VIEW V1 AS SELECT k FROM K")
    ids = {v.stored.id for v in db.workload.views.values()}
    assert len(ids) == 3
    sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% v%'"
    owners = {name.partition(" ")[2] for (name,) in db.store.connection.sql(sql).fetchall()}
    assert owners <= ids


def test_views_whose_tables_could_not_be_made_are_not_there(db, feed, monkeypatch):
    plain = ViewStore.create

    def full(store, *views, **more):
        raise duckdb.IOException("no space left")

    monkeypatch.setattr(ViewStore, "create", full)
    with pytest.raises(EngineProblem, match="TM624"):
        db.execute(MANY)
    monkeypatch.setattr(ViewStore, "create", plain)
    db.execute("CREATE VIEW W AS SELECT k FROM K")
    db.execute(MANY)
    assert db.query("SELECT * FROM V0").num_rows == db.query("SELECT * FROM W").num_rows == 0
