"""Bytes on the wire: the points are drawn and judged as the page says."""

from __future__ import annotations

from benchmarks.wire.points import draw_points, summarise


def test_forecasts_are_judged_by_what_was_counted():
    right = {"sp_s": (100.0, 105.0), "sm_s1": (10.0, 9.5), "bloom": (9.9, 9.6)}
    wrong = {"sp_s": (100.0, 100.0), "sm_s1": (200.0, 50.0), "bloom": (300.0, 49.0)}
    *_, close, ranks, best = summarise([right, wrong])
    assert close.endswith("67% of 6 |")  # 200 for 50 and 300 for 49 are not
    assert ranks.endswith("50% of 4 |")  # sm_s1 and bloom before sp_s: right, right, wrong, wrong
    assert best.endswith("50% of 2 |")  # of the second point sp_s has the least forecast, and bloom the least bytes


def test_points_are_the_same_each_time():
    assert list(draw_points(5)) == list(draw_points(5)) and len(set(draw_points(20))) == 20
