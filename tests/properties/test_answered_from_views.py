"""A query that is answered from views has the log that it has without them."""

from __future__ import annotations

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import contents_of, drawn_database, log_of
from tests.views.drawn import families, queries, views
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


def _check_pairs(db, around, asked) -> None:
    """Create queries with matching and without it, run, and compare what they show."""
    for i, view in enumerate(around):
        _create(db, f"v{i}", view)
    db.execute("SET view_matching = always")
    made = [i for i, query in enumerate(asked) if _create(db, f"answered{i}", query)]
    db.execute("SET view_matching = off")
    db.execute(";".join(f"CREATE STREAMED VIEW plain{i} AS {asked[i].text}{_FREE}" for i in made))
    db.run()
    for i in made:
        found = db.workload.views[f"answered{i}"].answer
        assert log_of(db, f"answered{i}") == log_of(db, f"plain{i}"), asked[i].text
        assert contents_of(db, f"answered{i}") == contents_of(db, f"plain{i}"), asked[i].text
        _answered["compared"] += 1
        for part in found.parts:
            kind = "regrouped" if part.found.regroups else type(part.part).__name__
            _answered[kind] += 1
            event(kind)


@effort(10, thorough_cases=300)
@given(workload=workloads(), place=places)
def test_the_log_is_the_same_with_and_without_matching(workload, place):
    """Few queries, in several shards, over streams that come in many pieces."""
    sources, made, found = workload
    with drawn_database(sources, **place) as db:
        _check_pairs(db, made, found)


@st.composite
def crowds(draw):
    """Many queries over few views and rows: a pair costs a tenth of what it does alone."""
    sources = [draw(streams.append_only("A", most=16)), draw(streams.keyed("K", most=16))]
    made = draw(st.lists(views(), min_size=2, max_size=4))
    found = [draw(queries(draw(st.sampled_from(made)))) for _ in range(14)]
    return [s.recut((), None) for s in sources], made, list({query.text: query for query in found}.values())


@effort(26, thorough_cases=260)
@given(crowd=crowds())
def test_crowds_have_the_logs_that_they_have_without_matching(crowd):
    sources, made, found = crowd
    with drawn_database(sources) as db:
        _check_pairs(db, made, found)


def test_many_queries_were_answered():
    """The properties above say something only where views answer."""
    found = sum(_answered.values()) - _answered["compared"]
    assert _answered["compared"] >= 300 and found >= 120 and _answered["regrouped"] >= 16, _answered
