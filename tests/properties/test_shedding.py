"""Load shedding: views over a capped source equal views over the capped input, however it is cut."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.test_answers import places, workloads
from tests.properties.test_invariance import Crashing, recut, rounded, run
from tests.properties.test_rescale import in_rescaled_runs, rescaled_workloads
from tests.properties.test_runs import in_runs
from tests.properties.trial import check_view, create, drawn_database, oracle

caps = st.sampled_from([1, 1, 2, 3])


def capped(sources, cap):
    """The keyed streams among them with a cap on updates."""
    return [replace(s, shed=cap) if s.key else s for s in sources]


@effort(10, thorough_cases=1_500)
@given(workload=workloads(), cap=caps, place=places)
def test_views_equal_those_over_the_capped_input(workload, cap, place):
    sources, views = workload
    sources = capped(sources, cap)
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)


@effort(5)
@given(workload=workloads(), cap=caps, first=places, second=places, data=st.data())
def test_what_is_shed_does_not_depend_on_cuts_and_shards(workload, cap, first, second, data):
    sources, views = workload
    sources = capped(sources, cap)
    expected = rounded(run(sources, views, **first))
    others = data.draw(recut(sources))
    assert rounded(run(others, views, **second)) == expected


@effort(4)
@given(workload=workloads(), place=places)
def test_a_cap_that_is_never_reached_changes_nothing(workload, place):
    sources, views = workload
    assert rounded(run(capped(sources, 1_000), views, **place)) == rounded(run(sources, views, **place))


@effort(4)
@given(
    workload=workloads(most=3),
    cap=caps,
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_sheds_the_same_records(workload, cap, place, faults):
    sources, views = workload
    sources = capped(sources, cap)
    expected = run(sources, views, **place)
    Crashing.faults = list(faults)
    assert run(sources, views, kind=Crashing, **place) == expected


@effort(2)
@given(work=rescaled_workloads(), cap=caps, place=places)
def test_shards_that_change_keep_what_was_counted(work, cap, place):
    sources, views, there, shards = work
    sources = capped(sources, cap)
    found = in_rescaled_runs(sources, views, there, shards, place)
    assert rounded(found) == rounded(in_runs(sources, views, there, place, last=True))
