"""Ranks, window functions and first rows equal the same question asked of all rows from scratch, at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.trial import check_directly, check_view, create, drawn_database, oracle, plain_sql
from tests.ranking import drawn


@st.composite
def workloads(draw):
    """Stream A (append-only), K (keyed, with updates and deletions), and views on them."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    return found, draw(drawn.views(found))


places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@effort(60, thorough_cases=4_000)
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
