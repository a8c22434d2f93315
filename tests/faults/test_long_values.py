"""What a function makes of a short text is bounded: refused when a view says so, a dead letter when a row does."""

from __future__ import annotations

import json
import resource
import time
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.sql.bind import lengths
from tidemill.sql.bind.lambdas import guard_lambdas

HUGE = 2_000_000_000
SETUP = """
    REGISTER SOURCE S (k INTEGER, n INTEGER, s VARCHAR, f VARCHAR, at BIGINT) FROM FILES '{data}/*.json'
    WITH (timestamp = 'at');
    CREATE TAGGED STREAM T OVER S;
    CREATE VIEW Fine AS SELECT k, n FROM T;
"""
ROWS = [
    {"k": 1, "n": 3, "s": "a", "f": "%d", "at": 1},
    {"k": 2, "n": HUGE, "s": "x" * 500_000, "f": "%2000000000d", "at": 2},
    {"k": 3, "n": 2, "s": "b", "f": "%d", "at": 3},
]


@pytest.fixture
def db(tmp_path):
    (tmp_path / "a.json").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    with LocalDatabase(str(tmp_path / "db"), cores=1) as found:
        found.execute(SETUP.format(data=tmp_path))
        yield found


SAID = {
    "lpad('x', 2000000000, 'y')": "TM620",
    "rpad('x', 2000000000, 'y')": "TM620",
    "repeat('x', 2000000000)": "TM620",
    "lpad(s, 1000 * 2000000, 'y')": "TM620",
    "repeat(s, CAST(2000000000 AS INTEGER))": "TM620",
    "repeat('0123456789', 200000)": "TM620",
    "printf('%2000000000d', k)": "TM620",
    "printf('%*d', n, k)": "TM620",
    "format('{:>2000000000}', s)": "TM620",
    "format('{:{}}', s, n)": "TM620",
    "upper(lpad('x', 2000000000, 'y'))": "TM620",
    "repeat(" * 7 + "s" + ", 2)" * 7: "TM621",
}


@pytest.mark.parametrize("call", SAID)
def test_a_length_that_a_view_says_is_refused_at_its_place(call, db):
    """CREATE VIEW V AS SELECT lpad('x', 2000000000, 'y') AS v FROM T: each row took minutes and gigabytes, and nothing
    could interrupt it.
    """
    for text in (
        f"CREATE VIEW V AS SELECT {call} AS v FROM T",
        f"CREATE VIEW V AS SELECT k FROM T WHERE {call} = 'x'",
        f"CREATE VIEW V AS SELECT max({call}) AS v FROM T GROUP BY k",
        f"CREATE VIEW V AS SELECT count(*) AS n FROM T GROUP BY {call}",
    ):
        with pytest.raises(TidemillError, match=SAID[call]) as refused:
            db.execute(text)
        assert refused.value.hint and refused.value.line == 1 and refused.value.column > 20


GIVEN = [
    "lpad('x', n, 'y')",
    "rpad('x', n, 'y')",
    "repeat('x', n)",
    "repeat(s, n)",
    "repeat(s, 3)",
    "lpad(s, n, s)",
    "repeat(string_split(s, 'q'), n)",
    "printf(f, k)",
    "replace(s, 'x', s)",
    "replace(s, 'x', 'yyy')",
    "regexp_replace(s, 'x', s, 'g')",
    "levenshtein(s, s || 'y')",
    "lpad(lpad(s, n + 1, 'q'), n, 'y')",
    "list_reduce(string_split(s, ''), lambda x, y: x || x)",
    "len(list_transform(string_split(s, ''), lambda x: list_transform(string_split(s, ''), lambda y: x || y)))",
    "list_sum(list_transform(string_split(s, ''), lambda x: strlen(s || x)))",
    "list_transform(string_split(s, 'q'), lambda x: repeat(x, n))",
    "list_transform(string_split(s, 'q'), lambda x: replace(x, 'x', x))",
]


@pytest.mark.parametrize("call", GIVEN)
def test_a_length_that_a_row_says_is_a_dead_letter(call, db):
    """One row from a sender with n = 2000000000 took 20 s and 4 GB in `repeat('x', n)`."""
    db.execute(f"CREATE VIEW V AS SELECT k, {call} AS v FROM T")
    db.execute(f"CREATE VIEW G AS SELECT {call} AS v, count(*) AS c FROM T GROUP BY {call}")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    db.run()
    assert time.monotonic() - began < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10
    assert db.query("SELECT k FROM V ORDER BY k").column(0).to_pylist() == [1, 3]
    assert db.query("SELECT sum(c) AS n FROM G").to_pylist() == [{"n": 2}]
    assert db.query("SELECT count(*) AS n FROM Fine").to_pylist() == [{"n": 3}]
    reasons = db.query("SELECT reason FROM dead_letters").column(0).to_pylist()
    assert len(reasons) == 2 and all("longer than" in r for r in reasons)
    assert not [v for v in db.status()["views"] if v["stopped"]]


CALLS = [
    "lpad(s, n, s || 'z')",
    "rpad(s, n, 'yz')",
    "repeat(s, n)",
    "repeat(s, 3)",
    "repeat('ab', n)",
    "replace(s, 'a', t)",
    "replace(s, t, 'xyz')",
    "regexp_replace(s, 'a|b', t, 'g')",
    "levenshtein(s, t)",
    "printf(t || '%d', n)",
    "format(t || '{}', n)",
    "repeat(repeat(s, n), 2)",
    "lpad(s, 2 + 3, 'q')",
]
WORD = st.text("aböx ", max_size=5)


@effort(40)
@given(rows=st.lists(st.tuples(WORD | st.none(), WORD | st.none(), st.integers(-3, 9) | st.none()), min_size=1))
def test_answers_are_those_of_the_plain_functions(rows, tmp_path_factory):
    data: Any = pa.table(
        {
            "s": pa.array([r[0] for r in rows], pa.string()),
            "t": pa.array([r[1] for r in rows], pa.string()),
            "n": pa.array([r[2] for r in rows], pa.int32()),
        }
    )
    duck = duckdb.connect()
    duck.register("data", data)
    types = {"s": "VARCHAR", "t": "VARCHAR", "n": "INTEGER"}
    for call in CALLS:
        plain = duck.sql(f"SELECT {call} AS v FROM data").fetchall()
        assert duck.sql(f"SELECT {as_bound(call, types)} AS v FROM data").fetchall() == plain


def as_bound(call: str, types: dict[str, str]) -> str:
    """The call as a view computes it."""

    def type_of(sql: str) -> str:
        return type_in(sql, types)

    def bound(node: exp.Expr) -> exp.Expr:
        return lengths.guard_length(node, type_of) if isinstance(node, exp.Func) else node  # type: ignore[arg-type]

    return parse_one(call, dialect="duckdb").transform(bound).sql("duckdb")


def type_in(sql: str, types: dict[str, str]) -> str:
    """DuckDB's type of an expression over columns of these types."""
    columns = ", ".join(f"CAST(NULL AS {t}) AS {n}" for n, t in types.items())
    return str(duckdb.sql(f"SELECT {sql} FROM (SELECT {columns})").types[0])


LISTS = {"s": "VARCHAR", "k": "INTEGER", "l": "VARCHAR[]", "m": "INTEGER[]", "n": "INTEGER[][]"} | {
    "o": "STRUCT(a VARCHAR, b INTEGER[])[]"
}
LIST_ROWS = """
    SELECT 'ab' AS s, 3 AS k, ['a', 'b', NULL] AS l, [1, 2, 3] AS m, [[1, 2], [3], NULL] AS n,
        [{'a': 'x', 'b': [1, 2]}] AS o
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL
    UNION ALL SELECT 'q', 1, ['c'], [4], [[]], [NULL]
    UNION ALL SELECT 'r', 2, list_transform(range(2000), lambda i: 'text ' || i), range(1000),
        [range(30000), range(30000)], list_transform(range(200), lambda i: {'a': repeat('x', 100), 'b': range(100)})
"""
# A call, and how many tests it has: work that is as much as the row is long needs none.
LAMBDAS = {
    "list_reduce(l, lambda x, y: x || y)": 1,
    "list_reduce(m, lambda x, y: x + y)": 0,
    "list_reduce(l, lambda x, y, i: x || y || i)": 1,
    "list_reduce(n, lambda x, y: list_concat(x, y))": 1,
    "list_reduce(m, lambda x, y: x + y, k)": 0,
    "list_transform(m, lambda x: x + k)": 0,
    "list_filter(l, lambda x: x = s)": 1,
    "list_transform(l, lambda x, i: i)": 0,
    "l.list_filter(lambda x: x = s)": 1,
    "list_transform(m, lambda x: list_sum(list_transform(m, lambda y: x + y)))": 1,
    "list_transform(n, lambda x: list_transform(x, lambda y: y + 1))": 0,
    "list_transform(o, lambda x: list_filter(x.b, lambda y: y > 1))": 0,
    "list_transform(o, lambda x: list_filter(x.b, lambda y: y > x.b[1]))": 1,
    "list_transform(m[:20], lambda x: list_reduce(l[:9], lambda a, b: a || b || x))": 2,
}


@pytest.mark.parametrize("call", LAMBDAS)
def test_lambdas_answer_as_without_tests(call):
    duck = duckdb.connect()
    duck.sql(f"CREATE TABLE data AS {LIST_ROWS}")
    bound = cast(exp.Expression, parse_one(call, dialect="duckdb"))
    tested = guard_lambdas(bound, lambda sql: type_in(sql, LISTS)).sql("duckdb")
    assert tested.count("ERROR(") == LAMBDAS[call]
    assert (
        duck.sql(f"SELECT {tested} AS v FROM data").fetchall() == duck.sql(f"SELECT {call} AS v FROM data").fetchall()
    )
