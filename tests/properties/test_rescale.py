"""Any number of shards, changed between any two runs, gives the answers of a database that never changed it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.test_invariance import outcome, rounded
from tests.properties.test_runs import cut_workloads, in_runs
from tests.properties.trial import create, drawn_database


@st.composite
def rescaled_workloads(draw):
    sources, views, there = draw(cut_workloads())
    return sources, views, there, draw(st.lists(st.integers(1, 5), min_size=len(there[0]), max_size=len(there[0])))


def in_rescaled_runs(sources, views, there, shards, place):
    """The outcome of runs over input that grows, with another number of shards after each of them."""
    with drawn_database(sources, write=False, kind=CheckpointedDatabase, **place) as db:
        folder = Path(db.paths.root).parent
        written = [(0, 0)] * len(sources)
        made = create(db, views)
        for number, count in enumerate(shards):
            for i, stream in enumerate(sources):
                first, file = written[i]
                written[i] = there[i][number], stream.write(folder, first, there[i][number], file)
            db.run(final=number == len(shards) - 1)
            db.rescale(count)
        db.run(final=True)
        return outcome(db, made)


@effort(4, thorough_cases=120)
@given(work=rescaled_workloads(), place=places)
def test_shards_that_change_between_runs_change_no_answer(work, place):
    sources, views, there, shards = work
    assert rounded(in_rescaled_runs(sources, views, there, shards, place)) == rounded(
        in_runs(sources, views, there, place, last=True)
    )
