"""Table functions and joins with the past equal the same question asked of all rows from scratch, at every moment, and
by DuckDB in its own words; neither cuts, shards, rules nor crashes change a log.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_invariance import Crashing, recut, rounded, rules, run
from tests.properties.test_rescale import in_rescaled_runs
from tests.properties.test_runs import in_runs, portions
from tests.properties.trial import check_directly, check_view, create, drawn_database, oracle, plain_sql, watch
from tests.timed import drawn

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@st.composite
def windowed(draw):
    """Streams A (append-only) and K (keyed), and table functions over them."""
    found = [draw(streams.append_only("A")), draw(streams.keyed("K"))]
    return found, draw(drawn.windowed_views(found))


@st.composite
def past(draw):
    """Streams A and B (append-only) and K (keyed), and joins of A with the past of the others."""
    found = [draw(streams.append_only("A")), draw(streams.append_only("B")), draw(streams.keyed("K"))]
    return found, draw(drawn.past_views(found[2]))


def check(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        watch(db, sources)
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
        with plain_sql(sources) as duck:
            for view in made:
                check_directly(db, view, duck, [*truth.universe[::5], truth.universe[-1]])


@effort(8, thorough_cases=3_000)
@given(workload=windowed(), place=places)
def test_table_functions_replay_to_the_answer_of_every_moment(workload, place):
    check(workload, place)


@effort(8, thorough_cases=3_000)
@given(workload=past(), place=places)
def test_joins_with_the_past_replay_to_the_answer_of_every_moment(workload, place):
    check(workload, place)


@effort(3, thorough_cases=500)
@given(workload=st.one_of(windowed(), past()), first=places, second=places, off=rules, data=st.data())
def test_cuts_shards_and_rules_leave_every_log_as_it_is(workload, first, second, off, data):
    sources, views = workload
    expected = rounded(run(sources, views, **first))
    others = data.draw(recut(sources))
    assert rounded(run(others, views, without=off, **second)) == expected


@effort(2, thorough_cases=300)
@given(
    workload=st.one_of(windowed(), past()),
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_between_any_two_steps_changes_nothing(workload, place, faults):
    sources, views = workload
    expected = run(sources, views, **place)
    Crashing.faults = list(faults)
    assert run(sources, views, kind=Crashing, **place) == expected


@effort(2, thorough_cases=300)
@given(workload=past(), place=places, data=st.data())
def test_shards_that_change_between_runs_change_no_answer(workload, place, data):
    sources, views = workload
    there = data.draw(portions(sources, most=3))
    shards = data.draw(st.lists(st.integers(1, 5), min_size=len(there[0]), max_size=len(there[0])))
    assert rounded(in_rescaled_runs(sources, views, there, shards, place)) == rounded(
        in_runs(sources, views, there, place, last=True)
    )
