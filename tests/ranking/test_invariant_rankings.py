"""The change log of a ranking depends on the rows alone: not on cuts, shards, rules or crashes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.test_invariance import Crashing, recut, rounded, rules, run
from tests.properties.test_rescale import in_rescaled_runs
from tests.properties.test_runs import in_runs, portions
from tests.ranking.test_drawn_rankings import places, workloads


@effort(12)
@given(workload=workloads(), first=places, second=places, off=rules, data=st.data())
def test_cuts_shards_and_rules_leave_every_log_as_it_is(workload, first, second, off, data):
    sources, views = workload
    expected = rounded(run(sources, views, **first))
    others = data.draw(recut(sources))
    assert rounded(run(others, views, without=off, **second)) == expected


@effort(6)
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


@effort(6)
@given(workload=workloads(), place=places, data=st.data())
def test_shards_that_change_between_runs_change_no_answer(workload, place, data):
    sources, views = workload
    there = data.draw(portions(sources, most=3))
    shards = data.draw(st.lists(st.integers(1, 5), min_size=len(there[0]), max_size=len(there[0])))
    assert rounded(in_rescaled_runs(sources, views, there, shards, place)) == rounded(
        in_runs(sources, views, there, place, last=True)
    )
