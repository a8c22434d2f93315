"""A view created later begins with what is stored over a view, and with the rows to come over a stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries, streams
from tests.properties.effort import effort
from tests.properties.test_answers import places
from tests.properties.trial import check_view, create, drawn_database, oracle, span, used_sources, watch


@st.composite
def growing_workloads(draw):
    """Streams, the number of rows of each that come in the first run, early and late views."""
    found = [draw(streams.append_only("A", most=16)), draw(streams.keyed("K", most=16))]
    cut = draw(st.integers(0, 12))
    halves = {}
    for stream in found:
        # Rows of the second run come after everything that the first run closed.
        halves[stream.name] = next((i for i, row in enumerate(stream.rows) if row["tm"] > cut), len(stream.rows))
    early = draw(queries.views(found, odd=True, most=3))
    late = draw(queries.views(found, odd=True, most=3, prefix="w", known=early))
    return found, halves, early, late


def settled(sources, halves):
    """Sources whose second half lies behind everything of the first halves."""
    end = max((r["tm"] for s in sources for r in s.rows[: halves[s.name]]), default=-1)

    def later(stream):
        cut = halves[stream.name]
        return replace(stream, rows=(*stream.rows[:cut], *(r for r in stream.rows[cut:] if r["tm"] > end)))

    return [later(s) for s in sources], end


def check_later_views(workload, place):
    """Late views over a database that has run hold what the oracle says."""
    sources, halves, early, late = workload
    sources, end = settled(sources, halves)
    with drawn_database(sources, write=False, **place) as db:
        folder = Path(db.paths.root).parent
        made = create(db, early)
        # Both sources move the clock from the beginning on.
        watch(db, sources)
        files = {s.name: s.write(folder, 0, halves[s.name]) for s in sources}
        if end >= 0:
            db.run()
        added = create(db, late, missing={v.name for v in early} - {v.name for v in made})
        for stream in sources:
            stream.write(folder, halves[stream.name], None, files[stream.name])
        db.run()
        version = db.workload.views[added[0].name.lower()].entry.birth if added else -1
        begun = {s.source: halves[s.name] for s in sources}
        births = {v.entry.birth: max(end, 0) * streams.UNIT for v in db.workload.views.values()}
        ends = {birth: moment for birth, moment in births.items() if birth != version and end >= 0}
        # The clock began with the first run that had rows.
        _, begin = span([replace(s, rows=s.rows[: halves[s.name]]) for s in sources])
        with oracle(db, sources, firsts={version: begun}, births=births, begin=begin, ends=ends) as truth:
            assert used_sources(db, sources)
            for view in [*made, *added]:
                check_view(db, view, truth)


@effort(18, thorough_cases=600)
@given(workload=growing_workloads(), place=places)
def test_later_views_see_stored_contents_and_later_rows(workload, place):
    check_later_views(workload, place)
