"""`begin = 'history'` answered from views: the log is the end of that of the twin, as where the streams are read again.

A view that answers must not change the log: what it holds of later times than the query's last point is not shown yet.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from tests.harness import LocalDatabase
from tests.network import free_port
from tests.properties.trial import contents_of, log_of
from tests.reference.logs import Change, replay
from tidemill.errors import PlanProblem

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{0}/in/*.csv'
  WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE TAGGED STREAM Log OVER Temps;
"""
HISTORY = " WITH (begin = 'history', unbounded_state = true)"
KEPT = " WITH (retain = '40000 days', unbounded_state = true)"  # a view that does not answer
BEFORE = ((1, 1, 90, 1), (2, 1, 101, 2), (3, 2, 110, 3), (3, 2, 111, 5), (1, 1, 120, 6), (2, 1, 60, 7), (4, 2, 105, 7))
AFTER = ((3, 2, 99, 8), (5, 2, 130, 9), (4, 2, 70, 11), (1, 1, 125, 14), (6, 1, 101, 17), (7, 1, 105, 21))


def write(folder, name, rows):
    (folder / "in").mkdir(exist_ok=True)
    text = "room,building,temp,at\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "in" / name).write_text(text)


def suffix(log, moment):
    """The log of a twin from a moment on, with what is there then as insertions."""
    ((_, there),) = replay([c for c in log if c.time <= moment], [moment])
    begun = Counter({Change(moment, "+", row): n for row, n in there.items()})
    return begun + Counter(c for c in log if c.time > moment)


# name: (view, query, whether the view answers it)
CASES = {
    "every change": (
        "SELECT room, temp FROM Rooms WHERE temp > 80",
        "SELECT room, temp FROM Rooms WHERE temp > 100",
        True,
    ),
    "coarser points": (
        "SELECT room, temp FROM Rooms SYNC EVERY 2 WHERE temp > 80",
        "SELECT room, temp FROM Rooms SYNC EVERY 4 WHERE temp > 100",
        True,
    ),
    "points over every change": (
        "SELECT room, building, temp FROM Rooms WHERE temp > 80",
        "SELECT building, count(*) AS n, max(temp) AS m FROM Rooms SYNC EVERY 3 WHERE temp > 100 GROUP BY building",
        True,
    ),
    "the same points": (
        "SELECT room, temp FROM Rooms SYNC EVERY 4 WHERE temp > 80",
        "SELECT room FROM Rooms SYNC EVERY 4 WHERE temp > 100",
        True,
    ),
    "groups": (
        "SELECT building, room, count(*) AS n, sum(temp) AS s FROM Rooms SYNC EVERY 2 GROUP BY building, room",
        "SELECT building, sum(temp) AS s FROM Rooms SYNC EVERY 6 GROUP BY building",
        True,
    ),
    "a narrower window at points": (
        "SELECT room, temp, TS FROM Log [WINDOW 6] SYNC EVERY 2",
        "SELECT room, temp FROM Log [WINDOW 3] SYNC EVERY 4",
        True,
    ),
    "a periodic window": ("SELECT room, temp, TS FROM Log", "SELECT room, temp FROM Log [RANGE 6 SLIDE 2]", True),
    "a union of points": (
        "SELECT room, temp FROM Rooms WHERE temp > 80",
        "SELECT room FROM R(Rooms, Either) WHERE temp > 100",
        True,
    ),
    "lists": (
        "SELECT room, building, temp FROM Log [WINDOW 9]",
        "SELECT building, string_agg(CAST(temp AS VARCHAR), ',') AS l FROM Log [WINDOW 9] GROUP BY building",
        False,
    ),
}
EITHER = "CREATE VIEW Either AS SELECT C.TimePoint FROM R(clockStr) C WHERE TimePoint % 4 = 1 OR TimePoint % 6 = 0;"


def compare(folder, view, query, kind="STREAMED", output="STREAMED", final=False, again=False):
    """Create a view and a twin, and later the query with its history; the views that answer it. `again` opens the
    database once more.
    """
    write(folder, "1.csv", BEFORE)
    with LocalDatabase(str(folder / "db")) as db:
        db.execute(SETUP.format(folder) + EITHER)
        db.execute(f"CREATE {kind} VIEW V AS {view} WITH (unbounded_state = true)")
        db.execute(f"CREATE {output} VIEW Twin AS {query}{KEPT}")
        db.run(final=final)
        db.execute(f"CREATE {output} VIEW Past AS {query}{HISTORY}")
        found = db.workload.views["past"].answer
        moment = found.shown_from if found.shown_from is not None else 7_000_000 if final else 6_999_999
        if again:
            node = db.workload.views["past"].node
            state = db.blobs, db.offset, db.batch
            db.close()
            db = LocalDatabase(str(folder / "db"))
            db.blobs, db.offset, db.batch = state
            assert db.workload.views["past"].node is node
        write(folder, "2.csv", AFTER)
        db.run()
        if output == "STREAMED":
            twin, past = (log_of(db, name) for name in ("Twin", "Past"))
            assert Counter(past) == suffix(twin, moment), f"{moment}\n{past}\n{twin}"
        assert contents_of(db, "Past") == contents_of(db, "Twin")
        db.close()
        return [part.view.name for part in found.parts]


@pytest.mark.parametrize("final", [False, True], ids=["open", "over"])
@pytest.mark.parametrize(("view", "query", "answers"), CASES.values(), ids=CASES)
def test_the_log_is_the_suffix_of_the_twins(tmp_path, view, query, answers, final):
    assert compare(tmp_path, view, query, final=final) == ["V"] * answers


COARSER = CASES["coarser points"][:2]


def test_a_decision_is_repeated_before_its_first_batch(tmp_path):
    assert compare(tmp_path, *COARSER, again=True) == ["V"]


@pytest.mark.parametrize("output", ["ISTREAM", "DSTREAM", "RSTREAM"])
def test_outputs_that_show_when_rows_came_are_read_again(tmp_path, output):
    """The contents of a view do not say it."""
    assert compare(tmp_path, *COARSER, output=output) == []


@pytest.mark.parametrize("name", ["every change", "the same points", "coarser points", "groups"])
def test_a_complete_view_answers_where_its_contents_are_those_of_the_last_point(tmp_path, name):
    view, query, _ = CASES[name]
    answers = name in ("every change", "the same points")
    assert compare(tmp_path, view, query, kind="COMPLETE") == ["V"] * answers


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM Rooms WHERE temp > 500",
        "SELECT count(*) AS n, max(temp) AS m FROM R(Rooms, Either) WHERE temp > 120",
        "SELECT room FROM Rooms SYNC EVERY 3 ROWS WHERE temp > 80",
    ],
)
def test_what_does_not_follow_from_contents_is_read_again(tmp_path, query):
    write(tmp_path, "1.csv", BEFORE)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path) + EITHER)
        db.execute("CREATE STREAMED VIEW V AS SELECT room, building, temp FROM Rooms WHERE temp > 80")
        db.run(final=False)
        with suppress(PlanProblem):  # points of SYNC ON are not read again either
            db.execute(f"CREATE STREAMED VIEW Past AS {query}{HISTORY}")
            assert db.workload.views["past"].entry.moment is not None


def test_a_view_that_began_after_the_last_point_does_not_answer(tmp_path):
    """Its log has what came before as one change."""
    view, query = COARSER
    write(tmp_path, "1.csv", BEFORE)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.execute(f"CREATE VIEW First AS {view}; CREATE STREAMED VIEW Twin AS {query}{KEPT}")
        db.run(final=False)
        db.execute(f"CREATE STREAMED VIEW Second AS {view}{HISTORY}")
        db.run(final=False)
        db.execute("DROP VIEW First")
        db.execute(f"CREATE STREAMED VIEW Past AS {query}{HISTORY}")
        found = db.workload.views["past"].answer
        assert found.moment is not None and found.refused["Second"] == "it began after the last point of the query"
        write(tmp_path, "2.csv", AFTER)
        db.run()
        assert Counter(log_of(db, "Past")) == suffix(log_of(db, "Twin"), found.moment)


def test_a_view_that_began_with_contents_answers_where_it_has_the_last_point(tmp_path):
    view, query = COARSER
    write(tmp_path, "1.csv", BEFORE)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        third = query.replace("EVERY 4", "EVERY 8")
        db.execute(f"CREATE STREAMED VIEW First AS {view}; CREATE STREAMED VIEW Twin AS {third}{KEPT}")
        db.run(final=False)
        db.execute(f"CREATE STREAMED VIEW Second AS {query}{HISTORY}")
        db.run(final=False)
        db.execute("DROP VIEW First")
        db.execute(f"CREATE STREAMED VIEW Early AS {third}{HISTORY}")
        assert not db.workload.views["early"].answer.parts
        write(tmp_path, "2.csv", AFTER)
        db.run(final=False)
        db.execute("DROP VIEW Early")
        db.execute(f"CREATE STREAMED VIEW Late AS {third} AND room < 9{HISTORY}")
        found = db.workload.views["late"].answer
        assert [part.view.name for part in found.parts] == ["Second"]
        db.execute("DROP VIEW Second")
        write(tmp_path, "3.csv", [(1, 1, 140, 25), (8, 1, 150, 33)])
        db.run()
        assert Counter(log_of(db, "Late")) == suffix(log_of(db, "Twin"), found.shown_from)


def test_a_refusal_says_that_a_streamed_view_would_do(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE P (v INTEGER) FROM PORT {free_port()}; CREATE TAGGED STREAM S OVER P")
        db.execute("CREATE VIEW All_ AS SELECT v FROM S")
        db.run()
        with pytest.raises(PlanProblem, match="TM223") as refused:
            db.execute("CREATE VIEW Past AS SELECT v FROM S SYNC EVERY 2 SECONDS WITH (begin = 'history')")
        assert "nearest is All_: what it held at the last point of the query is not kept" in refused.value.detail
