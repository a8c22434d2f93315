"""A view with its history that no view contains: its streams are read again beside the running job."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.network import free_port
from tests.properties.trial import contents_of, log_of
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.runtime.thresholds import changed

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{0}/in/*.csv'
  WITH (timestamp = 'at', lateness = 1);
REGISTER TABLE Names (building INTEGER, name VARCHAR) FROM FILES '{0}/names.csv';
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE TAGGED STREAM Log OVER Temps;
CREATE STREAMED VIEW Hot AS SELECT room, temp FROM Rooms WHERE temp > 80;
"""
HISTORY = " WITH (begin = 'history')"
HEAD = "room,building,temp,at\n"
QUERIES = {
    "rows": "SELECT room, building, temp FROM Rooms WHERE temp > 70",
    "groups": "SELECT building, count(*) AS n, max(temp) AS top FROM Rooms GROUP BY building",
    "points": "SELECT building, sum(temp) AS s FROM Rooms SYNC EVERY 4 GROUP BY building",
    "window": "SELECT building, count(*) AS n FROM Log [RANGE 4 SLIDE 2] GROUP BY building",
    "sliding": "SELECT room, temp FROM Log [WINDOW 5]",
    "last rows": "SELECT room, temp FROM Log [ROWS 3]",
    "whole": "SELECT count(*) AS n, sum(temp) AS s FROM Log",
    "join": "SELECT a.room, b.temp FROM Log [WINDOW 4] a JOIN Rooms b ON a.building = b.building",
    "table": "SELECT n.name, count(*) AS n FROM Rooms r JOIN Names n ON r.building = n.building GROUP BY n.name",
    "view": "SELECT l.room, h.temp FROM Log [WINDOW 6] l JOIN Hot h ON l.room = h.room",
    "bounds": "SELECT window_start, count(*) AS n FROM Log [RANGE 4 SLIDE 4] GROUP BY ALL",
}


def write(tmp_path, name, *rows):
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / name).write_text(HEAD + "".join(",".join(map(str, row)) + "\n" for row in rows))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "names.csv").write_text("building,name\n1,North\n2,South\n")
    write(tmp_path, "1.csv", (1, 1, 90, 1), (2, 1, 75, 2), (3, 2, 110, 3), (1, 1, 60, 5), (2, 2, 85, 5))
    return tmp_path


@pytest.fixture
def db(files):
    with LocalDatabase(str(files / "db")) as made:
        made.execute(SETUP.format(files))
        made.run(final=False)
        yield made


def later(files):
    """More rows: some late, one in between, the rest new."""
    write(files, "2.csv", (9, 1, 99, 1), (3, 2, 65, 6), (4, 1, 71, 9), (2, 1, 95, 12))
    write(files, "3.csv", (5, 2, 100, 12), (1, 1, 79, 15))


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("final", [False, True], ids=["open", "over"])
def test_the_log_is_the_suffix_of_the_twins(files, query, final):
    with LocalDatabase(str(files / "db"), cores=1) as db:
        db.execute(SETUP.format(files))
        db.execute(f"CREATE STREAMED VIEW Twin AS {query} WITH (retain = '40000 days')")
        db.run(final=final)
        db.execute(f"CREATE STREAMED VIEW Past AS {query}{HISTORY}")
        moment = db.workload.views["past"].entry.moment
        assert moment == (5_000_000 if final else 3_999_999)
        later(files)
        db.run()
        twin = log_of(db, "Twin")
        assert [c for c in log_of(db, "Past") if c.time > moment] == [c for c in twin if c.time > moment]
        assert {c.tag for c in log_of(db, "Past") if c.time <= moment} <= {"+"}
        assert {c.time for c in log_of(db, "Past")} >= {c.time for c in twin if c.time > moment}
        assert contents_of(db, "Past") == contents_of(db, "Twin")


def test_a_record_is_a_dead_letter_once(files, db):
    db.run()
    later(files)
    db.run()
    letters = db.query("SELECT * FROM dead_letters").num_rows
    assert letters
    db.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
    db.run()
    assert db.query("SELECT * FROM dead_letters").num_rows == letters
    assert db.query("SELECT room FROM Past ORDER BY room")["room"].to_pylist() == [1, 2, 4, 5]


def test_rows_that_an_earlier_end_made_late_stay_late(files, db):
    """The end of a run closes times that the rows alone leave open: a second reading finds the same rows late."""
    db.run()
    write(files, "2.csv", (8, 1, 99, 5), (7, 1, 99, 9))  # within the lateness, but the end at 5 was closed
    db.run()
    assert db.status()["sources"][0]["late"] == 1
    db.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
    db.run()
    assert 8 not in db.query("SELECT room FROM Past")["room"].to_pylist()


# ---- beside a live job ---------------------------------------------------------------------------


def steps(db, most=50):
    """Micro-batches until there is nothing more to do."""
    for count in range(most):
        if not db.step():
            return count
    raise AssertionError("the job does not come to rest")


@pytest.fixture
def live(files, db):
    write(files, "2.csv", *((n % 7, n % 2, 60 + n, 6 + n) for n in range(40)))
    db.start()
    steps(db)
    with changed(second_rows=4):
        yield db


def test_other_views_go_on_and_nothing_is_shown_before_it_has_caught_up(files, live):
    live.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
    shares = []
    for number in range(3):
        write(files, f"3{number}.csv", (9, 1, 100 + number, 50 + 2 * number))
        assert live.step()
        assert max(temp for _, temp in contents_of(live, "Hot")) == 99 + number
        shares.append(next(v for v in live.status()["views"] if v["name"] == "Past")["backfilled"])
        assert live.query("SELECT * FROM Past").num_rows == 0
    assert shares == sorted(set(shares)) and 0 < shares[0] < shares[-1] < 1
    shown = live.execute("SHOW VIEWS").to_pylist()
    assert f"complete, backfilling {int(shares[-1] * 100)} %" in [v["detail"] for v in shown]
    assert "backfilling" in str(live.execute("EXPLAIN WHY Past").to_pylist())
    steps(live)
    assert next(v for v in live.status()["views"] if v["name"] == "Past")["backfilled"] is None
    assert live.query("SELECT * FROM Past").num_rows == 8


def test_records_are_decoded_once_after_it_has_caught_up(files, live):
    live.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
    steps(live)
    write(files, "4.csv", (1, 1, 100, 60))
    end = live.plan()
    (assignment,) = live.planner.assignments(live.offset, end)
    (work,) = assignment.work
    assert work.source == "Temps" and len(work.also) == 1
    live.finish(end)


def test_views_that_begin_together_share_a_second_reading(files, live):
    both = f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}; CREATE VIEW Sums AS {QUERIES['groups']}{HISTORY}"
    live.execute(both)
    live.step()
    live.execute(f"CREATE VIEW Third AS {QUERIES['points']}{HISTORY}")
    live.step()
    assert len([name for name in live.offset["sources"] if "#" in name]) == 2
    live.execute("DROP VIEW Past")
    live.execute("DROP VIEW Third")
    live.step()
    assert len([name for name in live.offset["sources"] if "#" in name]) == 1
    steps(live)
    assert live.query("SELECT sum(n) AS n FROM Sums")["n"].to_pylist() == [7]
    live.execute("DROP VIEW Sums")
    live.step()
    assert not [name for name in live.offset["sources"] if "#" in name]


def test_a_view_on_a_view_that_is_backfilled_waits_for_it(files, live):
    live.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}; CREATE VIEW Same AS SELECT count(*) AS n FROM Past")
    live.step()
    live.execute("CREATE VIEW Later AS SELECT count(*) AS n FROM Past")
    steps(live)
    for name in ("Same", "Later"):
        assert live.query(f"SELECT n FROM {name}")["n"].to_pylist() == [live.query("SELECT * FROM Past").num_rows]


def test_a_file_that_is_lost_stops_only_the_view_that_needs_it(files, live):
    live.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
    live.step()
    lost = (files / "in" / "2.csv").read_text()
    (files / "in" / "2.csv").unlink()
    write(files, "5.csv", (9, 1, 120, 70))
    steps(live)
    stopped = {v["name"]: v["stopped"] for v in live.status()["views"]}
    assert "TM401" in stopped["Past"] and stopped["Hot"] is None
    with pytest.raises(PlanProblem, match="TM223"):
        live.execute("RESTART VIEW Past")
    assert "past" in live.workload.views
    (files / "in" / "2.csv").write_text(lost)
    live.execute("RESTART VIEW Past")
    steps(live)
    assert live.query("SELECT * FROM Past").num_rows == 7


def test_the_columns_of_a_source_stay_while_it_is_read_again(files, tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.json").write_text('{"id": 1}\n{"id": 2}\n')
    with LocalDatabase(str(files / "db")) as db:
        db.execute(f"REGISTER SOURCE R (id INTEGER) FROM FILES '{tmp_path}/rows/*.json'; CREATE TAGGED STREAM S OVER R")
        db.execute("CREATE VIEW N AS SELECT count(*) AS n FROM S")
        db.run()
        db.execute(f"CREATE VIEW Past AS SELECT id FROM S{HISTORY}")
        with pytest.raises(CatalogProblem, match="TM309"):
            db.execute("ALTER SOURCE R ADD COLUMN x INTEGER")
        db.run()
        assert db.query("SELECT * FROM Past").num_rows == 2
        db.execute("ALTER SOURCE R ADD COLUMN x INTEGER")
        with pytest.raises(PlanProblem, match="TM223") as refused:
            db.execute(f"CREATE VIEW Other AS SELECT id, x FROM S{HISTORY}")
        assert "column x was added" in refused.value.detail


def test_it_goes_on_after_it_was_closed(files):
    with CheckpointedDatabase(str(files / "db")) as db, changed(second_rows=2):
        db.execute(SETUP.format(files))
        db.run(final=False)
        db.start()
        db.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")
        db.step()
    with CheckpointedDatabase(str(files / "db")) as db:
        node = db.workload.views["past"].node
        db.run()
        assert sorted(db.query("SELECT room FROM Past")["room"].to_pylist()) == [2, 3]
        assert db.workload.views["past"].node is node


# ---- what is read again, and what is not ---------------------------------------------------------


def refusal(db, query=QUERIES["rows"]):
    with pytest.raises(PlanProblem, match="TM223") as refused:
        db.execute(f"CREATE VIEW Past AS {query}{HISTORY}")
    assert "past" not in db.workload.views
    return refused.value.detail


def test_files_that_were_removed_or_changed_are_not_read_again(files, db):
    before = (files / "in" / "1.csv").read_text()
    (files / "in" / "1.csv").write_text(before.replace("90", "91"))
    detail = refusal(db)
    assert "1.csv" in detail and "nearest is Hot" in detail
    (files / "in" / "1.csv").unlink()
    assert "1.csv" in refusal(db)
    (files / "in" / "1.csv").write_text(before)
    db.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}")


def test_the_clock_is_not_read_again(db):
    query = "SELECT C.TimePoint, l.room FROM R(clockStr) C JOIN Log [WINDOW 3] l ON l.temp = C.TimePoint"
    with pytest.raises(PlanProblem, match="TM223") as refused:
        db.execute(f"CREATE VIEW Past AS {query} WITH (begin = 'history', unbounded_state = true)")
    assert "clockStr is not read again" in refused.value.detail


def test_a_view_that_has_not_seen_every_row_is_not_part_of_a_history(files, db):
    db.execute("CREATE STREAMED VIEW Cold AS SELECT room, temp FROM Rooms WHERE temp < 70")
    db.run(final=False)
    detail = refusal(db, "SELECT l.room, c.temp FROM Log [WINDOW 6] l JOIN Cold c ON l.room = c.room")
    assert 'view "Cold" has not seen every row' in detail


def test_a_port_is_not_read_again(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE P (v INTEGER) FROM PORT {free_port()}; CREATE TAGGED STREAM S OVER P")
        db.execute("CREATE VIEW N AS SELECT count(*) AS n FROM S")
        db.run()
        assert "until it was read" in refusal(db, "SELECT v FROM S")


@pytest.mark.parametrize(
    ("option", "reason"), [("ahead = '1 hour'", "option ahead"), ("shed_updates = 1", "shed")], ids=["ahead", "shed"]
)
def test_what_depends_on_the_time_of_arrival_is_not_read_again(tmp_path, option, reason):
    (tmp_path / "1.csv").write_text("k,at\n1,2026-01-01\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE R (k INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/*.csv'"
            f" WITH (timestamp = 'at', {option})"
        )
        db.execute("CREATE TAGGED STREAM S OVER R KEY k; CREATE VIEW N AS SELECT count(*) AS n FROM S")
        db.run(final=False)
        assert reason in refusal(db, "SELECT k FROM S")


def test_generated_rows_and_rows_without_event_times_are_read_again(tmp_path):
    (tmp_path / "1.csv").write_text("v\n1\n2\n3\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE R (v INTEGER) FROM FILES '{tmp_path}/*.csv'; CREATE TAGGED STREAM S OVER R")
        db.execute("REGISTER SOURCE G (v INTEGER) FROM GENERATE (rows = 900, rate = 10); CREATE TAGGED STREAM T OVER G")
        db.execute("CREATE VIEW N AS SELECT count(*) AS n FROM S; CREATE VIEW M AS SELECT count(*) AS n FROM T")
        db.run()
        db.execute(f"CREATE VIEW A AS SELECT v FROM S{HISTORY}; CREATE VIEW B AS SELECT sum(v) AS s FROM T{HISTORY}")
        db.execute("CREATE VIEW Now AS SELECT sum(v) AS s FROM T")
        (tmp_path / "2.csv").write_text("v\n4\n")
        db.run()
        assert sorted(db.query("SELECT v FROM A")["v"].to_pylist()) == [1, 2, 3, 4]
        assert db.query("SELECT s > 1000 AS b FROM B")["b"].to_pylist() == [True]


def test_a_source_without_readers_is_read_again(files, db):
    db.execute("DROP VIEW Hot")
    db.execute("CREATE VIEW Other AS SELECT name FROM Names")
    db.run()
    db.execute(f"CREATE VIEW Past AS {QUERIES['groups']}{HISTORY}")
    later(files)
    db.run()
    assert sorted(db.query("SELECT building, n FROM Past").to_pylist(), key=str) == [
        {"building": 1, "n": 3},
        {"building": 2, "n": 2},
    ]


def test_a_view_that_contains_the_query_is_read_and_not_the_files(db):
    db.execute(f"CREATE VIEW Past AS SELECT room FROM Rooms WHERE temp > 90{HISTORY}")
    assert db.workload.views["past"].entry.moment is None
    db.execute(f"CREATE VIEW More AS SELECT room FROM Rooms WHERE temp > 70{HISTORY}")
    assert db.workload.views["more"].entry.moment is not None


def test_a_query_over_a_view_with_history_is_not_answered_from_one_without(db):
    """Both views have the same text and birth; only one of them has seen every row."""
    query = "SELECT room, building, temp FROM Rooms WHERE temp > 0"
    db.execute(
        f"SET view_matching = always; CREATE VIEW Now AS {query}; CREATE VIEW Past AS {query}{HISTORY};"
        "CREATE VIEW Reader AS SELECT room FROM Past WHERE temp > 70"
    )
    db.run()
    assert db.query("SELECT * FROM Now").num_rows == 0
    assert sorted(db.query("SELECT room FROM Reader")["room"].to_pylist()) == [2, 3]


def test_explain_says_that_the_streams_are_read_again(db):
    text = str(db.explain(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}"))
    assert "reads its streams again from the beginning" in text
    assert "from the beginning" in db.execute(f"CREATE VIEW Past AS {QUERIES['rows']}{HISTORY}").message
