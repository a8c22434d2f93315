"""The workloads of the planning benchmark are what its page says, and all ways of matching plan the same views."""

from __future__ import annotations

import pytest

from benchmarks import planning


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(planning, "VIEWS", 10)
    monkeypatch.setattr(planning, "QUERIES", 20)


@pytest.mark.parametrize("work", planning.WORKS)
def test_every_way_plans_the_same_views(few, work):
    found = {mode: planning.measure(work, mode) for mode in planning.MODES}
    assert all(run["answer"] == found["off"]["answer"] for run in found.values())
    assert all(min(run["statements"], run["plan"]) > 0 for run in found.values())
    assert len(planning.WORKS[work]()) == (30 if work == "over views" else 20)


def test_queries_are_answered_from_views_and_windows_are_not(few):
    assert planning.measure("over views", "off")["answered"] == 0
    assert planning.measure("over views", "auto")["answered"] >= 15
    assert planning.measure("windows", "auto")["answered"] == 0
