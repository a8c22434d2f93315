"""Bytes that cross for a join, counted by edge, beside those of shipping everything and those that EXPLAIN says.

`python -m benchmarks.wire` has the same with every packet counted, and more points.
"""

from __future__ import annotations

import pytest

from tests.sites.priced import Kind, Point, measure_point


def test_where_few_rows_match_a_semijoin_ships_an_eighth_at_most(tmp_path):
    """One row in fifty has a partner; what is shipped is what was said."""
    point = Point(Kind(60, 1, 100), Kind(60, 50, 1250), window=1)
    found = measure_point(tmp_path, point, seconds=4, algorithms=("sp_s", "sm_s1"))
    predicted, whole = found["sp_s"]
    assert predicted == pytest.approx(whole, rel=0.1)
    assert found["sm_s1"][1] <= 0.12 * whole and found["sm_s1"][0] <= 0.12 * predicted


def test_where_everything_matches_auto_ships_no_more_than_everything(tmp_path):
    point = Point(Kind(20, 10, 20), Kind(60, 10, 200), window=1)
    found = measure_point(tmp_path, point, seconds=3, algorithms=("sp_s", "auto"))
    assert 0 < found["auto"][1] <= 1.05 * found["sp_s"][1]


def test_fingerprints_are_fewer_bytes_than_long_keys(tmp_path):
    point = Point(Kind(200, 10**9, 10), Kind(10, 20, 100), width=36, window=1)
    found = measure_point(tmp_path, point, seconds=3, algorithms=("sm_s1", "bloom"))
    assert 0 < found["bloom"][1] < 0.7 * found["sm_s1"][1]
