"""The benchmark of aggregates that do not invert: its checks can be missed, and its queries give the same groups."""

from __future__ import annotations

import pytest

from benchmarks.aggregates import PROMISED, SELECTS, checks, cost, ratios
from benchmarks.report import ORDER


def test_the_dearest_of_the_promised_decides():
    near = dict.fromkeys(SELECTS, 1.2)
    assert [c.met for c in checks("sliding", near, near)] == [True, True]
    for name in PROMISED:
        far = near | {name: 1.6}
        found = checks("sliding", far, far)
        assert [c.met for c in found] == [False, False] and name in found[0].measured
    assert checks("sliding", near | {"COUNT DISTINCT": 9.0}, near)[0].met, "nothing is promised of it"


def test_ratios_are_of_the_same_round():
    found = {"SUM": [{"all": 1.0}, {"all": 4.0}, {"all": 1.0}], "MAX": [{"all": 2.0}, {"all": 4.0}, {"all": 1.0}]}
    assert ratios(found) == {"SUM": 1.0, "MAX": 1.0}


@pytest.mark.parametrize("slide", [10, 2])
def test_queries_run_and_have_the_same_groups(slide):
    rows = {cost(name, slide, 200)["rows"] for name in ("SUM", "MIN and MAX of both")}
    assert len(rows) == 1 and rows.pop() > 500


def test_it_is_on_the_page():
    assert "aggregates" in ORDER
