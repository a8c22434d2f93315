"""A query that is answered from views has the log that it has without them."""

from __future__ import annotations

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import contents_of, drawn_database, log_of
from tests.views.drawn import families
from tidemill.errors import PlanProblem

_FREE = " WITH (unbounded_state = true)"
_answered: Counter[str] = Counter()


def _create(db, name, query) -> bool:
    try:
        db.execute(f"CREATE STREAMED VIEW {name} AS {query.text}{_FREE}")
    except PlanProblem:
        return False
    return True


@st.composite
def workloads(draw):
    odd = draw(st.booleans())
    sources = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    return sources, *draw(families())


@effort(32, thorough_cases=1_000)
@given(workload=workloads(), place=places)
def test_the_log_is_the_same_with_and_without_matching(workload, place):
    sources, views, queries = workload
    with drawn_database(sources, **place) as db:
        for i, view in enumerate(views):
            _create(db, f"v{i}", view)
        db.execute("SET view_matching = always")
        made = [i for i, query in enumerate(queries) if _create(db, f"answered{i}", query)]
        db.execute("SET view_matching = off")
        assert all(_create(db, f"plain{i}", queries[i]) for i in made)
        db.run()
        for i in made:
            found = db.workload.views[f"answered{i}"].answer
            assert log_of(db, f"answered{i}") == log_of(db, f"plain{i}"), queries[i].text
            assert contents_of(db, f"answered{i}") == contents_of(db, f"plain{i}")
            for part in found.parts:
                kind = "regrouped" if part.found.regroups else type(part.part).__name__
                _answered[kind] += 1
                event(kind)


def test_many_queries_were_answered():
    """The property above says something only where views answer."""
    assert sum(_answered.values()) >= 30 and _answered["regrouped"] >= 4, _answered
