"""Every view equals the same question asked of all rows from scratch, at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.trial import check_directly, check_view, create, drawn_database, oracle, plain_sql


@st.composite  # type: ignore[arg-type]
def workloads(draw, **options):
    """Streams A and B (append-only), K and L (keyed), table D, and views on them."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    if draw(st.booleans()):
        found.append(draw(streams.append_only("B", odd=odd)))
    if draw(st.booleans()):
        found.append(draw(streams.keyed("L", odd=odd)))
    if draw(st.booleans()):
        found.append(draw(streams.static_table("D")))
    return found, draw(queries.views(found, odd=odd, **options))


places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@effort(32, thorough_cases=4_500)
@given(workload=workloads(), place=places)
def test_views_replay_to_the_answer_of_every_moment(workload, place):
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
