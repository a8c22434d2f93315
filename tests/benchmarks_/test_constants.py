"""The benchmark of constants names constants that there are, with workloads that there are."""

from __future__ import annotations

from benchmarks.constants import CONSTANTS, WORKS, changed_to, other_values, render, usual_value


def test_every_constant_is_there_and_can_be_changed():
    for (module, name), works in CONSTANTS.items():
        usual = usual_value(module, name)
        low, high = other_values(usual)
        assert low != usual != high and set(works) <= WORKS.keys(), name
        with changed_to(module, name, high):
            assert usual_value(module, name) == high
        assert usual_value(module, name) == usual


def test_the_page_has_a_row_for_each():
    page = render([["`slice_rows`, a threshold", 100_000, 25_000, "1.00", 400_000, "0.98", "matching rows"]])
    assert "| `slice_rows`, a threshold | 100000 | 25000 | 1.00 | 400000 | 0.98 | matching rows |" in page
