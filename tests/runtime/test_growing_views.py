"""Views that only grow get a table of their own when they need it; every reader sees what its transaction has."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from tests.harness import LocalDatabase
from tidemill.plan.sources import Column
from tidemill.runtime.views.growing_views import has_own_table
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.pools import Pools
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView


def growing(name: str) -> StoredView:
    return StoredView(name, name, "rstream", (Column("k", "INTEGER"),), None, "__time", "BIGINT", True)


@pytest.fixture
def store(tmp_path):
    found = ViewStore(str(tmp_path / "views.duckdb"), str(tmp_path / "files"))
    yield found
    found.close()


def tables(store: ViewStore) -> set[str]:
    return {n for (n,) in store.cursor().sql("SELECT table_name FROM duckdb_tables()").fetchall()}


def rows(store: ViewStore, view: StoredView, duck: duckdb.DuckDBPyConnection) -> list[tuple[int, ...]]:
    """The rows of a view, which its three readers agree about."""
    found = duck.sql(store.relation_sql(view, duck)).fetchall()
    assert sorted(r["k"] for r in store.contents(view, duck).to_pylist()) == sorted(k for (k,) in found)
    assert Past(store, duck).contents(view, 100, 50).num_rows == len(found)
    return sorted(found)


def keep(store: ViewStore, view: StoredView, *values: int) -> None:
    """Append rows to a view, as a batch does."""
    duck = store.cursor()
    duck.execute("BEGIN TRANSACTION")
    net = pa.table({"k": pa.array(values, pa.int32()), "__diff": pa.array([1] * len(values), pa.int64())})
    Pools(duck)._keep(view, net)
    duck.execute("COMMIT")
    duck.close()


def test_a_view_has_no_table_of_its_own_before_it_needs_one(store):
    first, second = growing("v1"), growing("v2")
    store.create(first, second)
    assert not {"contents v1", "contents v2"} & tables(store)
    assert {"v1", "v2"} <= store.owners(), "they count as there"
    keep(store, first, 3, 4)
    keep(store, first, 5)
    assert "contents v1" in tables(store) and "contents v2" not in tables(store)
    with store.reading() as duck:
        assert rows(store, first, duck) == [(3,), (4,), (5,)] and rows(store, second, duck) == []


def test_a_reader_that_began_before_the_table_reads_what_was_there(store):
    view = growing("v1")
    store.create(view)
    with store.reading() as before:
        assert rows(store, view, before) == []
        keep(store, view, 7)
        assert rows(store, view, before) == [], "its transaction has no such table"
        with store.reading() as after:
            assert rows(store, view, after) == [(7,)]


def test_a_dropped_view_leaves_neither_table_nor_note(store):
    first, second = growing("v1"), growing("v2")
    store.create(first, second)
    keep(store, first, 7)
    store.drop(first)
    store.drop(second)
    assert "contents v1" not in tables(store) and not {"v1", "v2"} & store.owners()


def test_tables_of_an_older_version_are_found(store):
    """It made the table of every view at once, and noted none."""
    old, empty, gone = growing("v1"), growing("v2"), growing("v3")
    store.create(old, empty, gone)
    for view in (old, gone):
        keep(store, view, 7)
    store.connection.execute("DROP TABLE __growing; CREATE TABLE __growing (view VARCHAR, own BOOLEAN)")
    store.sweep([old, empty])
    with store.reading() as duck:
        assert has_own_table(old, duck) and not has_own_table(empty, duck)
        assert rows(store, old, duck) == [(7,)]
    assert "contents v3" not in tables(store) and not {"v3"} & store.owners()
    store.sweep([old, empty])
    assert store.cursor().sql("FROM __growing ORDER BY view").fetchall() == [("v1", True), ("v2", False)]


def test_views_that_only_grow_make_a_handful_of_tables(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE Raw (k INTEGER, at BIGINT) FROM FILES '{tmp_path}/*.csv' WITH (timestamp = 'at')")
        db.execute("CREATE TAGGED STREAM S OVER Raw")
        before = len(tables(db.store))
        view = "CREATE RSTREAM VIEW w{0} AS SELECT k, count(*) AS n FROM S [RANGE {1} SLIDE 2] GROUP BY k"
        db.execute(";".join(view.format(i, 2 + 2 * (i % 3)) for i in range(30)))
        assert len(tables(db.store)) - before <= 4
