"""A query that views answer has the log that it has without them, whatever happens around it: views that it reads are
dropped or replaced, the process ends and the database is opened again, and other views begin later.

Each query is created twice in one statement, once with matching and once without, so both begin with the same batch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.test_backfill import reopen, run_until_crash
from tests.properties.trial import contents_of, drawn_database, log_of
from tests.views.drawn import families
from tidemill.errors import PlanProblem

_FREE = " WITH (unbounded_state = true)"
_seen: Counter[str] = Counter()
_RUNS = 3


@st.composite
def lives(draw):
    """Sources; for each run, which rows are there, which views and queries are made, and what happens."""
    sources = [draw(streams.append_only("A", most=12)), draw(streams.keyed("K", most=12))]
    views, queries = draw(families())
    cuts = [sorted(draw(st.lists(st.integers(0, len(s.rows)), min_size=_RUNS, max_size=_RUNS))) for s in sources]
    starts = [draw(st.integers(0, _RUNS - 1)) for _ in queries]
    endings = [draw(st.sampled_from(("stay", "stay", "drop", "replace"))) for _ in views]
    crashes = [draw(st.one_of(st.none(), st.tuples(st.integers(0, 2), st.booleans()))) for _ in range(_RUNS)]
    return sources, views, queries, cuts, starts, endings, crashes, draw(st.booleans())


def _create(db, name, query, kind="STREAMED VIEW") -> bool:
    try:
        db.execute(f"CREATE {kind} {name} AS {query.text}{_FREE}")
    except PlanProblem:
        return False
    return True


def _create_both(db, number, query) -> bool:
    db.execute("SET view_matching = always")
    made = _create(db, f"answered{number}", query)
    db.execute("SET view_matching = off")
    assert not made or _create(db, f"plain{number}", query)
    return made


def _end(db, number, ending, other) -> None:
    """Drop a view, or let another query have its name; its readers go on with what they read."""
    if ending == "drop":
        db.execute(f"DROP VIEW v{number}")
    elif ending == "replace":
        _create(db, f"v{number}", other, "OR REPLACE STREAMED VIEW")


@effort(12, thorough_cases=500)
@given(life=lives(), place=places)
def test_the_log_is_the_same_whatever_happens_to_the_views(life, place):
    sources, views, queries, cuts, starts, endings, crashes, twice = life
    with drawn_database(sources, write=False, kind=CheckpointedDatabase, **place) as first:
        db, folder = first, Path(first.paths.root).parent
        db.execute("SET view_matching = off")
        standing = [i for i, view in enumerate(views) if _create(db, f"v{i}", view)]
        written, made = [(0, 0)] * len(sources), []
        for number in range(_RUNS):
            # Views of the birth of the queries: the same again, under other names.
            for i in standing if number else ():
                _create(db, f"v{number}x{i}", views[i])
            made += [i for i, start in enumerate(starts) if start == number and _create_both(db, i, queries[i])]
            if number == (1 if twice else 0):
                for i in standing:
                    _end(db, i, endings[i], views[0])
            for i, stream in enumerate(sources):
                done, file = written[i]
                written[i] = cuts[i][number], stream.write(folder, done, cuts[i][number], file)
            if crashes[number] is not None:
                run_until_crash(db, *crashes[number])
                db = reopen(db, place)
            db.run(final=False)
        db.run()
        _check(db, made, queries)
        if db is not first:
            db.close()


def _check(db, made, queries) -> None:
    for i in made:
        view = db.workload.views[f"answered{i}"]
        assert log_of(db, f"answered{i}") == log_of(db, f"plain{i}"), queries[i].text
        assert contents_of(db, f"answered{i}") == contents_of(db, f"plain{i}"), queries[i].text
        dropped = any(part.view.id in db.catalog.hidden for part in view.answer.parts)
        _seen["of a dropped view" if dropped else "answered"] += bool(view.answer.parts)


def test_many_queries_were_answered():
    assert _seen["answered"] >= 5 and _seen["of a dropped view"] >= 1, _seen
