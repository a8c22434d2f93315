"""Shared window aggregates give what the same queries give alone: any workload, any stream, any cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.trial import check_view, drawn_database, oracle
from tests.share.outcomes import UNSHARED, check_same, run
from tests.share.workloads import Taste, few_cuts, settings_text, shared_workloads

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
ALL = Taste(failing=True, gaps=True)


@effort(8)
@given(workload=shared_workloads(ALL), sets=settings_text(), place=places, cut=few_cuts(24))
def test_shared_equals_unshared(workload, sets, place, cut):
    stream, views = workload
    expected, none = run(stream.recut(cut[0], None), views, without=UNSHARED, shards=1, cores=1)
    found, _ = run(stream, views, sets, **place)
    assert none == 0
    check_same(found, expected)
    # A row that falls between two windows is not looked at by the unshared plan: there it cannot fail.
    assert len(found.aside) >= len(expected.aside)


@effort(6)
@given(workload=shared_workloads(Taste()), place=places)
def test_shared_equals_the_oracle(workload, place):
    stream, views = workload
    with drawn_database([stream], **place) as db:
        for view in views:
            db.execute(view.statement)
        db.run()
        with oracle(db, [stream]) as truth:
            for view in views:
                check_view(db, view, truth)
