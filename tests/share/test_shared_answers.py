"""Shared window aggregates give what the same queries give alone: any workload, any stream, any cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.streams import cuts
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import UNSHARED, check_same, outcome, shared_nodes
from tests.share.workloads import Taste, settings_text, shared_workloads

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
ALL = Taste(failing=True, gaps=True)


def run(stream, views, *statements, **options):
    """The outcome of one run, and how many window aggregates went through the shared plan."""
    with database([stream], **options) as db:
        for text in (*statements, *(v.statement for v in views)):
            db.execute(text)
        db.run()
        return outcome(db, views), shared_nodes(db)


@effort(40)
@given(workload=shared_workloads(ALL), first=places, second=places, data=st.data())
def test_shared_equals_unshared(workload, first, second, data):
    stream, views = workload
    expected, none = run(stream, views, without=UNSHARED, **first)
    found, _ = run(stream.recut(*data.draw(cuts(len(stream.rows)))), views, data.draw(settings_text()), **second)
    assert none == 0
    check_same(found, expected)


@effort(25)
@given(workload=shared_workloads(Taste()), place=places)
def test_shared_equals_the_oracle(workload, place):
    stream, views = workload
    with database([stream], **place) as db:
        for view in views:
            db.execute(view.statement)
        db.run()
        with oracle(db, [stream]) as truth:
            for view in views:
                check_view(db, view, truth)
