"""A plan that was searched for, and found to be better, is published without another search."""

from __future__ import annotations

import pytest

from tests.share.test_plans_of_batches import THREE, driven, stream
from tidemill.optimize.share import reader_plan
from tidemill.optimize.share.measure import reason_to_change, update_statistics
from tidemill.optimize.share.reader_plan import plan_reader

SOURCE = "ASource"


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """Every plan that is built."""
    built: list[int] = []
    plain = reader_plan._build_plan
    monkeypatch.setattr(reader_plan, "_build_plan", lambda *a, **k: (built.append(1), plain(*a, **k))[1])
    return built


def test_the_same_search_is_made_once(counted):
    """A thousand queries were planned twice after the first batch, half a second each time."""
    db = driven(THREE, 100_000)
    rows = stream(20_000, 1, groups=(5_000,) * 4)
    op = db.operator(db.plan)
    db.settings.statistics[SOURCE] = update_statistics(op, db.counted(op, rows), db.measured)
    counted.clear()
    assert reason_to_change(SOURCE, db.plan, db.settings) is not None
    assert counted
    counted.clear()
    found = plan_reader(SOURCE, db.queries, db.parts, db.settings)
    assert not counted and found is not db.plan
    db.settings.searches.clear()
    db.settings.reader_plans[SOURCE] = db.plan
    again = plan_reader(SOURCE, db.queries, db.parts, db.settings)
    assert counted and (again.tree, again.cost) == (found.tree, found.cost)


@pytest.mark.parametrize("what", ["statistics", "a setting", "the plan in force", "the queries"])
def test_another_search_is_made_when_something_changed(counted, what):
    db = driven(THREE, 100_000)
    op = db.operator(db.plan)
    db.settings.statistics[SOURCE] = update_statistics(op, db.counted(op, stream(5_000, 1)), db.measured)
    other = plan_reader(SOURCE, db.queries, db.parts, db.settings.copy(held=False))
    queries = db.queries
    if what == "statistics":
        db.settings.statistics[SOURCE] = db.measured.copy()
    elif what == "a setting":
        db.settings.memory //= 2
    elif what == "the plan in force":
        db.settings.reader_plans[SOURCE] = other
    else:
        queries = queries[:2]
    counted.clear()
    plan_reader(SOURCE, queries, db.parts, db.settings)
    assert counted
