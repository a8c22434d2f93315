"""Band joins forget rows whose partners have all come, and no earlier: whatever holds their inputs back."""

from __future__ import annotations

from hypothesis import given

from tests.joins.bands import band_workloads
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import check_view, create, drawn_database, oracle
from tidemill.runtime.thresholds import smallest


@effort(6, thorough_cases=240)
@given(workload=band_workloads(), place=places)
def test_band_joins_find_all_pairs(workload, place):
    sources, views = workload
    with smallest(), drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
