"""Windows by time and joins with the past in the spellings that people bring, and what is refused of them."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

SETUP = """
REGISTER SOURCE Clicks (k VARCHAR, v INTEGER, at TIMESTAMP) FROM FILES '{0}/c/*.csv' WITH (timestamp = 'at');
REGISTER SOURCE Ticks (k VARCHAR, v INTEGER, at BIGINT) FROM FILES '{0}/t/*.csv' WITH (timestamp = 'at');
REGISTER TABLE Names (k VARCHAR, name VARCHAR) FROM FILES '{0}/n/*.csv';
CREATE TAGGED STREAM S OVER Clicks;
CREATE TAGGED STREAM K OVER Clicks KEY k;
CREATE TAGGED STREAM T OVER Ticks;
"""
ROWS = [("a", 1, "00:00:05"), ("b", 2, "00:00:40"), ("a", 3, "00:01:10"), ("b", 5, "00:04:00"), ("a", 6, "00:30:00")]
LATER = "z,9,2024-03-20 00:00:00\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of all sources."""
    tmp_path = tmp_path_factory.mktemp("timed")
    for name, text in {
        "c": "k,v,at\n" + "".join(f"{k},{v},2024-03-01 {t}\n" for k, v, t in ROWS) + LATER,
        "t": "k,v,at\na,1,1\nb,2,2\na,3,14\n",
        "n": "k,name\na,Ann\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.csv").write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def db(folder):
    """All streams, and a view of each query, read to the end."""
    with LocalDatabase(str(folder / "db")) as found:
        found.execute(SETUP.format(folder))
        for i, query in enumerate(QUERIES):
            found.execute(f"CREATE VIEW V{i} AS {query}")
        found.run()
        yield found


def answer(db, query):
    rows = db.query(f"SELECT * FROM V{QUERIES.index(query)}").to_pylist()
    return sorted(tuple(map(str, row.values())) for row in rows)


TUMBLED = [
    "SELECT window_start AS w, k, sum(v) AS s FROM TUMBLE(TABLE S, DESCRIPTOR(at), INTERVAL '1' MINUTE)"
    " GROUP BY window_start, window_end, k",
    "SELECT window_start AS w, k, sum(v) AS s FROM TABLE(TUMBLE(TABLE S, DESCRIPTOR(TS), INTERVAL '1' MINUTE)) x"
    " GROUP BY x.window_start, k",
    "SELECT TUMBLE_START(at, INTERVAL '1' MINUTE) AS w, k, sum(v) AS s FROM S"
    " GROUP BY TUMBLE(at, INTERVAL '1' MINUTE), k",
    "SELECT date_trunc('minute', at) AS w, k, sum(v) AS s FROM S GROUP BY date_trunc('minute', at), k",
    "SELECT time_bucket(INTERVAL '1 minute', at) AS w, k, sum(v) AS s FROM S GROUP BY 1, 2",
    "SELECT window_start AS w, k, sum(v) AS s FROM HOP(S, at, INTERVAL '1' MINUTE, INTERVAL '1' MINUTE)"
    " GROUP BY window_start, k",
    "SELECT window_start AS w, k, sum(v) AS s FROM CUMULATE(S, at, INTERVAL '1' MINUTE, INTERVAL '1' MINUTE)"
    " GROUP BY window_start, k",
]


@pytest.mark.parametrize("query", TUMBLED)
def test_all_spellings_of_a_minute_give_the_same(db, query):
    minute = "2024-03-01 00:0{}:00".format
    assert answer(db, query) == [
        (minute(0), "a", "1"),
        (minute(0), "b", "2"),
        (minute(1), "a", "3"),
        (minute(4), "b", "5"),
        ("2024-03-01 00:30:00", "a", "6"),
    ]


@pytest.mark.parametrize("query", TUMBLED[:6])
def test_they_share_their_work(db, query):
    assert "WindowAggregate" in str(db.execute(f"EXPLAIN {query}"))


SESSIONS = [
    "SELECT k, count(*) AS n, window_end AS e FROM S [SESSION 2 MINUTES] GROUP BY k",
    "SELECT k, count(*) AS n, window_end AS e FROM S [SESSION 2 MINUTES PARTITION BY k]"
    " GROUP BY k, window_start, window_end",
    "SELECT k, count(*) AS n, window_end AS e FROM SESSION(TABLE S PARTITION BY k, DESCRIPTOR(at), INTERVAL '2' MINUTE)"
    " GROUP BY k, window_start, window_end",
    "SELECT k, count(*) AS n, SESSION_END(at, INTERVAL '2' MINUTE) AS e FROM S"
    " GROUP BY SESSION(at, INTERVAL '2' MINUTE), k",
]


@pytest.mark.parametrize("query", SESSIONS)
def test_all_spellings_of_a_session_give_the_same(db, query):
    at = "2024-03-01 00:0{}".format
    assert answer(db, query) == [
        ("a", "1", "2024-03-01 00:32:00"),
        ("a", "2", at("3:10")),
        ("b", "1", at("2:40")),
        ("b", "1", at("6:00")),
    ]


DATES = ["time_bucket(INTERVAL '7 minutes', at)", "date_trunc('week', at)", "date_trunc('hour', at)"]
EPOCHS = [f"SELECT {key} AS w, count(*) AS n FROM S GROUP BY {key}" for key in DATES]
COLUMNS = [f"SELECT w, count(*) AS n FROM (SELECT {key} AS w FROM S) GROUP BY w" for key in DATES]


@pytest.mark.parametrize("i", range(len(DATES)))
def test_buckets_and_weeks_begin_where_duckdb_has_them(db, i):
    closed, whole = answer(db, EPOCHS[i]), answer(db, COLUMNS[i])
    assert db.execute(f"DESCRIBE V{QUERIES.index(EPOCHS[i])}").to_pylist()[0]["points"] != "every change"
    assert len(closed) == len(whole) - 1 and all(row in whole for row in closed)


OF_A_KEY = "SELECT date_trunc('day', at) AS h, count(*) AS n FROM K GROUP BY 1"
LOOKED_UP = "SELECT S.v, n.name FROM S LEFT JOIN Names FOR SYSTEM_TIME AS OF S.at AS n ON S.k = n.k"
NEWEST = "SELECT T.v, b.v AS w FROM T ASOF JOIN T b ON T.at > b.at WHERE b.v < 2"
QUERIES = [*TUMBLED, *SESSIONS, *EPOCHS, *COLUMNS, OF_A_KEY, LOOKED_UP, NEWEST]


def test_of_a_keyed_stream_a_date_is_a_column_like_any_other(db):
    assert answer(db, OF_A_KEY) == [("2024-03-01 00:00:00", "2"), ("2024-03-20 00:00:00", "1")]


def test_a_table_is_looked_up_at_the_time_of_a_row(db):
    assert answer(db, LOOKED_UP) == [
        ("1", "Ann"),
        ("2", "None"),
        ("3", "Ann"),
        ("5", "None"),
        ("6", "Ann"),
        ("9", "None"),
    ]


def test_a_condition_on_the_newest_row_does_not_choose_another_one(db):
    assert answer(db, NEWEST) == [("2", "1")]  # the newest row before 14 is that of 2, where v is 2


def test_nothing_is_kept_of_sessions_that_are_over(folder, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(folder))
        db.execute(f"CREATE VIEW V AS {SESSIONS[0]}")
        db.run()
        assert db.runner.reports.last["state_rows"] <= 2  # the last row, and when its session may end


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("SELECT * FROM S [SESSION 0 SECONDS]", "TM111", "greater than zero"),
        ("SELECT * FROM S [SESSION 5 PARTITION BY nothing]", "TM201", 'no column "nothing"'),
        ("SELECT * FROM S [SESSION 5 PARTITION k]", "TM101", "expected ]"),
        ("SELECT * FROM Names [SESSION 5]", "TM202", "has no time"),
        ("SELECT lower(k), count(*) FROM S [SESSION 5] GROUP BY lower(k)", "TM202", "must be columns"),
        ("SELECT * FROM TUMBLE(TABLE S, DESCRIPTOR(v), 5)", "TM202", '"v" is not the time'),
        ("SELECT * FROM TUMBLE(TABLE S, DESCRIPTOR(at))", "TM101", "expected ,"),
        ("SELECT * FROM HOP(TABLE S, DESCRIPTOR(at), 5, 12)", "TM111", "not possible in HOP"),
        ("SELECT * FROM CUMULATE(TABLE S, DESCRIPTOR(at), 1, 1000)", "TM111", "not possible in CUMULATE"),
        (
            "SELECT * FROM TUMBLE(TABLE T, DESCRIPTOR(at), INTERVAL '500' MILLISECONDS)",
            "TM111",
            "not possible in TUMBLE",
        ),
        ("SELECT * FROM HOP(TABLE S PARTITION BY k, DESCRIPTOR(at), 5, 10)", "TM112", "no PARTITION BY"),
        ("SELECT count(*) FROM S GROUP BY TUMBLE(at)", "TM111", "a length of time"),
        ("SELECT S.k FROM S ASOF JOIN S b ON S.k = b.k", "TM202", "one comparison of times"),
        ("SELECT S.k FROM S ASOF JOIN S b ON S.k = b.k AND S.at <= b.at", "TM202", "looks back"),
        ("SELECT S.k FROM S ASOF JOIN S b ON S.k = b.k AND S.v >= b.v", "TM204", "state for ever"),
        ("SELECT S.k FROM S ASOF JOIN K b ON S.k = b.k AND S.at >= b.at", "TM202", "takes no rows back"),
        ("SELECT S.k FROM S ASOF RIGHT JOIN S b ON S.k = b.k AND S.at >= b.at", "TM202", "not possible"),
        ("SELECT K.k FROM K JOIN K FOR SYSTEM_TIME AS OF K.at AS b ON K.k = b.k", "TM202", "takes no rows back"),
        ("SELECT a.k FROM S a JOIN S FOR SYSTEM_TIME AS OF a.at AS b ON a.k = b.k", "TM204", "state for ever"),
        ("SELECT a.k FROM S FOR SYSTEM_TIME AS OF a.at AS a", "TM202", "on the right of a join"),
    ],
)
def test_what_is_not_possible_is_refused(db, query, code, message):
    with pytest.raises(TidemillError) as caught:
        db.execute(f"CREATE VIEW V AS {query}")
    assert caught.value.code == code and message in str(caught.value) and caught.value.hint
    assert caught.value.line is not None
