"""Any cut of the input into runs gives the answers of one run over all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.test_answers import places, workloads
from tests.properties.test_invariance import outcome, rounded
from tests.properties.trial import create, drawn_database


@st.composite
def portions(draw, sources, most=4):
    """For every source how many rows are there at each run; tables are there from the first one on."""
    runs = draw(st.integers(2, most))
    return [
        [len(s.rows)] * runs
        if s.static
        else [*sorted(draw(st.lists(st.integers(0, len(s.rows)), min_size=runs - 1, max_size=runs - 1))), len(s.rows)]
        for s in sources
    ]


@st.composite
def cut_workloads(draw):
    sources, views = draw(workloads())
    return sources, views, draw(portions(sources))


def in_runs(sources, views, there, place, last):
    """The outcome of runs over input that grows; `last` says whether the last one closes everything."""
    with drawn_database(sources, write=False, **place) as db:
        folder = Path(db.paths.root).parent
        written = [(0, 0)] * len(sources)
        for s in sources:
            (folder / s.name).mkdir(parents=True, exist_ok=True)
        made = create(db, views)
        for number in range(len(there[0])):
            for i, stream in enumerate(sources):
                first, file = written[i]
                written[i] = there[i][number], stream.write(folder, first, there[i][number], file)
            db.run(final=last and number == len(there[0]) - 1)
        return outcome(db, made)


@pytest.mark.parametrize("last", [False, True], ids=["open", "over"])
@effort(6, thorough_cases=180)
@given(work=cut_workloads(), place=places)
def test_runs_show_what_one_run_shows(last, work, place):
    """Also when the last run closes everything."""
    sources, views, there = work
    assert rounded(in_runs(sources, views, there, place, last)) == rounded(
        in_runs(sources, views, [[len(s.rows)] for s in sources], place, last)
    )
