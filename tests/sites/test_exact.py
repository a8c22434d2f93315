"""Sites that ship what matches answer as one site would: any algorithm, any network, and a change of algorithm."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from tests.properties.effort import effort
from tests.sites.cases import bands, leading, leaving, many_sites, run_case, two_sites

HAPPENED: Counter[str] = Counter()


@effort(350, thorough_cases=7_000)
@given(case=two_sites())
def test_two_sites_answer_as_one(case):
    world, expected = run_case(case)
    HAPPENED.update(world.network.counts)
    assert world.log == expected


@effort(250, thorough_cases=5_000)
@given(case=leading())
def test_clocks_that_run_ahead_of_the_keys_lose_nothing(case):
    world, expected = run_case(case)
    assert world.log == expected


@effort(80, thorough_cases=1_500)
@given(case=bands())
def test_bands_between_streams_without_windows(case):
    world, expected = run_case(case)
    assert world.log == expected


@effort(100, thorough_cases=2_000)
@given(case=leaving())
def test_rows_and_keys_that_leave(case):
    world, expected = run_case(case)
    assert world.log == expected


@effort(200, thorough_cases=4_000)
@given(case=two_sites(switch=True))
def test_an_algorithm_changes_at_an_agreed_time(case):
    world, expected = run_case(case)
    assert world.log == expected


@effort(150, thorough_cases=3_000)
@given(case=many_sites())
def test_many_sites_answer_as_one(case):
    world, expected = run_case(case)
    assert world.log == expected


@effort(100, thorough_cases=2_000)
@given(case=many_sites(switch=True))
def test_methods_of_many_inputs_change_at_an_agreed_time(case):
    world, expected = run_case(case)
    assert world.log == expected


def test_the_network_was_not_kind():
    """The property above has met every kind of fault; it fails if it was run without them."""
    assert all(HAPPENED[what] for what in ("accepted", "refused", "delayed", "cut")), HAPPENED
