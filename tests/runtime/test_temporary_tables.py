"""Statements over Arrow tables give the same with DuckDB's private calls as with the public ones."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from tidemill.runtime.duckdb import temporary_tables
from tidemill.runtime.duckdb.duck import run

NESTED = pa.table({"k": [1, 2, 3], "s": [{"a": 1}, {"a": None}, {"a": 3}], "l": [[1], [], [3, 4]]}).slice(1)
FEW = pa.table({"k": [2, 3, 3], 'Übrig "so"': ["x", None, "y"]})
STATEMENTS = [
    "SELECT * FROM few",
    "SELECT a.k, b.s FROM few AS a JOIN nested AS b USING (k) ORDER BY 1, 2",
    "WITH few2 AS (SELECT k FROM few) SELECT count(*) AS n FROM few2 AS l, few2 AS r WHERE l.k < r.k",
    " with recursive t AS (SELECT min(k) AS n FROM few UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t ORDER BY n",
    "(SELECT k FROM few) UNION ALL (SELECT k FROM nested) ORDER BY k DESC",
    "SELECT (SELECT max(k) FROM few) AS m, l FROM nested WHERE k IN (SELECT k FROM few)",
]


@pytest.fixture(params=["private", "public"])
def calls(request, monkeypatch):
    if request.param == "public":
        monkeypatch.setattr(temporary_tables, "has_direct_calls", lambda: False)
    return request.param


def answers() -> list[pa.Table]:
    return [run(sql, few=FEW, nested=NESTED) for sql in STATEMENTS]


def test_this_duckdb_has_the_private_calls():
    assert temporary_tables.has_direct_calls()


def test_answers_do_not_depend_on_the_calls(monkeypatch):
    direct = answers()
    monkeypatch.setattr(temporary_tables, "has_direct_calls", lambda: False)
    assert answers() == direct


def test_a_table_is_known_in_its_statement_only(calls):
    assert run("SELECT sum(k) AS s FROM few", few=FEW).to_pylist() == [{"s": 8}]
    with pytest.raises(duckdb.CatalogException, match="few"):
        run("SELECT * FROM few")
    with pytest.raises(duckdb.ConversionException, match="x"):
        run('SELECT CAST("Übrig ""so""" AS INTEGER) FROM few', few=FEW)
    assert run("SELECT count(*) AS n FROM few", few=FEW.slice(0, 0)).to_pylist() == [{"n": 0}]


def test_rows_are_written_in_the_transaction_of_the_caller(calls):
    with duckdb.connect() as duck:
        duck.execute("CREATE TABLE kept (k BIGINT, name VARCHAR)")
        for end in ("ROLLBACK", "COMMIT"):
            duck.execute("BEGIN TRANSACTION")
            temporary_tables.change(duck, "INSERT INTO kept SELECT * FROM few", few=FEW)
            temporary_tables.change(duck, "DELETE FROM kept WHERE k IN (SELECT k + 1 FROM few)", few=FEW.slice(0, 1))
            duck.execute(end)
        assert temporary_tables.select(duck, "SELECT k, name FROM kept").to_pylist() == [{"k": 2, "name": "x"}]
