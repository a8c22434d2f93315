"""Ranks, window functions and first rows equal the same question asked of all rows from scratch, at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.test_later_views import check_later_views
from tests.properties.trial import check_directly, check_view, create, drawn_database, oracle, plain_sql
from tests.ranking import drawn


@st.composite
def workloads(draw):
    """Stream A (append-only), K (keyed, with updates and deletions), and views on them."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    return found, draw(drawn.views(found))


@st.composite
def towers(draw):
    """Views, rankings over streams and over these views, and views over all of them."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    below = draw(queries.views(found, odd=odd, most=2))
    rankings = draw(drawn.views(found, [v for v in below if not v.name.startswith("sync")]))
    above = draw(queries.views(found, odd=odd, most=2, prefix="w", known=[*below, *rankings]))
    return found, [*below, *rankings, *above]


places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@effort(35, thorough_cases=4_000)
@given(workload=workloads(), place=places)
def test_rankings_replay_to_the_answer_of_every_moment(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
        with plain_sql(sources) as duck:
            for view in made:
                check_directly(db, view, duck, [*truth.universe[::5], truth.universe[-1]])


@effort(12, thorough_cases=1_000)
@given(workload=towers(), place=places)
def test_rankings_stand_above_and_below_other_views(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)


@st.composite
def growing_workloads(draw):
    """Streams, the rows of each that come in the first run, early rankings, and late ones over all of it."""
    found = [draw(streams.append_only("A", most=16)), draw(streams.keyed("K", most=16))]
    cut = draw(st.integers(0, 12))
    halves = {s.name: next((i for i, r in enumerate(s.rows) if r["tm"] > cut), len(s.rows)) for s in found}
    early = draw(drawn.views(found))
    late = draw(st.one_of(drawn.views(found, early, prefix="w"), queries.views(found, odd=True, most=2, known=early)))
    return found, halves, early, late


@effort(8, thorough_cases=1_000)
@given(workload=growing_workloads(), place=places)
def test_later_rankings_see_stored_contents_and_later_rows(workload, place):
    check_later_views(workload, place)
