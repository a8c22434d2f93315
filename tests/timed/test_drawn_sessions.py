"""Sessions equal the same question asked of all rows from scratch, at every moment, for any cut, crash and shards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.test_invariance import Crashing, recut, rounded, rules, run
from tests.properties.test_later_views import check_later_views
from tests.properties.test_rescale import in_rescaled_runs
from tests.properties.test_runs import in_runs, portions
from tests.properties.trial import check_directly, check_view, create, drawn_database, oracle, plain_sql
from tests.timed import drawn

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@st.composite
def workloads(draw):
    """Stream A (append-only), K (keyed, with updates and deletions), and sessions of them."""
    odd = draw(st.booleans())
    found = [draw(streams.append_only("A", odd=odd)), draw(streams.keyed("K", odd=odd))]
    return found, draw(drawn.session_views(found))


@st.composite
def towers(draw):
    """Views, sessions over streams and over these views, and views over all of them."""
    found = [draw(streams.append_only("A")), draw(streams.keyed("K"))]
    below = draw(queries.views(found, odd=False, most=2))
    sessions = draw(drawn.session_views(found, [v for v in below if not v.name.startswith("sync")]))
    above = draw(queries.views(found, odd=False, most=2, prefix="w", known=[*below, *sessions]))
    return found, [*below, *sessions, *above]


@effort(12, thorough_cases=4_000)
@given(workload=workloads(), place=places)
def test_sessions_replay_to_the_answer_of_every_moment(workload, place):
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


@effort(3, thorough_cases=1_000)
@given(workload=towers(), place=places)
def test_sessions_stand_above_and_below_other_views(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)


@effort(3, thorough_cases=500)
@given(workload=workloads(), first=places, second=places, off=rules, data=st.data())
def test_cuts_shards_and_rules_leave_every_log_as_it_is(workload, first, second, off, data):
    sources, views = workload
    expected = rounded(run(sources, views, **first))
    others = data.draw(recut(sources))
    assert rounded(run(others, views, without=off, **second)) == expected


@effort(2, thorough_cases=300)
@given(
    workload=workloads(),
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_between_any_two_steps_changes_nothing(workload, place, faults):
    sources, views = workload
    expected = run(sources, views, **place)
    Crashing.faults = list(faults)
    assert run(sources, views, kind=Crashing, **place) == expected


@effort(2, thorough_cases=300)
@given(workload=workloads(), place=places, data=st.data())
def test_shards_that_change_between_runs_change_no_answer(workload, place, data):
    sources, views = workload
    there = data.draw(portions(sources, most=3))
    shards = data.draw(st.lists(st.integers(1, 5), min_size=len(there[0]), max_size=len(there[0])))
    assert rounded(in_rescaled_runs(sources, views, there, shards, place)) == rounded(
        in_runs(sources, views, there, place, last=True)
    )


@st.composite
def growing_workloads(draw):
    """Streams, the rows of each that come in the first run, early sessions, and late ones over all of it."""
    found = [draw(streams.append_only("A", most=16)), draw(streams.keyed("K", most=16))]
    cut = draw(st.integers(0, 12))
    halves = {s.name: next((i for i, r in enumerate(s.rows) if r["tm"] > cut), len(s.rows)) for s in found}
    early = draw(drawn.session_views(found))
    return found, halves, early, draw(drawn.session_views(found, early, prefix="w"))


@effort(2, thorough_cases=500)
@given(workload=growing_workloads(), place=places)
def test_later_sessions_see_stored_contents_and_later_rows(workload, place):
    check_later_views(workload, place)
