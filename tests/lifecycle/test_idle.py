"""Sources that fall silent: their newest rows are seen, and time goes on where the user says so."""

from __future__ import annotations

import time

from tests.lifecycle.pace import settle, step_until
from tests.paper.notation import Feed, tagged


def shown(db, view):
    return sorted(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").to_pylist())


def heard(changes):
    found = []
    while (table := changes.next(0)) is not None:
        found += table.column("x").to_pylist()
    return found


def test_the_first_row_is_seen_without_any_option_and_makes_nothing_late(db, tmp_path):
    db.quiet_s = 0.05
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT x, COUNT(*) AS n FROM S GROUP BY x")
    db.start()
    with db.subscribe("V") as changes:
        step_until(db, lambda: shown(db, "V") == [("a", 1)])
        settle(db)
        assert heard(changes) == [], "a subscriber gets what stays"
        feed.send("<a>5 <b>5")
        step_until(db, lambda: shown(db, "V") == [("a", 2), ("b", 1)])
        feed.send("<c>6")
        step_until(db, lambda: shown(db, "V") == [("a", 2), ("b", 1), ("c", 1)])
        assert sorted(heard(changes)) == ["a", "b"]
    assert db.status()["sources"][0]["late"] == 0


def test_what_is_shown_in_a_quiet_moment_is_computed_once(db, tmp_path):
    db.quiet_s = 0.05
    Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT x FROM S")
    db.start()
    step_until(db, lambda: shown(db, "V") == [("a",)])
    settle(db)
    before = db.batch
    time.sleep(0.2)
    settle(db)
    assert db.batch == before


def test_an_idle_source_closes_its_time(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR", options="idle_timeout = '0.1 seconds'").send("<a>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S")
    db.start()
    with db.subscribe("V") as changes:
        found = []
        step_until(db, lambda: bool(found.extend(heard(changes)) or found))
        assert found == ["a"]
    feed.send("<late>5 <b>99")
    step_until(db, lambda: "+<b>99" in tagged(db, "V"))
    assert db.status()["sources"][0]["late"] == 1


def test_when_all_are_silent_time_goes_on(db, tmp_path):
    Feed(db, tmp_path, "Raw", "x VARCHAR", options="idle_timeout = '0.2 seconds'").send("<a>5 <b>6")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw KEY x;CREATE STREAMED VIEW Silent AS SELECT x FROM S WHERE TS + 2 <= NOW"
    )
    db.start()
    began = time.monotonic()
    step_until(db, lambda: [c for c in tagged(db, "Silent") if "b" in c] == ["+<b>8"])
    assert time.monotonic() - began >= 2


def test_arrival_times_do_not_move_event_times_on(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR", options="idle_timeout = '0.1 seconds'").send("<a>5")
    (tmp_path / "pings").mkdir()
    (tmp_path / "pings" / "1.csv").write_text("host\na\n")
    db.execute(
        f"REGISTER SOURCE Pings (host VARCHAR) FROM FILES '{tmp_path}/pings/*.csv';"
        "CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM P OVER Pings;"
        "CREATE STREAMED VIEW V AS SELECT x FROM S; CREATE VIEW H AS SELECT host FROM P"
    )
    db.start()
    step_until(db, lambda: tagged(db, "V") == ["+<a>5"] and shown(db, "H") == [("a",)])
    time.sleep(0.3)
    settle(db)
    feed.send("<b>600")
    step_until(db, lambda: tagged(db, "V") == ["+<a>5", "+<b>600"])
    assert [s["late"] for s in db.status()["sources"]] == [0, 0]


def batches_in(db, seconds):
    before, until = db.batch, time.monotonic() + seconds
    while time.monotonic() < until:
        if not db.step():
            time.sleep(0.01)
    return db.batch - before


def arrivals(db, tmp_path, view):
    (tmp_path / "pings").mkdir()
    (tmp_path / "pings" / "1.csv").write_text("host\na\n")
    db.execute(
        f"REGISTER SOURCE Pings (host VARCHAR) FROM FILES '{tmp_path}/pings/*.csv';"
        f"CREATE TAGGED STREAM P OVER Pings; CREATE VIEW H AS {view}"
    )
    db.start()
    step_until(db, lambda: shown(db, "H") == [("a",)])


def test_arrival_times_make_no_batches_for_which_nothing_waits(db, tmp_path):
    arrivals(db, tmp_path, "SELECT host FROM P")
    assert batches_in(db, 1.2) == 0
    (tmp_path / "pings" / "2.csv").write_text("host\nb\n")
    step_until(db, lambda: shown(db, "H") == [("a",), ("b",)])


def test_time_passes_for_what_waits_for_it(db, tmp_path):
    arrivals(db, tmp_path, "SELECT host FROM P [WINDOW 1 SECOND]")
    step_until(db, lambda: shown(db, "H") == [])
    assert batches_in(db, 1.2) == 0


def test_the_newest_row_is_seen_while_the_time_of_others_passes(db, tmp_path):
    db.quiet_s = 0.05
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT x FROM S")
    arrivals(db, tmp_path, "SELECT host FROM P;CREATE RSTREAM VIEW R AS SELECT host FROM P SYNC EVERY 500 MILLISECONDS")
    feed.send("<b>6")
    for _ in range(5):
        time.sleep(0.55)  # a tick is due whenever the planner is asked
        db.step()
    assert shown(db, "V") == [("a",), ("b",)]


def test_time_passes_at_the_points_of_a_report(db, tmp_path):
    arrivals(db, tmp_path, "SELECT host FROM P; CREATE RSTREAM VIEW R AS SELECT host FROM P SYNC EVERY 1 HOUR")
    settle(db)
    assert batches_in(db, 1.2) <= 1, "a full hour may just have passed"


def test_what_waits_for_an_event_time_does_not_wait_for_arrivals(db, tmp_path):
    db.quiet_s = 0.05
    Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>5 <b>6")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY x;"
        "CREATE VIEW V AS SELECT x FROM S SYNC EVERY 60"
    )
    arrivals(
        db,
        tmp_path,
        "SELECT host FROM P; CREATE TAGGED STREAM PK OVER Pings KEY host;"
        "CREATE VIEW J AS SELECT host FROM PK JOIN K ON x = host",
    )
    step_until(db, lambda: shown(db, "J") == [("a",)])
    settle(db)
    assert batches_in(db, 2.4) <= 1, "a quiet moment may be seen once more"


def test_a_silent_source_rests_when_nothing_waits_for_its_time(db, tmp_path):
    Feed(db, tmp_path, "Raw", "x VARCHAR", options="idle_timeout = '0.1 seconds'").send("<a>5")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM S")
    db.start()
    step_until(db, lambda: tagged(db, "V") == ["+<a>5"])
    settle(db)
    assert batches_in(db, 1.5) == 0


def test_a_source_is_silent_whatever_others_do_that_nobody_reads_with_it(db, tmp_path):
    feed = Feed(db, tmp_path, "Raw", "x VARCHAR", options="idle_timeout = '0.2 seconds'").send("<a>5")
    other = Feed(db, tmp_path, "Other", "y VARCHAR").send("<p>900")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw KEY x; CREATE TAGGED STREAM O OVER Other;"
        "CREATE STREAMED VIEW Silent AS SELECT x FROM S WHERE TS + 1 <= NOW;"
        "CREATE STREAMED VIEW V AS SELECT x FROM S; CREATE VIEW W AS SELECT y FROM O"
    )
    db.start()
    step_until(db, lambda: tagged(db, "Silent") == ["+<a>6"])
    other.send("<q>950")
    settle(db)
    feed.send("<b>60")
    step_until(db, lambda: "+<b>60" in tagged(db, "V"))
    assert [s["late"] for s in db.status()["sources"]] == [0, 0]
