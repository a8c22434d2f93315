"""VALUES and SELECT without FROM: their rows are those of a table that is there from the beginning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.language.tables import rows
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.trial import drawn_database, log_of

QUERIES = (
    "SELECT A.k, A.v, T.w FROM A JOIN {} ON A.k = T.k",
    "SELECT T.k, T.w, count(A.v) AS n FROM {} LEFT JOIN A ON A.k = T.k GROUP BY T.k, T.w",
    "SELECT A.k, A.v FROM A WHERE A.v > (SELECT max(w) FROM {} WHERE T.k = A.k)",
    "SELECT A.k, A.v FROM A WHERE k NOT IN (SELECT T.k FROM {})",
    "SELECT T.k, sum(A.v) AS s FROM A [RANGE 4 SLIDE 2] JOIN {} ON A.k = T.k GROUP BY T.k",
    "SELECT k, v FROM A UNION ALL SELECT T.k, T.w FROM {}",
    "SELECT max(w) AS m, count(*) AS n FROM {}",
)


def literal(value: Any) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@st.composite
def workloads(draw):
    stream = streams.append_only("A") if draw(st.booleans()) else streams.keyed("A")
    return [draw(stream), draw(streams.static_table("T").filter(lambda table: table.rows))]


@effort(4, thorough_cases=500)
@given(sources=workloads(), query=st.sampled_from(QUERIES), shards=st.integers(1, 3))
def test_values_have_the_log_of_a_table_with_the_same_rows(sources, query, shards):
    listed = ", ".join(f"({', '.join(literal(row[c]) for c in ('k', 'label', 'w'))})" for row in sources[1].rows)
    shape = "SELECT k::INTEGER AS k, label::VARCHAR AS label, w::INTEGER AS w"
    values = f"({shape} FROM (VALUES {listed}) t(k, label, w)) T"
    with drawn_database(sources, shards=shards) as db:
        db.execute(f"CREATE STREAMED VIEW Listed WITH (unbounded_state = true) AS {query.format(values)}")
        db.execute(f"CREATE STREAMED VIEW Filed WITH (unbounded_state = true) AS {query.format('T')}")
        db.run()
        assert sorted(map(str, log_of(db, "Listed"))) == sorted(map(str, log_of(db, "Filed")))


SETUP = """
REGISTER SOURCE P (k INTEGER, at BIGINT) FROM GENERATE (rate = 1, rows = 20, k = 'cycle(4)') WITH (timestamp = 'at');
CREATE TAGGED STREAM S OVER P;
"""
JOINED = "SELECT S.k, t.name FROM S JOIN (VALUES (0, 'zero'), (2, 'two')) t(k, name) ON S.k = t.k"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "db")


def test_a_view_of_constants_alone_has_its_rows_and_keeps_them(path):
    with LocalDatabase(path) as db:
        db.execute("CREATE VIEW One AS SELECT 1 AS a, 'x' AS b")
        db.execute("CREATE VIEW Three AS VALUES (1), (2), (2)")
        db.run()
        assert rows(db.query("SELECT * FROM One")) == [(1, "x")]
        db.run()
        assert rows(db.query("SELECT * FROM Three")) == [(1,), (2,), (2,)]
        assert "Constants" in str(db.execute("EXPLAIN Three"))
        db.execute("CREATE VIEW Above AS SELECT col0 + 1 AS b FROM Three EXCEPT SELECT 2")
        db.run()
        assert rows(db.query("SELECT * FROM Above")) == [(3,)]
    with LocalDatabase(path) as db:
        assert rows(db.query("SELECT * FROM One")) == [(1, "x")]
        assert rows(db.query("SELECT count(*) AS n FROM Three, (VALUES (1), (2)) t(a) WHERE col0 = a")) == [(3,)]


def test_a_view_that_is_created_later_reads_its_constants_again(path):
    with LocalDatabase(path) as db:
        db.execute(SETUP + f"CREATE VIEW First AS {JOINED}")
        db.run()
        db.execute(f"CREATE VIEW Later WITH (begin = 'history') AS {JOINED}")
        db.execute("CREATE VIEW Alone AS SELECT * FROM (VALUES (0, 'zero'), (2, 'two')) t(k, name)")
        db.run()
        assert len(rows(db.query("SELECT * FROM First"))) == 10
        assert rows(db.query("SELECT * FROM Later")) == rows(db.query("SELECT * FROM First"))
        assert rows(db.query("SELECT * FROM Alone")) == [(0, "zero"), (2, "two")]
        assert "Later" in str(db.execute("EXPLAIN WHY Later"))


def test_many_rows(path):
    listed = ", ".join(f"({i}, 'n{i}')" for i in range(1000))
    with LocalDatabase(path) as db:
        db.execute(f"CREATE VIEW Many AS SELECT count(*) AS n, sum(a) AS s, max(b) AS m FROM (VALUES {listed}) t(a, b)")
        db.run()
        assert rows(db.query("SELECT * FROM Many")) == [(1000, 499500, "n999")]
