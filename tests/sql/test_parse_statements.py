"""Each kind of statement, with every spelling it may have."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.statements import parse, parse_one
from tidemill.plan.sources import Column
from tidemill.plan.statements import (
    CreateSink,
    CreateTaggedStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    RegisterSource,
    RegisterTable,
    Select,
    Set,
    Show,
    Subscribe,
)
from tidemill.sql.dialect.dialect import to_sql

TWO = (Column("RoomID", "INTEGER"), Column("Temperature", "INTEGER"))


def query(text: str) -> exp.Expression:
    return parse_one(text).query


@pytest.mark.parametrize("columns", ["int RoomID, int Temperature", "RoomID INT, Temperature INTEGER"])
@pytest.mark.parametrize(
    ("origin", "meaning"),
    [
        ("port5501", {"port": 5501}),
        ("PORT 5501", {"port": 5501}),
        ("PORT 5501 HOST '0.0.0.0'", {"port": 5501, "host": "0.0.0.0"}),
        ("port5501 HOST '::1'", {"port": 5501, "host": "::1"}),
    ],
)
def test_register_source_from_a_port(columns, origin, meaning):
    text = f"REGISTER SOURCE T ({columns}) FROM {origin}"
    assert parse_one(text) == RegisterSource("T", TWO, "port", meaning)


@pytest.mark.parametrize(
    "text",
    [
        "REGISTER SOURCE s (a INT) FROM FILES 'in/*.csv' WITH (format = 'csv', header = true)",
        "REGISTER SOURCE s (a INT) WITH (format = csv, header = TRUE) FROM FILES 'in/*.csv'",
        "register source s (a int) with (FORMAT = 'csv') from files 'in/*.csv' with (Header = true)",
    ],
)
def test_options_stand_before_or_behind_from(text):
    expected = RegisterSource(
        "s", (Column("a", "INTEGER"),), "files", {"glob": "in/*.csv"}, {"format": "csv", "header": True}
    )
    assert parse_one(text) == expected


def test_register_source_that_generates():
    text = (
        'REGISTER SOURCE s (RoomID INT, "rows" INT) FROM GENERATE '
        "(rate = 1000, rows = 5, seed = 7, start = '2024-01-01', arrivals = poisson, "
        "roomid = 'uniform(1,200)', \"rows\" = 3)"
    )
    origin = parse_one(text).origin
    assert origin == {
        "rate": 1000,
        "rows": 5,
        "seed": 7,
        "start": "2024-01-01",
        "arrivals": "poisson",
        "columns": {"RoomID": "uniform(1,200)", "rows": 3},
    }


def test_option_values_are_plain():
    text = (
        "REGISTER SOURCE s (a INT, t TIMESTAMP) FROM PORT 1 WITH (timestamp = 't', lateness = 5 SECONDS, "
        "batch_rows = 10, settle_seconds = 0.5, header = false, backlog_bytes = -1, on_error = dead_letter)"
    )
    assert parse_one(text).options == {
        "timestamp": "t",
        "lateness": "5 seconds",
        "batch_rows": 10,
        "settle_seconds": 0.5,
        "header": False,
        "backlog_bytes": -1,
        "on_error": "dead_letter",
    }


TYPES = [
    ("INT", "INTEGER"),
    ("int4", "INTEGER"),
    ("STRING", "VARCHAR"),
    ("text", "VARCHAR"),
    ("VARCHAR(20)", "VARCHAR"),
    ("character varying", "VARCHAR"),
    ("LONG", "BIGINT"),
    ("int8", "BIGINT"),
    ("FLOAT", "FLOAT"),
    ("REAL", "FLOAT"),
    ("DOUBLE", "DOUBLE"),
    ("double  precision", "DOUBLE"),
    ("FLOAT8", "DOUBLE"),
    ("DECIMAL(10,2)", "DECIMAL(10,2)"),
    ("numeric( 10 , 2 )", "DECIMAL(10,2)"),
    ("DECIMAL(5)", "DECIMAL(5,0)"),
    ("DECIMAL", "DECIMAL(18,3)"),
    ("bool", "BOOLEAN"),
    ("DATE", "DATE"),
    ("TIME", "TIME"),
    ("TIMESTAMP", "TIMESTAMP"),
    ("DATETIME", "TIMESTAMP"),
    ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
    ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
    ("BLOB", "BLOB"),
    ("UUID", "UUID"),
    ("SMALLINT", "SMALLINT"),
    ("UBIGINT", "UBIGINT"),
]


@pytest.mark.parametrize(("spelling", "name"), TYPES)
@pytest.mark.parametrize("order", ["x {}", "{} x"])
def test_types_have_one_name(spelling, name, order):
    text = f"REGISTER SOURCE s ({order.format(spelling)}) FROM port1"
    assert parse_one(text).columns == (Column("x", name),)


@pytest.mark.parametrize(
    ("columns", "meaning"),
    [
        ("date INT, time DATE", [("date", "INTEGER"), ("time", "DATE")]),
        ("INT a, INT date", [("a", "INTEGER"), ("date", "INTEGER")]),
        ("INT a, date DATE", [("a", "INTEGER"), ("DATE", "DATE")]),
        ('"date" INT', [("date", "INTEGER")]),
        ('INT "my col"', [("my col", "INTEGER")]),
    ],
)
def test_a_column_may_be_called_like_a_type(columns, meaning):
    parsed = parse_one(f"REGISTER SOURCE s ({columns}) FROM port1").columns
    assert parsed == tuple(Column(*each) for each in meaning)


def test_ts_may_be_the_event_time():
    text = "REGISTER SOURCE s (Ts TIMESTAMP) FROM port1 WITH (timestamp = 'ts')"
    assert parse_one(text).columns == (Column("Ts", "TIMESTAMP"),)


def test_register_table():
    text = "REGISTER OR REPLACE TABLE t (a INT) FROM FILES 't.parquet' WITH (format = 'parquet')"
    columns = (Column("a", "INTEGER"),)
    expected = RegisterTable("t", columns, {"glob": "t.parquet"}, {"format": "parquet"}, or_replace=True)
    assert parse_one(text) == expected


def test_register_if_not_exists():
    assert parse_one("REGISTER SOURCE IF NOT EXISTS s (a INT) FROM port1").if_not_exists


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE TAGGED STREAM t OVER s", CreateTaggedStream("t", "s")),
        ("CREATE TAGGED STREAM t OVER s KEY a", CreateTaggedStream("t", "s", ("a",))),
        ("CREATE TAGGED STREAM t OVER s KEY a, b", CreateTaggedStream("t", "s", ("a", "b"))),
        ("CREATE TAGGED STREAM t OVER s KEY (a, b)", CreateTaggedStream("t", "s", ("a", "b"))),
        ('create tagged stream if not exists "my t" over s', CreateTaggedStream("my t", "s", if_not_exists=True)),
        ("CREATE OR REPLACE TAGGED STREAM t OVER s KEY (a)", CreateTaggedStream("t", "s", ("a",), or_replace=True)),
        ("CREATE SINK s FROM v TO FILES 'dir'", CreateSink("s", "v", "files", "dir")),
        (
            "CREATE SINK s FROM v TO FILES 'dir' WITH (format='json')",
            CreateSink("s", "v", "files", "dir", {"format": "json"}),
        ),
        ("CREATE SINK IF NOT EXISTS s FROM v TO CONSOLE", CreateSink("s", "v", "console", if_not_exists=True)),
        ("DROP SOURCE s", Drop("source", "s")),
        ("DROP TABLE s", Drop("table", "s")),
        ("DROP STREAM s", Drop("stream", "s")),
        ("DROP TAGGED STREAM s", Drop("stream", "s")),
        ("DROP VIEW IF EXISTS s CASCADE", Drop("view", "s", if_exists=True, cascade=True)),
        ("DROP SINK s", Drop("sink", "s")),
        ("DROP QUERY s", Drop("query", "s")),
        *[(f"SHOW {what}", Show(what)) for what in ("sources", "tables", "streams", "views", "sinks", "queries")],
        *[(f"SHOW {what}", Show(what)) for what in ("all", "dead_letters", "settings", "plans")],
        ("SHOW TAGGED STREAMS", Show("streams")),
        ("SHOW DEAD LETTERS", Show("dead_letters")),
        ("DESCRIBE v", Describe("v")),
        ('DESC "my v"', Describe("my v")),
        ("SUBSCRIBE v", Subscribe("v")),
        ("SET clock = '1 second'", Set("clock", "1 second")),
        ("SET Shards = 8", Set("shards", 8)),
        ("EXPLAIN", Explain()),
        ("EXPLAIN VIEW v", Explain(exp.to_table("v"))),
        ("EXPLAIN v", Explain(exp.to_table("v"))),
        ("EXPLAIN view", Explain(exp.to_table("view"))),
    ],
)
def test_statements(text, statement):
    assert parse_one(text) == statement
    assert parse_one(text + " ;") == statement


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("CREATE VIEW v AS SELECT a FROM t", "complete"),
        ("CREATE COMPLETE VIEW v AS SELECT a FROM t", "complete"),
        ("CREATE STREAMED VIEW v AS SELECT a FROM t", "streamed"),
        ("create rstream view v as select a from t", "rstream"),
        ("CREATE ISTREAM VIEW v AS SELECT a FROM t", "istream"),
        ("create dstream view v as select a from t", "dstream"),
        ("CREATE VIRTUAL VIEW v AS SELECT a FROM t", "virtual"),
    ],
)
def test_create_view(text, output):
    assert parse_one(text) == CreateView("v", output, query("SELECT a FROM t"))


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE VIEW v WITH (retain = '1 day', unbounded_state = true) AS {query}",
        "CREATE OR REPLACE VIEW v AS {query} WITH (retain = '1 day', unbounded_state = true)",
        "CREATE OR REPLACE VIEW v WITH (retain = 1 day) AS {query} WITH (unbounded_state = true)",
    ],
)
def test_view_options_stand_before_as_or_at_the_end(text):
    inner = "WITH c AS (SELECT 1 AS a) SELECT a FROM c"
    view = parse_one(text.format(query=inner))
    assert view.options == {"retain": "1 day", "unbounded_state": True}
    assert to_sql(view.query) == inner
    assert view.or_replace


def test_create_view_if_not_exists():
    assert parse_one("CREATE STREAMED VIEW IF NOT EXISTS v AS (SELECT 1 AS a)").if_not_exists


def test_explain_keeps_the_whole_statement():
    text = "EXPLAIN  SELECT STREAMED a FROM t"
    explain = parse_one(text)
    assert explain == Explain(Select(query("SELECT a FROM t"), "streamed"))
    assert (explain.text, explain.target.text) == (text, text[9:])
    view = parse_one("EXPLAIN CREATE STREAMED VIEW v AS SELECT a FROM t")
    assert view.target == CreateView("v", "streamed", query("SELECT a FROM t"))


def test_every_statement_knows_its_text_and_line():
    text = """
    -- a comment; with a semicolon
    SHOW VIEWS ;; /* another ; */
    SELECT ';' AS a,
           b FROM t ;
    DESCRIBE v -- the end"""
    statements = parse(text)
    assert [each.text for each in statements] == ["SHOW VIEWS", "SELECT ';' AS a,\n           b FROM t", "DESCRIBE v"]
    assert [each.line for each in statements] == [3, 4, 6]


@pytest.mark.parametrize("text", ["", "  \n\t", ";", " ; ;; ", "-- nothing", "/* nothing; */"])
def test_empty_text_has_no_statements(text):
    assert parse(text) == []


def test_settings_can_be_switched_on_and_off():
    assert [statement.value for statement in parse("SET phantoms = on; SET phantoms = OFF; SET pin_plan = TRUE")] == [
        "on",
        "OFF",
        True,
    ]
