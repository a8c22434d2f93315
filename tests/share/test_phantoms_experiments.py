"""The data of the phantom experiments has the numbers of the paper (section 8.1); the page shows what was missed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from experiments import phantoms_data as data
from experiments.phantoms_tables import measured_flows, measured_rates
from experiments.report import render
from tidemill.optimize.share.phantoms.collisions import collision_rate
from tidemill.optimize.share.phantoms.configuration import Configuration

PROJECTIONS = [s for size in (1, 2, 3, 4) for s in combinations(range(4), size)]


@pytest.mark.parametrize("attributes", PROJECTIONS)
def test_every_projection_has_the_papers_number_of_groups(attributes: tuple[int, ...]) -> None:
    assert data.group_count(data.group_set(), attributes) == data.GROUPS[len(attributes)]


def test_the_trace_has_the_papers_size_and_all_groups() -> None:
    trace = data.trace()
    assert trace.columns.shape == (4, 860_000)
    assert data.group_count(trace.columns, (0, 1, 2, 3)) == 2837
    assert len(np.unique(trace.flow)) == data.FLOWS


def test_the_trace_is_clustered_and_a_shuffle_is_not() -> None:
    columns = data.trace(packets=200_000).columns
    forest, buckets = Configuration.parse("ABCD"), [2000]
    mixed = columns[:, np.random.default_rng(1).permutation(columns.shape[1])]
    clustered, shuffled = (measured_flows(forest, buckets, data.GROUPS, c)[1][0] for c in (columns, mixed))
    # Groups of different sizes collide a little less than equal ones, also without flows.
    assert clustered > 5 and 0.9 < shuffled < 1.6


def test_real_tables_collide_as_the_model_says_on_uniform_data() -> None:
    columns = data.one_attribute(2000, 100_000, seed=5)
    assert measured_rates(Configuration.parse("A"), [1000], columns)[0] == pytest.approx(
        collision_rate(2000, 1000), rel=0.05
    )


def test_a_missed_check_is_shown_as_missed() -> None:
    check = {"what": "w", "target": "<= 1", "measured": "2", "met": False}
    facts = {"processor": "p", "cores": 2, "python": "3", "numpy": "2", "numba": "0", "taken": "now"}
    result = {"title": "T", "setup": "s", "checks": [check], "tables": [], "plots": [], "machine": facts}
    page = render({"phantoms": {**result, "quick": False, "seconds": 1.0}})
    assert "**missed**" in page and "## T" in page
