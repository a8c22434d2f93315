"""Tools on top of a driver: SQLAlchemy's reflection, pandas; and queries of Grafana's Postgres data source."""

from __future__ import annotations

import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa


@pytest.fixture
def engine(process):
    made = sa.create_engine(process.url("postgresql+psycopg"))
    yield made
    made.dispose()


def test_sqlalchemy_reflects_views_tables_and_columns(engine):
    found = sa.inspect(engine)
    assert set(found.get_view_names()) >= {"Hot", "PerRoom", "Flow", "Warm"}
    assert found.get_table_names() == ["Buildings"]
    assert "public" in found.get_schema_names()
    columns = {c["name"]: c["type"] for c in found.get_columns("Hot")}
    assert isinstance(columns["room"], sa.INTEGER)
    assert isinstance(columns["temp"], sa.DOUBLE_PRECISION)
    assert isinstance(columns["note"], sa.TEXT)
    assert found.get_pk_constraint("Hot")["constrained_columns"] == []
    assert found.get_foreign_keys("Buildings") == [] and found.get_indexes("Buildings") == []
    assert found.get_view_definition("Hot") == "SELECT room, temp, note FROM Rooms WHERE temp > 80"
    assert found.has_table("Hot") and not found.has_table("Cold")


def test_sqlalchemy_queries_reflected_tables(engine):
    tables = sa.MetaData()
    hot = sa.Table("Hot", tables, autoload_with=engine)
    with engine.connect() as connection:
        rows = connection.execute(sa.select(hot.c.room).where(hot.c.temp > 80, hot.c.note != "b").order_by(hot.c.room))
        assert rows.fetchall() == [(1,), (3,)]
        assert connection.execute(sa.text("SELECT count(*) FROM Hot")).scalar() == 3


def test_pandas_reads_queries_and_tables(engine):
    frame = pd.read_sql("SELECT room, temp FROM Hot ORDER BY room", engine)
    assert frame.to_dict("list") == {"room": [1, 3, 5], "temp": [90.5, 85.0, 81.25]}
    assert frame.dtypes.astype(str).to_dict() == {"room": "int64", "temp": "float64"}
    table = pd.read_sql_table("Buildings", engine)
    assert table.to_dict("list") == {"room": [1, 2], "building": ["North", "South"]}
    portions = list(pd.read_sql("SELECT room FROM Hot ORDER BY room", engine, chunksize=2))
    assert [len(part) for part in portions] == [2, 1]


# Modelled on what the query builder of the data source asks for; not copied from a running Grafana.
GRAFANA = [
    ("SELECT current_setting('server_version_num')::int/100 as version", [(1500,)]),
    (
        "select case when (select count(*) from pg_extension where extname = 'timescaledb') > 0 then 1 else 0 end as x",
        [(0,)],
    ),
    (
        "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user"
        " ELSE trim(s[i]) END FROM generate_series(1, 1) AS i, (SELECT string_to_array('public', ',') AS s) AS t)"
        " THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS t"
        " FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')"
        " AND table_type = 'BASE TABLE' ORDER BY 1",
        [('"Buildings"',)],
    ),
    (
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns'
        " WHERE quote_ident(table_name) = '\"Hot\"' ORDER BY ordinal_position",
        [("room", "integer"), ("temp", "double precision"), ("note", "text")],
    ),
]


@pytest.mark.parametrize(("text", "rows"), GRAFANA)
def test_queries_like_those_of_grafana_give_right_rows(process, text, rows):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        assert connection.execute(text).fetchall() == rows


REFUSED = [
    "SELECT * FROM pg_class, Hot",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd'), pg_class",
    "SELECT getenv('HOME'), current_user",
    "SELECT * FROM pg_class, '/etc/passwd'",
    "SELECT pg_sleep(10)",
    "SELECT * FROM pg.pg_class, pg_catalog.pg_type",
    "SELECT current_user INTO x",
    "SELECT version(); ATTACH 'x.db'",
    "SELECT duckdb_settings(), current_user",
    "SELECT * FROM duckdb_settings(), pg_class",
    "SELECT repeat('x', 1000000000), current_user",
    "WITH a AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM a, pg_class",
]


@pytest.mark.parametrize("text", REFUSED)
def test_catalog_queries_reach_nothing_else(process, text):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute(text)
        assert connection.execute("SELECT 1 AS x").fetchone() == (1,)
