"""WITH (keep = …): rows of endless streams are joined where their times are near, and forgotten when that is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.trial import drawn_database, log_of
from tidemill.errors import TidemillError

BAND = "B.TS >= A.TS - {0} AND B.TS <= A.TS + {0}"
QUERIES = (
    "SELECT A.k, A.v, B.v AS w FROM A {} JOIN B ON A.k = B.k{}",
    "SELECT A.k, count(*) AS n FROM A {} JOIN B ON A.k = B.k AND A.v < B.v{} GROUP BY A.k",
)


@st.composite
def workloads(draw):
    return [draw(streams.append_only("A")), draw(streams.append_only("B"))]


@effort(3, thorough_cases=500)
@given(
    sources=workloads(),
    keep=st.integers(1, 6),
    query=st.sampled_from(QUERIES),
    side=st.sampled_from(["", "LEFT"]),
    shards=st.integers(1, 3),
)
def test_what_is_joined_is_what_a_band_of_that_length_joins(sources, keep, query, side, shards):
    with drawn_database(sources, shards=shards) as db:
        db.execute(f"CREATE STREAMED VIEW Kept WITH (keep = {keep}) AS {query.format(side, '')}")
        db.execute(f"CREATE STREAMED VIEW Banded AS {query.format(side, ' AND ' + BAND.format(keep))}")
        db.run()
        assert sorted(map(str, log_of(db, "Kept"))) == sorted(map(str, log_of(db, "Banded")))


SETUP = """
REGISTER SOURCE P (k INTEGER, at BIGINT) FROM GENERATE (rate = 1, rows = 2000, k = 'cycle(7)') WITH (timestamp = 'at');
CREATE TAGGED STREAM S OVER P;
CREATE TAGGED STREAM K OVER P KEY k;
"""


def test_state_stays_small_and_the_plan_says_how_long_rows_are_kept(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        query = "SELECT x.k FROM S x JOIN S y ON x.k = y.k"
        with pytest.raises(TidemillError, match="TM204") as caught:
            db.execute(f"CREATE VIEW V AS {query}")
        assert "WITH (keep = '1 day')" in str(caught.value.hint)
        db.execute(f"CREATE VIEW V WITH (keep = '10 seconds') AS {query}")
        assert "keep_left: 10 s, keep_right: 10 s" in str(db.execute("EXPLAIN V"))
        db.run()
        assert db.runner.reports.last["state_rows"] < 1000  # of 4,000


def test_keyed_streams_are_not_touched(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        near = "SELECT x.k FROM S x JOIN S y ON x.k = y.k"
        db.execute(f"CREATE VIEW V WITH (keep = 1) AS {near} UNION ALL SELECT a.k FROM K a JOIN K b ON a.k = b.k")
        db.run()
        assert db.query("SELECT count(*) AS n FROM V").to_pylist() == [{"n": 2000 + 7}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) AS n FROM S GROUP BY k",
        "SELECT DISTINCT k FROM S",
        "SELECT k FROM K",
        "SELECT a.k FROM K a JOIN K b ON a.k = b.k",
    ],
)
def test_where_nothing_would_be_forgotten_it_is_refused(tmp_path, query):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        with pytest.raises(TidemillError, match="TM213") as caught:
            db.execute(f"CREATE VIEW V WITH (keep = 1) AS {query}")
        assert "WINDOW" in str(caught.value.hint)
        assert "V" not in str(db.execute("SHOW VIEWS"))


@pytest.mark.parametrize("value", ["0", "'never'", "'-1 day'"])
def test_a_length_that_is_none_is_refused(tmp_path, value):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        with pytest.raises(TidemillError, match="TM307"):
            db.execute(f"CREATE VIEW V WITH (keep = {value}) AS SELECT k FROM K")
