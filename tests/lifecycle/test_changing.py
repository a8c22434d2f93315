"""Views, queries and sources come and go while everything runs, and no other view changes."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of, tagged
from tidemill.errors import TidemillError

CHUNKS = [
    "<1,a,5>1 <2,b,7>2 <3,a,1>3",
    "<1,a,9>4 <4,c,2>5 <2,b,0>6",
    "<5,a,4>7 <3,b,8>8 <1,c,3>9",
    "<6,c,6>10 <4,c,1>11 <2,a,5>12",
]
VIEWS = {
    "Filtered": "SELECT id, v FROM K WHERE v > 2",
    "Grouped": "SELECT g, count(*) AS n, sum(v) AS s, max(v) AS m FROM K GROUP BY g",
    "Deeper": "SELECT n, count(*) AS groups FROM Grouped GROUP BY n",
    "Windowed": "SELECT id, v FROM S WHERE NOW - 4 < TS",
    "Synced": "SELECT g, count(*) AS n FROM S SYNC EVERY 3 GROUP BY g",
    "Joined": "SELECT A.id, B.id AS other FROM K A JOIN K B ON A.g = B.g AND A.id < B.id",
    "Different": "SELECT X.v FROM R(S) X - R(S) Y",
}


def opened(folder) -> tuple[LocalDatabase, Feed]:
    db = LocalDatabase(str(folder / "db"))
    feed = Feed(db, folder, "Raw", "id INTEGER, g VARCHAR, v INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY id")
    for name, query in VIEWS.items():
        db.execute(f"CREATE STREAMED VIEW {name} AS {query}")
    return db, feed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiet")
    db, feed = opened(folder)
    db.start()
    for chunk in CHUNKS:
        feed.send(chunk)
        settle(db)
    db.stop()
    db.run()
    logs = {name: tagged(db, name) for name in VIEWS}
    db.close()
    assert all(logs[name] for name in VIEWS if name != "Different")
    return logs


def test_views_that_come_and_go_change_no_row_of_the_others(tmp_path, undisturbed):
    """Neighbours share operators with the views under test, read them, and are dropped again."""
    db, feed = opened(tmp_path)
    db.start()
    feed.send(CHUNKS[0])
    db.execute("CREATE VIEW SameAsFiltered AS SELECT id, v FROM K WHERE v > 2")
    settle(db)
    db.execute("CREATE STREAMED VIEW Over AS SELECT g, n + 1 AS n FROM Grouped")
    db.execute(f"CREATE SINK Log FROM Grouped TO FILES '{tmp_path}/log'")
    query = db.execute("SELECT STREAMED g, count(*) AS n FROM S GROUP BY g").name
    feed.send(CHUNKS[1])
    settle(db)
    other = Feed(db, tmp_path, "Another", "x INTEGER").send("<1>2 <2>20")
    db.execute("CREATE TAGGED STREAM A OVER Another; CREATE VIEW Aside AS SELECT x FROM A")
    db.execute("DROP VIEW SameAsFiltered; DROP VIEW Over")
    db.execute(f"DROP QUERY {query}")
    feed.send(CHUNKS[2])
    settle(db)
    db.execute("DROP SOURCE Another CASCADE; DROP SINK Log")
    assert other.count == 1
    db.execute("CREATE OR REPLACE VIEW SameAsFiltered AS SELECT id, v FROM K WHERE v > 2")
    feed.send(CHUNKS[3])
    settle(db)
    db.stop()
    db.run()
    assert {name: tagged(db, name) for name in VIEWS} == undisturbed
    db.close()


def test_one_run_over_everything_gives_the_same_as_living_through_it(tmp_path, undisturbed):
    db, feed = opened(tmp_path)
    for chunk in CHUNKS:
        feed.send(chunk)
    db.run()
    assert {name: tagged(db, name) for name in VIEWS} == undisturbed
    db.close()


def test_a_statement_takes_effect_with_the_next_micro_batch(tmp_path):
    db, feed = opened(tmp_path)
    db.start()
    feed.send(CHUNKS[0])
    settle(db)
    before = db.status()["plan"]
    db.execute("CREATE STREAMED VIEW Late AS SELECT id FROM S")
    assert db.status()["plan"] == before + 1
    assert db.status()["running"]
    db.execute("DROP VIEW Late")
    with pytest.raises(TidemillError) as caught:
        db.changes("Late")
    assert caught.value.code == "TM301"
    db.close()


# ---- what a later view sees --------------------------------------------------------------------


@pytest.fixture
def living(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "id INTEGER, g VARCHAR, v INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY id")
    db.execute("CREATE STREAMED VIEW Early AS SELECT id, g, v FROM K")
    db.start()
    feed.send(CHUNKS[0])
    settle(db)
    return feed


def test_over_a_stream_it_sees_what_comes_from_then_on(db, living):
    db.execute("CREATE STREAMED VIEW FromS AS SELECT id, v FROM S; CREATE STREAMED VIEW FromK AS SELECT id, v FROM K")
    living.send(CHUNKS[1])
    settle(db)
    db.stop()
    db.run()
    assert tagged(db, "FromS") == tagged(db, "FromK") == ["+<1,9>4", "+<4,2>5", "+<2,0>6"]
    assert tagged(db, "Early")[2:] == ["+<3,a,1>3", "u<1,a,9>4", "+<4,c,2>5", "u<2,b,0>6"]


def test_over_a_view_it_begins_with_the_stored_contents(db, living):
    """Row 3 is not closed yet when the later view is created; it comes as a change."""
    assert tagged(db, "Early") == ["+<1,a,5>1", "+<2,b,7>2"]
    db.execute("CREATE STREAMED VIEW Later AS SELECT id, v FROM Early WHERE v > 1")
    db.execute("CREATE STREAMED VIEW Counts AS SELECT g, count(*) AS n FROM Early GROUP BY g")
    living.send(CHUNKS[1])
    settle(db)
    db.stop()
    db.run()
    assert tagged(db, "Later") == ["+<1,5>2", "+<2,7>2", "u<1,9>4", "+<4,2>5", "-<2,7>6"]
    assert tagged(db, "Counts") == ["+<a,1>2", "+<b,1>2", "u<a,2>3", "+<c,1>5"]


def test_over_every_kind_of_stored_view(db, living):
    db.execute("CREATE VIEW Comp AS SELECT g, count(*) AS n FROM Early GROUP BY g")
    db.execute("CREATE RSTREAM VIEW Whole AS SELECT id FROM Early SYNC EVERY 2")
    db.execute("CREATE STREAMED VIEW Grows AS SELECT id FROM S")
    living.send(CHUNKS[1])
    settle(db)
    for name, query in {
        "C": "SELECT g, n FROM Comp",
        "W": "SELECT id, count(*) AS n FROM Whole GROUP BY id",
        "G": "SELECT id FROM Grows",
    }.items():
        db.execute(f"CREATE VIEW {name} AS {query}")
    settle(db)
    living.send(CHUNKS[2])
    settle(db)
    db.stop()
    db.run()
    groups, points = "SELECT * FROM Comp ORDER BY ALL", "SELECT id, count(*) FROM Whole GROUP BY id ORDER BY ALL"
    assert rows_of(db, "SELECT * FROM C ORDER BY ALL") == rows_of(db, groups) == [("a", 1), ("b", 2), ("c", 2)]
    assert rows_of(db, "SELECT * FROM W ORDER BY ALL") == rows_of(db, points) != []
    assert rows_of(db, "SELECT * FROM G ORDER BY ALL") == [(1,), (1,), (2,), (3,), (4,), (5,)]


def test_a_later_view_on_a_later_view(db, living):
    db.execute(
        "CREATE STREAMED VIEW A AS SELECT id, v FROM Early; "
        "CREATE STREAMED VIEW B AS SELECT count(*) AS n, sum(v) AS s FROM A"
    )
    settle(db)
    db.execute("CREATE STREAMED VIEW C AS SELECT n, s FROM B")
    living.send(CHUNKS[1])
    settle(db)
    db.stop()
    db.run()
    assert tagged(db, "C")[-1] == tagged(db, "B")[-1] == "u<4,12>6"


def test_a_standing_query_gets_a_name_that_is_shown(db, living):
    made = db.execute("SELECT STREAMED id FROM S")
    again = db.execute("SELECT STREAMED id FROM S")
    assert made.kind == "query" and made.name != again.name and made.name in str(made)
    assert db.execute("SHOW QUERIES").column("name").to_pylist() == [made.name, again.name]
    living.send(CHUNKS[1])
    settle(db)
    assert tagged(db, made.name) == tagged(db, again.name) == ["+<1>4", "+<4>5"]
    db.execute(f"DROP QUERY {made.name}")
    third = db.execute("SELECT STREAMED id FROM S").name
    assert third not in (made.name, again.name), "a name is never given twice"


def test_a_name_may_be_used_again_after_drop(db, tmp_path, living):
    db.execute("DROP SOURCE Raw CASCADE")
    fresh = Feed(db, tmp_path / "again", "Raw", "id INTEGER, w VARCHAR").send("<7,x>1 <8,y>2")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW Early AS SELECT id, w FROM S")
    settle(db)
    fresh.send("<9,z>3")
    settle(db)
    db.stop()
    db.run()
    assert tagged(db, "Early") == ["+<7,x>1", "+<8,y>2", "+<9,z>3"]
    counts = {s["name"]: s["rows"] for s in db.status()["sources"]}
    assert counts == {"Raw": 3}


def test_a_view_created_while_stopped_begins_with_the_next_start(db, living):
    db.stop()
    db.execute("CREATE STREAMED VIEW Later AS SELECT id FROM Early; CREATE STREAMED VIEW FromS AS SELECT id FROM S")
    living.send(CHUNKS[1])
    db.run()
    assert tagged(db, "Later") == ["+<1>2", "+<2>2", "+<3>3", "+<4>5"]
    assert tagged(db, "FromS") == ["+<1>4", "+<4>5", "+<2>6"]


def test_start_and_run_mind_each_other(db, living):
    db.start()
    with pytest.raises(TidemillError) as caught:
        db.run()
    assert caught.value.code == "TM502"
    db.stop()
    assert not db.is_running
    with db.running() as same:
        assert same.is_running
    assert not db.is_running
