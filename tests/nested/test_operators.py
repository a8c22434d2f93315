"""Lists, structs and maps in every operator: as values, as keys, in orders, in windows, joined."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.corpus.oracle import plain_rows, same
from tests.harness import LocalDatabase
from tidemill.runtime.dataflow.annotations import rank_values
from tidemill.runtime.dataflow.value_codes import JoinValues, differs, hash_rows, number_column

COLUMNS = {
    "k": "INTEGER",
    "i": "BIGINT",
    "m": "MAP(VARCHAR, DOUBLE)",
    "s": "STRUCT(l DECIMAL(5,2)[], f INTEGER[2], x STRUCT(y INTEGER[]))",
}
NESTED = ("m", "s")
ROWS = [
    {
        "k": i % 3,
        "i": i,
        "m": {"a": i // 2, "b": None} if i % 7 else None,
        "s": {"l": [1.5] * (i % 3), "f": [i % 2, 7], "x": {"y": [i % 2, None]} if i % 4 else None},
    }
    for i in range(12)
]
QUERIES = (
    "SELECT {c}, k FROM T ORDER BY k, {c}, i LIMIT 3",
    "SELECT {c}, row_number() OVER (PARTITION BY k ORDER BY i) AS r FROM T",
    "SELECT k, i, lag({c}) OVER (PARTITION BY k ORDER BY i) AS v FROM T",
    "SELECT k, i, count(*) OVER (PARTITION BY {c} ORDER BY i) AS n FROM T",
    "SELECT {c}, max(k) AS q FROM T GROUP BY {c}",
    "SELECT k, max({c}) AS q, min({c}) AS p, count(DISTINCT {c}) AS d FROM T GROUP BY k",
    "SELECT DISTINCT {c} FROM T",
    "SELECT {c} FROM T EXCEPT SELECT {c} FROM T WHERE k = 1",
    "SELECT a.{c} AS v, b.k FROM T a LEFT JOIN T b ON a.{c} = b.{c} AND b.k = 1",
    "SELECT a.{c} AS v, count(*) AS n, sum(b.i) AS t, max(b.i) AS q FROM T a, T b WHERE a.{c} = b.{c} GROUP BY a.{c}",
    "SELECT a.k, max(b.{c}) AS q, min(a.{c}) AS p FROM T a, T b WHERE a.k = b.k GROUP BY a.k",
    "SELECT k, i FROM T WHERE {c} IN (SELECT {c} FROM T WHERE k = 1)",
)
WINDOWS = (
    "SELECT {c}, count(*) AS n, max(i) AS q FROM T{w} GROUP BY {c}",
    "SELECT k, max({c}) AS q, count({c}) AS n, count(DISTINCT {c}) AS d FROM T{w} GROUP BY k",
)
WINDOW, LAST = " [RANGE 4 SLIDE 2]", " WHERE i >= 6 AND i < 10"  # what is in the last whole window


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A database whose views ask every query, and DuckDB with the same rows."""
    folder = tmp_path_factory.mktemp("nested")
    path = folder / "in.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with LocalDatabase(str(folder / "db")) as db, duckdb.connect() as duck:
        declared = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        typed = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        duck.execute(f"CREATE TABLE T AS SELECT * FROM read_json('{path}', columns = {{{typed}}})")
        db.execute(f"REGISTER SOURCE R ({declared}) FROM FILES '{path}' WITH (timestamp = 'i', batch_rows = 5)")
        db.execute("CREATE TAGGED STREAM T OVER R")
        for i, query in enumerate((*QUERIES, *WINDOWS)):
            for c in NESTED:
                text = query.format(c=c, w=WINDOW)
                db.execute(f"CREATE VIEW {c}{i} AS {text} WITH (unbounded_state = true)")
        db.run()
        yield db, duck


def test_no_view_stops(both):
    """ORDER BY, ranks, window functions and shared windows over a STRUCT or a MAP stopped: dictionary_encode has no
    kernel for it.
    """
    assert not [(v["name"], v["stopped"]) for v in both[0].status()["views"] if v["stopped"]]


@pytest.mark.parametrize("column", NESTED)
def test_answers_are_those_of_sql(both, column):
    db, duck = both
    for i, query in enumerate((*QUERIES, *WINDOWS)):
        text = query.format(c=column, w=LAST)
        mine, theirs = db.query(f"SELECT * FROM {column}{i}"), duck.sql(text).to_arrow_table()
        assert same(plain_rows(mine), plain_rows(theirs)), (text, mine.to_pylist(), theirs.to_pylist())


VALUES = {
    pa.list_(pa.string()): [["a"], ["a", None], [], None, ["a"], [None], ["", "a"], ["a", ""]],
    pa.list_(pa.int32(), 2): [[1, 2], None, [2, None], [1, 2], [None, 2]],
    pa.struct([("a", pa.string()), ("b", pa.string())]): [
        {"a": "x", "b": ""},
        {"a": "", "b": "x"},
        None,
        {"a": None, "b": "x"},
        {"a": "", "b": "x"},
    ],
    pa.map_(pa.string(), pa.float64()): [[("a", 0.0)], [("a", -0.0)], [("b", 0.0)], None, [("a", None)], []],
    pa.list_(pa.list_(pa.decimal128(20, 2))): [[[1], []], [[1]], [[], [1]], [[1], []], [None]],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_codes_are_equal_where_the_values_are_equal_in_sql(kind):
    column = pa.array(VALUES[kind], kind)
    with duckdb.connect() as duck:
        duck.register("given", pa.table({"x": column, "i": range(len(column))}))
        ranks = duck.sql("SELECT dense_rank() OVER (ORDER BY x) AS r FROM given ORDER BY i").to_arrow_table()
    wanted = ranks.column("r").to_numpy()
    ids, _ = number_column(column)
    assert [(a == ids).tolist() for a in ids] == [(a == wanted).tolist() for a in wanted]
    assert differs(column).tolist() == (wanted[1:] != wanted[:-1]).tolist()
    known = wanted[column.is_valid().to_numpy(zero_copy_only=False)]
    values, plain = JoinValues(), column.drop_null()
    codes = [int(values.codes(plain.slice(i, 1))[0]) for i in range(len(plain))]  # whatever is beside it
    hashes = [int(hash_rows([plain.slice(i)], len(plain) - i)[0]) for i in range(len(plain))]
    for found in (codes, hashes):
        assert [[a == b for b in found] for a in found] == [(a == known).tolist() for a in known]
    order, ordered = rank_values(plain)
    assert np.array_equal(np.argsort(order, kind="stable"), np.argsort(known, kind="stable"))
    assert ordered.take(pa.array(order)).to_pylist() == plain.to_pylist()
