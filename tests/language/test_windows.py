"""Windows in every spelling: who is inside when, exactly; timelines are in clock units."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, answers, rows_of, tagged
from tidemill.errors import TidemillError


@pytest.fixture
def stream(db, tmp_path):
    """a at 1, b at 3, c at 6; the clock ends at 12."""
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>1 <b>3 <c>6")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    Feed(db, tmp_path, "RawClock", "y INTEGER").send("<1>0 <2>12")
    db.execute("CREATE TAGGED STREAM C OVER RawClock; CREATE VIEW KeepsTheClock AS SELECT y FROM C")
    return feed


SPELLINGS = {
    # inside while NOW - 5 < TS <= NOW:  a [1, 6)  b [3, 8)  c [6, 11)
    "S WHERE NOW - 5 < TS AND TS <= NOW": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S WHERE Now - 5 < TS <= Now": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S WHERE TS > NOW - 5": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S WHERE NOW - INTERVAL '5' SECOND < TS": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S WHERE NOW < TS + 5": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S X WHERE X.TS > NOW - 5 AND x <> 'b'": "+a1 -a6 +c6 -c11",
    "S WHERE NOW - 5 <= TS": "+a1 +b3 +c6 -a7 -b9 -c12",
    "S WHERE TS BETWEEN NOW - 4 AND NOW": "+a1 +b3 -a6 +c6 -b8 -c11",
    "S WHERE TS = NOW": "+a1 -a2 +b3 -b4 +c6 -c7",
    # only the past:  a [4, ∞)
    "S WHERE TS <= NOW - 3": "+a4 +b6 +c9",
    "S WHERE TS < NOW - 3": "+a5 +b7 +c10",
    "S WHERE NOW - 5 < TS AND TS <= NOW - 2": "+a3 +b5 -a6 -b8 +c8 -c11",
    # a window in the future of every row never shows it before it has come
    "S WHERE NOW - 2 < TS AND TS < NOW + 100": "+a1 -a3 +b3 -b5 +c6 -c8",
    # [t - 5, t): from the moment after its own time
    "S [WINDOW 5]": "+a2 +b4 -a7 +c7 -b9 -c12",
    "S [WINDOW 5] X": "+a2 +b4 -a7 +c7 -b9 -c12",
    "S AS X [WINDOW 5 SECONDS]": "+a2 +b4 -a7 +c7 -b9 -c12",
    "S [WINDOW UNTIL NOW]": "+a1 +b3 +c6",
    # the last two rows
    "S [ROWS 2]": "+a1 +b3 -a6 +c6",
    "S [ROWS 1]": "+a1 -a3 +b3 -b6 +c6",
    "S [ROWS 2 SLIDE 2]": "+a3 +b3",
    "S [ROWS 1 SLIDE 3]": "+c6",
    # [k·4, k·4 + 4), reported at the end: a and b in [0, 4), c in [4, 8)
    "S [RANGE 4 SLIDE 4]": "+a4 +b4 -a8 -b8 +c8 -c12",
    "S [RANGE 4]": "+a4 +b4 -a8 -b8 +c8 -c12",
    # [k·2, k·2 + 4): reported at 2, 4, 6, …
    "S [RANGE 4 SLIDE 2]": "+a2 +b4 -a6 -b8 +c8 -c12",
    "S [RANGE 4 SECONDS SLIDE 2 SECONDS]": "+a2 +b4 -a6 -b8 +c8 -c12",
    # windows that leave gaps: [0, 2), [5, 7), [10, 12)
    "S [RANGE 2 SLIDE 5]": "+a2 -a7 +c7 -c12",
    # NOW is looked at when the synchronization says: at 0, 4, 8, 12
    "S SYNC EVERY 4 WHERE NOW - 5 < TS": "+a4 +b4 -a8 -b8 +c8 -c12",
    "S SYNC EVERY 3 WHERE NOW - 5 < TS": "+a3 +b3 -a6 +c6 -b9 -c12",
    "S [WINDOW 5] SYNC EVERY 4": "+a4 +b4 -a8 +c8 -b12 -c12",
}


def short(log: list[str]) -> str:
    return " ".join(f"{t[0]}{t[2]}{t[t.index('>') + 1 :]}" for t in log)


def test_every_spelling(db, stream):
    names = {}
    for text in SPELLINGS:
        item, _, where = text.partition(" WHERE ")
        condition = f" WHERE {where}" if where else ""
        names[text] = db.execute(f"SELECT STREAMED x FROM {item}{condition}").name
    db.run()
    found = {text: short(tagged(db, name)) for text, name in names.items()}
    assert found == SPELLINGS


def test_a_window_over_a_view_goes_by_the_time_of_its_changes(db, stream):
    """TS of a derived row is when it appeared."""
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S SYNC EVERY 4")
    db.execute("CREATE STREAMED VIEW W AS SELECT x, V.TS AS since FROM V WHERE NOW - 3 < V.TS")
    db.run()
    assert tagged(db, "W") == ["+<a,4>4", "+<b,4>4", "-<a,4>7", "-<b,4>7", "+<c,8>8", "-<c,8>11"]


def test_an_aggregate_over_a_window_empties_and_leaves(db, stream):
    db.execute("CREATE STREAMED VIEW G AS SELECT x, count(*) AS n FROM S WHERE NOW - 2 < TS GROUP BY x")
    db.execute("CREATE STREAMED VIEW N AS SELECT count(*) AS n, max(x) AS m FROM S WHERE NOW - 4 < TS")
    db.run()
    assert tagged(db, "G") == ["+<a,1>1", "-<a,1>3", "+<b,1>3", "-<b,1>5", "+<c,1>6", "-<c,1>8"]
    assert answers(db, "N") == {
        0: [(0, None)],
        1: [(1, "a")],
        3: [(2, "b")],
        5: [(1, "b")],
        6: [(2, "c")],
        7: [(1, "c")],
        10: [(0, None)],
    }


def test_a_window_on_one_side_of_a_join(db, stream, tmp_path):
    Feed(db, tmp_path, "RawK", "k VARCHAR, v INTEGER").send("<a,1>0 <b,2>0 <a,5>4 <c,9>8")
    db.execute("CREATE TAGGED STREAM K OVER RawK KEY k")
    db.execute("CREATE STREAMED VIEW J AS SELECT S.x, K.v FROM S, K WHERE S.x = K.k AND NOW - 5 < S.TS")
    db.execute("CREATE STREAMED VIEW L AS SELECT S.x, K.v FROM S [WINDOW 4] S LEFT JOIN K ON S.x = K.k")
    db.run()
    assert tagged(db, "J") == ["+<a,1>1", "+<b,2>3", "-<a,1>4", "+<a,5>4", "-<a,5>6", "-<b,2>8", "+<c,9>8", "-<c,9>11"]
    assert tagged(db, "L") == [
        "+<a,1>2",
        "-<a,1>4",
        "+<a,5>4",
        "+<b,2>4",
        "-<a,5>6",
        "+<c,>7",
        "-<b,2>8",
        "-<c,>8",
        "+<c,9>8",
        "-<c,9>11",
    ]


def test_tumbling_epochs_of_integer_time(db, tmp_path):
    """GROUP BY time/5 AS tb: each epoch is reported once, when it ends."""
    Feed(db, tmp_path, "Raw", "g VARCHAR, n INTEGER").send("<a,1>0 <a,2>3 <b,4>4 <a,8>5 <b,1>11 <a,1>12 <a,1>15")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW E AS SELECT g, tb, sum(n) AS total FROM S GROUP BY g, TS/5 AS tb")
    db.execute("CREATE STREAMED VIEW P AS SELECT tb, count(*) AS n FROM S GROUP BY TS/5 AS tb")
    db.execute("CREATE STREAMED VIEW Q AS SELECT S.TS/5 AS tb, count(*) AS n FROM S GROUP BY S.TS/5")
    db.run()
    assert tagged(db, "E") == ["+<a,0,3>5", "+<b,0,4>5", "+<a,1,8>10", "+<a,2,1>15", "+<b,2,1>15"]
    assert tagged(db, "P") == ["+<0,3>5", "+<1,1>10", "+<2,2>15"] == tagged(db, "Q")


def test_epochs_of_the_declared_time_column(db, tmp_path):
    """The column that the source names as its event time is that time."""
    Feed(db, tmp_path, "Raw", "n INTEGER").send("<1>0 <2>3 <3>7 <4>10")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW E AS SELECT tb, sum(n) AS s FROM S GROUP BY at/5 AS tb")
    db.run()
    assert tagged(db, "E") == ["+<0,3>5", "+<1,3>10"]


def test_whole_answers_at_each_point(db, stream):
    db.execute("CREATE RSTREAM VIEW P AS SELECT x FROM S [RANGE 4 SLIDE 2]")
    db.execute("CREATE RSTREAM VIEW Q AS SELECT count(*) AS n FROM S SYNC EVERY 5")
    db.execute("CREATE RSTREAM VIEW R AS SELECT x FROM S WHERE NOW - 5 < TS")
    db.run()
    assert rows_of(db, "SELECT TS, x FROM P ORDER BY ALL") == [
        (2, "a"),
        (4, "a"),
        (4, "b"),
        (6, "b"),
        (8, "c"),
        (10, "c"),
    ]
    assert rows_of(db, "SELECT TS, n FROM Q ORDER BY ALL") == [(0, 0), (5, 2), (10, 3)]
    assert rows_of(db, "SELECT TS, x FROM R ORDER BY ALL") == [
        (1, "a"),
        (3, "a"),
        (3, "b"),
        (6, "b"),
        (6, "c"),
        (8, "c"),
    ]


def test_whole_answers_at_the_points_of_a_view(db, stream):
    db.execute("CREATE STREAMED VIEW Odd AS SELECT TimePoint FROM clockStr WHERE TimePoint % 5 = 2")
    name = db.execute("SELECT RSTREAM x FROM S SYNC ON Odd").name
    db.execute(f"CREATE VIEW Twice AS SELECT x, count(*) AS n FROM {name} GROUP BY x")
    db.run()
    assert rows_of(db, f"SELECT TS, x FROM {name} ORDER BY ALL") == [
        (2, "a"),
        (7, "a"),
        (7, "b"),
        (7, "c"),
        (12, "a"),
        (12, "b"),
        (12, "c"),
    ]
    assert rows_of(db, "SELECT * FROM Twice ORDER BY ALL") == [("a", 3), ("b", 2), ("c", 2)]


@pytest.mark.parametrize("kind", ["INTEGER", "TIMESTAMP"])
def test_the_bounds_of_windows(tmp_path, kind):
    """A window is closed on the left and open on the right, and reported at its end."""
    moments = [1, 4, 6, 6, 13, 30]
    stamps = moments if kind == "INTEGER" else [f"1970-01-01 00:00:{m:02}" for m in moments]
    (tmp_path / "in.csv").write_text("k,at\n" + "".join(f"{m % 2},{s}\n" for m, s in zip(moments, stamps, strict=True)))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at {kind}) FROM FILES '{tmp_path}/in.csv' WITH (timestamp = 'at');"
            "CREATE TAGGED STREAM S OVER Raw;"
            "CREATE RSTREAM VIEW Each AS SELECT window_start, k, count(*) AS n, window_end AS till"
            " FROM S [RANGE 10 SLIDE 5] GROUP BY window_start, k, window_end;"
            "CREATE STREAMED VIEW Now_ AS SELECT window_end, count(*) AS n FROM S [RANGE 10 SLIDE 5];"
            "CREATE VIEW Last AS SELECT k, window_start, count(*) AS n FROM S [RANGE 10 SLIDE 5] GROUP BY k"
        )
        db.run(final=True)

        def plain(value):
            return value.second if kind == "TIMESTAMP" and hasattr(value, "second") else value

        found = [tuple(map(plain, row.values())) for row in db.query("SELECT * FROM Each ORDER BY TS, k").to_pylist()]
        assert [(ts, *rest) for ts, *rest in found if ts < 25] == [
            (5, -5 % 60 if kind == "TIMESTAMP" else -5, 0, 1, 5),
            (5, -5 % 60 if kind == "TIMESTAMP" else -5, 1, 1, 5),
            (10, 0, 0, 3, 10),
            (10, 0, 1, 1, 10),
            (15, 5, 0, 2, 15),
            (15, 5, 1, 1, 15),
            (20, 10, 1, 1, 20),
        ]
        log = [(c["TAG"], plain(c["window_end"]), c["n"], plain(c["TS"])) for c in db.changes("Now_").to_pylist()]
        assert log == [("+", 5, 2, 5), ("u", 10, 4, 10), ("u", 15, 3, 15), ("u", 20, 1, 20), ("-", 20, 1, 25)]
        assert db.query("SELECT * FROM Last").num_rows == 0, "the last window that is over is empty"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window_start FROM S",
        "SELECT window_end, v FROM S [ROWS 3]",
        "SELECT window_start, a.v FROM S [RANGE 5] AS a, S [RANGE 5] AS b WHERE a.v = b.v",
    ],
)
def test_bounds_need_one_window_that_slides_by_time(tmp_path, text):
    (tmp_path / "in.csv").write_text("v,at\n1,1\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw"
        )
        with pytest.raises(TidemillError) as caught:
            db.execute(f"CREATE VIEW V AS {text}")
        assert caught.value.code == "TM201"


@pytest.mark.parametrize(
    "text, answer",
    [
        ("SELECT window_end FROM S [RANGE 10] GROUP BY window_end", [(20,)]),
        ("SELECT window_end AS e, count(*) AS n FROM S [RANGE 10] GROUP BY e", [(20, 3)]),
        ("SELECT window_end, k, count(*) AS n FROM S [RANGE 10] GROUP BY 1, 2", [(20, 0, 1), (20, 1, 2)]),
        ("SELECT window_end, k FROM S [RANGE 10] GROUP BY window_end, 2", [(20, 0), (20, 1)]),
    ],
)
def test_bounds_as_keys_of_groups(tmp_path, text, answer):
    (tmp_path / "in.csv").write_text("k,at\n1,1\n0,12\n1,13\n1,14\n0,20\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw"
        )
        db.execute(f"CREATE VIEW V AS {text}")
        with pytest.raises(TidemillError, match="TM206"):
            db.execute("CREATE VIEW W AS SELECT window_end, k FROM S [RANGE 10] GROUP BY window_end")
        db.run()
        assert rows_of(db, "SELECT * FROM V ORDER BY ALL") == answer
