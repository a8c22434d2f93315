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


# What the query editor of Grafana's Postgres data source sends (postgresMetaQuery.ts): the version, an extension,
# schemas, the tables on the search path, and the columns of one.
PATH = "string_to_array(current_setting('search_path'),',')"
ON_PATH = (
    "quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END"
    f" FROM generate_series(array_lower({PATH},1), array_upper({PATH},1)) as i, {PATH} s)"
)
TABLES = (
    f"SELECT CASE WHEN {ON_PATH} THEN quote_ident(table_name)"
    " ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM information_schema.tables"
    " WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache')"
    f" ORDER BY CASE WHEN {ON_PATH} THEN 0 ELSE 1 END, 1"
)


def columns_of(table: str) -> str:
    return (
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns'
        f" WHERE CASE WHEN array_length(parse_ident('{table}'),1) = 2"
        f" THEN quote_ident(table_schema) = (parse_ident('{table}'))[1]"
        f" AND quote_ident(table_name) = (parse_ident('{table}'))[2]"
        f" ELSE quote_ident(table_name) = '{table}' AND {ON_PATH} END"
    )


RELATIONS = ['"Buildings"', '"Flow"', '"Hot"', '"Log"', '"Measured"', '"PerRoom"', '"Rooms"', '"Warm"']
HOT = [("room", "integer"), ("temp", "double precision"), ("note", "text")]
GRAFANA = [
    ("SELECT current_setting('server_version_num')::int/100 as version", [(1500,)]),
    ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", []),
    (
        'SELECT schema_name AS "name" FROM information_schema.schemata'
        " WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast') ORDER BY schema_name",
        [("public",)],
    ),
    (TABLES, [(name,) for name in RELATIONS]),
    (
        'SELECT quote_ident(table_name) AS "table" FROM information_schema.tables'
        " WHERE quote_ident(table_schema) = 'public' ORDER BY 1",
        [(name,) for name in RELATIONS],
    ),
    (columns_of('"Hot"'), HOT),
    (columns_of('"Nothing"'), []),
]


@pytest.mark.parametrize(("text", "rows"), GRAFANA)
def test_queries_of_grafana_give_right_rows(process, text, rows):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        found = connection.execute(text).fetchall()
    assert found == rows
    assert [[type(value) for value in row] for row in found] == [[type(value) for value in row] for row in rows]


CALLS = [
    ('parse_ident(\'"a.""b".C\')', ['a."b', "c"]),
    ("parse_ident('public.Hot')", ["public", "hot"]),
    ("current_schemas(false)", ["public"]),
    ("current_schemas(true)", ["pg_catalog", "public"]),
    ("7/2", 3),
    ("-7/2", -3),
    ("7/2.0", 3.5),
    ("string_to_array('a,b', ',')", ["a", "b"]),
]


@pytest.mark.parametrize(("call", "value"), CALLS)
def test_calls_in_the_catalog_give_what_postgres_gives(process, call, value):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        found = connection.execute(f"SELECT {call} FROM pg_database").fetchone()[0]
    assert found == value and type(found) is type(value)


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
