"""`begin = 'history'`: the log of a later query is the end of the log of its twin, which stood from the beginning."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import contents_of, drawn_database, log_of
from tests.reference.logs import Change, replay
from tests.views.drawn import families
from tidemill.engine.views.history import begins_with_history
from tidemill.errors import PlanProblem
from tidemill.plan.physical import BEGINNING

_FREE, _HISTORY = " WITH (unbounded_state = true)", " WITH (unbounded_state = true, begin = 'history')"
_begun: Counter[str] = Counter()


def suffix(log, moment):
    """The log of a twin from a moment on, with what is there then as insertions."""
    ((_, there),) = replay([c for c in log if c.time <= moment], [moment])
    begun = Counter({Change(moment, "+", row): n for row, n in there.items()})
    return begun + Counter(c for c in log if c.time > moment)


def moment_of(db, name):
    """When a view was created, as it shows it: asked before the next batch."""
    found = db.workload.views[name].answer
    if found.shown_from is not None or not found.parts:
        return found.shown_from if found.shown_from is not None else BEGINNING
    return max(db.workload.answering.last_closed(by_name(db, part.view.name)) for part in found.parts)


def by_name(db, name):
    return db.workload.views[name.lower()]


def create(db, name, query, options):
    try:
        db.execute(f"CREATE STREAMED VIEW {name} AS {query.text}{options}")
    except PlanProblem:
        return False
    return True


@st.composite
def workloads(draw):
    sources = [draw(streams.append_only("A", most=16)), draw(streams.keyed("K", most=16))]
    return sources, draw(st.integers(0, 12)), *draw(families())


@effort(12)
@given(workload=workloads(), place=places)
def test_history_is_what_the_twin_has(workload, place):
    sources, cut, views, queries = workload
    halves = {s.name: next((i for i, row in enumerate(s.rows) if row["tm"] > cut), len(s.rows)) for s in sources}
    with drawn_database(sources, write=False, **place) as db:
        folder = Path(db.paths.root).parent
        db.execute("SET view_matching = off")
        for i, view in enumerate(views):
            create(db, f"v{i}", view, _FREE)
        made = [i for i, query in enumerate(queries) if create(db, f"twin{i}", query, _FREE)]
        for i in made:  # the twins themselves are no views to begin with
            db.workload.views[f"twin{i}"].entry.options["retain"] = "100 years"
        files = {s.name: s.write(folder, 0, halves[s.name]) for s in sources}
        db.run(final=False)
        made = [i for i in made if create(db, f"later{i}", queries[i], _HISTORY)]
        moments = {i: moment_of(db, f"later{i}") for i in made}
        for s in sources:
            s.write(folder, halves[s.name], None, files[s.name])
        db.run()
        for i in made:
            expected = suffix(log_of(db, f"twin{i}"), moments[i])
            assert Counter(log_of(db, f"later{i}")) == expected, f"{queries[i].text}\nmoment {moments[i]}"
            assert contents_of(db, f"later{i}") == contents_of(db, f"twin{i}"), queries[i].text
            if db.workload.views[f"later{i}"].answer.parts:
                _begun["answered"] += 1


def test_some_queries_began_with_history():
    assert _begun["answered"] >= 8, _begun


SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{}/*.csv'
  WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE STREAMED VIEW Hot AS SELECT room, building, temp FROM Rooms SYNC EVERY 2 SECONDS WHERE temp > 80;
"""


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as made:
        made.execute(SETUP.format(tmp_path))
        (tmp_path / "1.csv").write_text("room,building,temp,at\n1,1,90,1\n2,1,101,2\n3,2,110,3\n")
        made.run(final=False)
        yield made


QUERY = "SELECT room, temp FROM Rooms SYNC EVERY 4 SECONDS WHERE temp > 100"


def test_a_later_query_begins_with_the_rows_of_a_view(db, tmp_path):
    db.execute(f"CREATE VIEW Past AS {QUERY} WITH (begin = 'history'); CREATE VIEW Now AS {QUERY}")
    (tmp_path / "2.csv").write_text("room,building,temp,at\n4,1,105,8\n")
    db.run()
    assert db.query("SELECT room FROM Past ORDER BY room")["room"].to_pylist() == [2, 3, 4]
    assert db.query("SELECT room FROM Now ORDER BY room")["room"].to_pylist() == [4]


def test_explain_says_what_a_query_would_begin_with(db):
    wanted = f"CREATE STREAMED VIEW Past WITH (begin = 'history') AS {QUERY}"
    assert "  begins  with what Hot has, 2 rows as of 2 (history)\n" in str(db.execute(f"EXPLAIN {wanted}"))
    db.execute(wanted)
    assert "  begins  with what the view held at its creation (history)\n" in str(db.execute("EXPLAIN VIEW Past"))


def test_what_no_view_contains_is_refused_where_the_rows_are_gone(db, tmp_path):
    (tmp_path / "1.csv").unlink()
    with pytest.raises(PlanProblem, match="TM223") as refused:
        db.execute("CREATE VIEW Past AS SELECT room FROM Rooms WHERE temp > 70 WITH (begin = 'history')")
    assert "Hot" in refused.value.detail and "misses some of every change" in refused.value.detail
    db.execute("SET begin = history")
    with pytest.raises(PlanProblem, match="TM223"):
        db.execute("CREATE VIEW Past AS SELECT room FROM Rooms WHERE temp > 70")


def test_a_later_view_is_complete_only_with_history(db, tmp_path):
    db.execute("CREATE VIEW Few AS SELECT room, temp FROM Rooms WHERE temp > 0")
    db.run(final=False)
    (tmp_path / "1.csv").unlink()
    with pytest.raises(PlanProblem, match="TM223"):
        db.execute("CREATE VIEW Past AS SELECT room FROM Rooms WHERE temp > 5 WITH (begin = 'history')")


def test_a_source_that_was_not_read_has_no_history(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path).replace("temp > 80", "temp > 80 AND room > 0"))
        db.execute("CREATE VIEW Past AS SELECT room FROM Rooms WHERE temp > 70 WITH (begin = 'history')")
        assert not db.workload.views["past"].answer.parts


def test_the_decision_is_repeated_at_opening(db, tmp_path):
    db.execute(f"CREATE VIEW Past AS {QUERY} WITH (begin = 'history')")
    db.execute("DROP VIEW Hot")
    node = db.workload.views["past"].node
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert again.workload.views["past"].node is node


def test_wrong_beginnings_are_refused(db):
    with pytest.raises(PlanProblem, match="TM307"):
        db.execute("CREATE VIEW Past AS SELECT room FROM Rooms WITH (begin = 'yesterday')")
    with pytest.raises(PlanProblem, match="TM217"):
        db.execute("SET begin = yesterday")


@pytest.mark.parametrize("statement", ["RESTART VIEW Past; RESTART VIEW Later", "RESTART SOURCE Temps"])
def test_a_view_that_begins_again_begins_as_it_was_created_whatever_the_setting_is_now(db, statement):
    db.execute("SET begin = 'history'; CREATE VIEW Past AS SELECT room FROM Rooms; SET begin = 'creation'")
    db.execute("CREATE VIEW Later AS SELECT room FROM Rooms")
    db.run(final=False)
    for name in ("past", "later"):
        db.workload.stopped[by_name(db, name).entry.id] = {"reason": "an operator failed"}
    first, second = statement.split("; ") if ";" in statement else (statement, "")
    db.execute(first)
    db.execute(f"SET begin = 'history'; {second}; SET begin = 'creation'")
    assert [begins_with_history(by_name(db, name).entry.options) for name in ("past", "later")] == [True, False]
    db.run(final=False)
    assert sorted(db.query("SELECT room FROM Past")["room"].to_pylist()) == [1, 2, 3]
    assert sorted(db.query("SELECT room FROM Later")["room"].to_pylist()) == (
        [1, 2, 3] if "SOURCE" in statement else []
    )
