"""Section 5.3 and theorems 1 to 3: synchronization streams are streams, and when they may be moved."""

from __future__ import annotations

import random

import pytest

from tests.paper.notation import Feed, answers, tagged

SYNC_I = "CREATE STREAMED VIEW Sync{0} AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod {0} = 0"
EVERY_UNIT = [(1, t, t) for t in range(13)]


@pytest.fixture
def counter(db, tmp_path):
    """A keyed stream whose only row says what time it is."""
    feed = Feed(db, tmp_path, "Raw", "k INTEGER, v INTEGER").send(EVERY_UNIT)
    db.execute("CREATE TAGGED STREAM S OVER Raw KEY k")
    for i in (2, 3, 4):
        db.execute(SYNC_I.format(i))
    return feed


def refreshed(db, clause: str) -> list[int]:
    """The times at which the stream shows something new."""
    name = db.execute(f"SELECT STREAMED k, v FROM {clause}").name
    db.run()
    changes = db.changes(name).to_pylist()
    assert all(c["v"] == c["TS"] for c in changes), "a full synchronization point reflects all tuples up to it"
    return [c["TS"] for c in changes]


def test_points_of_two_streams_together(db, counter):
    db.execute("CREATE STREAMED VIEW Both AS SELECT TimePoint FROM R(Sync2) UNION SELECT TimePoint FROM R(Sync3)")
    assert refreshed(db, "R(S, Both)") == [0, 2, 3, 4, 6, 8, 9, 10, 12]


def test_points_common_to_two_streams(db, counter):
    db.execute("CREATE STREAMED VIEW Common AS SELECT TimePoint FROM R(Sync2) INTERSECT SELECT TimePoint FROM R(Sync3)")
    assert refreshed(db, "R(S, Common)") == [0, 6, 12]


def test_points_of_one_stream_without_those_of_another(db, counter):
    db.execute("CREATE STREAMED VIEW Rest AS SELECT TimePoint FROM R(Sync3) EXCEPT SELECT TimePoint FROM R(Sync2)")
    assert refreshed(db, "R(S, Rest)") == [3, 9]


def test_points_selected_from_points(db, counter):
    """Proposition 1: mod 4 is contained in mod 2."""
    db.execute("CREATE STREAMED VIEW Fourth AS SELECT P.TimePoint FROM R(Sync2) P WHERE P.TimePoint mod 4 = 0")
    assert refreshed(db, "R(S, Fourth)") == [0, 4, 8, 12]


def test_points_by_the_state_of_a_relation(db, tmp_path):
    """Refresh while more than one room is hot, and at no other time."""
    Feed(db, tmp_path, "Raw", "room VARCHAR, t INTEGER").send("<a,90>1 <b,95>2 <a,91>3 <b,70>4 <a,92>5 <b,99>6")
    db.execute("CREATE TAGGED STREAM S OVER Raw KEY room")
    db.execute("CREATE STREAMED VIEW Hot AS SELECT count(*) AS rooms, max(R.TS) AS last FROM R(S) R WHERE t > 80")
    db.execute("CREATE STREAMED VIEW Crowd AS SELECT H.last FROM R(Hot) H WHERE H.rooms > 1")
    db.execute("CREATE STREAMED VIEW V AS SELECT room, t FROM R(S, Crowd)")
    db.run()
    assert tagged(db, "V") == ["+<a,90>2", "+<b,95>2", "u<a,91>3", "u<a,92>6", "u<b,99>6"]


def test_sync_clauses_say_the_same_as_the_function(db, counter):
    spellings = [
        "R(S, Sync2)",
        "S SYNC ON Sync2",
        "S SYNC ON Sync2 AS X",
        "S AS X SYNC ON Sync2",
        "S SYNC EVERY 2",
        "S SYNC EVERY 2 SECONDS",
        "S SYNC EVERY INTERVAL '2' SECOND",
        "R(S) X SYNC EVERY 2",
        "(SELECT k, v FROM S) SYNC EVERY 2",
        "(SELECT k, v FROM S) X SYNC ON Sync2",
    ]
    names = [db.execute(f"SELECT STREAMED k, v FROM {clause}").name for clause in spellings]
    db.run()
    expected = ["+<1,0>0", *(f"u<1,{t}>{t}" for t in (2, 4, 6, 8, 10, 12))]
    for clause, name in zip(spellings, names, strict=True):
        assert tagged(db, name) == expected, clause


def test_every_n_rows(db, tmp_path):
    """Of a stream that grows: at the time of the third, sixth, … row."""
    Feed(db, tmp_path, "Raw", "v INTEGER").send("<1>1 <2>2 <3>2 <4>3 <5>4 <6>7 <7>8")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW V AS SELECT count(*) AS n FROM S SYNC EVERY 3 ROWS")
    db.run()
    assert tagged(db, "V") == ["+<3>2", "u<6>7"]


# ---- what cancels between two points -----------------------------------------------------------


def test_what_comes_and_goes_between_two_points_is_never_seen(db, tmp_path):
    """Section 8: the synchronizer digests both the insert and the delete."""
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER, op VARCHAR", options="operation = 'op'").send(
        "<a,1,insert>1 <b,1,insert>1 <a,1,delete>2 <b,2,update>3 <b,3,update>4 <c,9,insert>5 "
        "<c,9,delete>6 <b,3,delete>7 <d,1,insert>8"
    )
    db.execute("CREATE TAGGED STREAM S OVER Raw KEY k")
    db.execute("CREATE STREAMED VIEW V AS SELECT k, v FROM S SYNC EVERY 4")
    db.run()
    assert tagged(db, "V") == ["+<b,3>4", "-<b,3>8", "+<d,1>8"]


def test_only_the_last_of_a_chain_of_updates_is_reported(db, tmp_path):
    """Operator ξ generates the minimum: one u for each key, none when the value is what it was."""
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send("<a,1>1 <b,1>2 <a,2>3 <a,3>3 <b,5>3 <a,4>4 <b,1>4")
    db.execute("CREATE TAGGED STREAM S OVER Raw KEY k; CREATE STREAMED VIEW V AS SELECT k, v FROM S SYNC EVERY 2")
    db.run()
    assert tagged(db, "V") == ["+<a,1>2", "+<b,1>2", "u<a,4>4"]


def test_a_report_of_the_same_value_changes_nothing(db, tmp_path):
    Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send("<a,1>1 <a,1>2 <a,2>3 <a,2>4")
    db.execute("CREATE TAGGED STREAM S OVER Raw KEY k; CREATE STREAMED VIEW V AS SELECT k, v FROM R(S)")
    db.run()
    assert tagged(db, "V") == ["+<a,1>1", "u<a,2>3"]


# ---- theorems ----------------------------------------------------------------------------------


@pytest.fixture
def noise(db, tmp_path):
    """Two keyed streams with random updates, in order; the clock runs from 0 to 24."""
    chance = random.Random(4)
    for name in ("A", "B"):
        rows = sorted((chance.randrange(25), chance.randrange(5), chance.randrange(60, 140)) for _ in range(60))
        Feed(db, tmp_path, f"Raw{name}", "k INTEGER, v INTEGER").send(
            [(0, 100, 0), *((k, v, t) for t, k, v in rows), (0, 100, 24)]
        )
        db.execute(f"CREATE TAGGED STREAM {name} OVER Raw{name} KEY k")
    for i in (2, 3, 4):
        db.execute(SYNC_I.format(i))


def test_theorem_1_a_coarser_synchronization_follows_from_a_finer_one(db, noise):
    db.execute("CREATE STREAMED VIEW Fine AS SELECT k, v FROM R(A, Sync2)")
    db.execute("CREATE STREAMED VIEW Coarse AS SELECT k, v FROM R(Fine, Sync4)")
    db.execute("CREATE STREAMED VIEW Direct AS SELECT k, v FROM R(A, Sync4)")
    db.run()
    assert tagged(db, "Coarse") == tagged(db, "Direct") != []


def test_theorem_2_synchronization_commutes_with_unary_operators(db, noise):
    db.execute("CREATE STREAMED VIEW Inside AS SELECT k, v FROM R(A, Sync3) WHERE v > 100")
    db.execute("CREATE STREAMED VIEW Hot AS SELECT k, v FROM R(A) WHERE v > 100")
    db.execute("CREATE STREAMED VIEW Outside AS SELECT k, v FROM R(Hot, Sync3)")
    db.execute("CREATE STREAMED VIEW CountIn AS SELECT count(*) AS n FROM R(A, Sync3) WHERE v > 100")
    db.execute("CREATE STREAMED VIEW Counted AS SELECT count(*) AS n FROM R(A) WHERE v > 100")
    db.execute("CREATE STREAMED VIEW CountOut AS SELECT n FROM R(Counted, Sync3)")
    db.run()
    assert tagged(db, "Inside") == tagged(db, "Outside") != []
    assert tagged(db, "CountIn") == tagged(db, "CountOut") != []


def test_theorem_3_two_synchronizations_of_a_join_agree_at_the_common_points(db, noise):
    join = "SELECT X.k, X.v AS a, Y.v AS b FROM {} X, {} Y WHERE X.k = Y.k"
    db.execute(f"CREATE STREAMED VIEW Inside AS {join.format('R(A, Sync2)', 'R(B, Sync3)')}")
    db.execute(f"CREATE STREAMED VIEW Joined AS {join.format('R(A)', 'R(B)')}")
    db.execute("CREATE STREAMED VIEW Common AS SELECT TimePoint FROM R(Sync2) INTERSECT SELECT TimePoint FROM R(Sync3)")
    db.execute("CREATE STREAMED VIEW Outside AS SELECT * FROM R(Joined, Common)")
    db.run()
    inside, outside = answers(db, "Inside"), answers(db, "Outside")
    assert set(outside) <= {0, 6, 12, 18, 24} and set(inside) - {0, 6, 12, 18, 24}

    def at(history, t):
        return history[max(p for p in history if p <= t)]

    for t in (6, 12, 18, 24):
        assert at(inside, t) == at(outside, t)


def test_example_10_a_selection_over_a_join_peeled(db, noise):
    """σ(R_Sync(A) ⋈ R_Sync(B)) with one synchronization has full points only: it is the synchronized σ(A ⋈ B)."""
    db.execute("""CREATE STREAMED VIEW Q AS SELECT X.k, X.v AS a, Y.v AS b FROM R(A, Sync4) X, R(B, Sync4) Y
                  WHERE X.k = Y.k AND X.v > Y.v""")
    db.execute(
        "CREATE STREAMED VIEW D AS SELECT X.k, X.v AS a, Y.v AS b FROM R(A) X, R(B) Y WHERE X.k = Y.k AND X.v > Y.v"
    )
    db.execute("CREATE STREAMED VIEW Peeled AS SELECT * FROM R(D, Sync4)")
    db.run()
    assert tagged(db, "Q") == tagged(db, "Peeled") != []
