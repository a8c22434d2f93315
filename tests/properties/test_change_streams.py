"""ISTREAM and DSTREAM views have exactly the rows that came, or went, at each moment, with that moment as TS."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.query_text import View
from tests.properties.test_answers import places, workloads
from tests.properties.test_invariance import Crashing, rounded, run
from tests.properties.test_later_views import growing_workloads, settled
from tests.properties.test_rescale import in_rescaled_runs, rescaled_workloads
from tests.properties.test_runs import in_runs
from tests.properties.trial import check_view, contents_of, create, drawn_database, log_of, oracle, span, watch
from tests.reference.logs import Change, Row

OUTPUTS = ("STREAMED", "ISTREAM", "DSTREAM", "ISTREAM", "DSTREAM")
choices = st.lists(st.sampled_from(OUTPUTS), min_size=3, max_size=5)


def choose(views: list[View], outputs: list[str]) -> list[View]:
    """The views with other outputs; views of time points stay as they are."""
    return [
        v if v.name.startswith("sync") else replace(v, output=outputs[i % len(outputs)]) for i, v in enumerate(views)
    ]


def split_log(log: list[Change]) -> tuple[Counter[Row], Counter[Row]]:
    """(what came, what went) with the clock unit of each change before its row."""
    came: Counter[Row] = Counter()
    went: Counter[Row] = Counter()
    for change in log:
        at = change.time // streams.UNIT
        if change.tag != "-":
            came[(at, *change.row)] += 1
        if change.tag == "-":
            went[(at, *change.row)] += 1
        elif change.old is not None:
            went[(at, *change.old)] += 1
    return came, went


@effort(12, thorough_cases=2_000)
@given(workload=workloads(), outputs=choices, place=places)
def test_change_streams_have_the_insertions_and_deletions_of_every_moment(workload, outputs, place):
    """Views of all shapes over streams, views and each other's change streams, against recomputation."""
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, choose(views, outputs))
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)


@effort(5)
@given(workload=workloads(most=3), place=places, size=st.sampled_from([1, 2, 3, 5]))
def test_the_three_outputs_of_one_query_agree_however_it_is_cut(workload, place, size):
    """The log of the STREAMED view, split by its tags, is the ISTREAM and the DSTREAM view; u is one row of each."""
    sources, views = workload
    sources = [s if s.static else s.recut(s.sizes, size) for s in sources]
    with drawn_database(sources, **place) as db:
        made = create(db, choose(views, ["STREAMED"]))
        trios = [v for v in made if not v.name.startswith("sync")]
        for view in trios:
            for output in ("ISTREAM", "DSTREAM"):
                create(db, [replace(view, name=f"{view.name}{output}", output=output)])
        db.run()
        for view in trios:
            came, went = split_log(log_of(db, view.name))
            assert contents_of(db, f"{view.name}ISTREAM") == came, view.statement
            assert contents_of(db, f"{view.name}DSTREAM") == went, view.statement


@effort(5)
@given(workload=growing_workloads(), outputs=choices, place=places)
def test_later_change_streams_begin_with_what_their_inputs_hold(workload, outputs, place):
    """Change streams created after a run, over views of before; and those of before go on after it."""
    sources, halves, early, late = workload
    sources, end = settled(sources, halves)
    early, late = choose(early, outputs), choose(late, outputs[::-1])
    with drawn_database(sources, write=False, **place) as db:
        folder = Path(db.paths.root).parent
        made = create(db, early)
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
        _, begin = span([replace(s, rows=s.rows[: halves[s.name]]) for s in sources])
        with oracle(db, sources, firsts={version: begun}, births=births, begin=begin, ends=ends) as truth:
            for view in [*made, *added]:
                check_view(db, view, truth)


@effort(3)
@given(
    workload=workloads(most=3),
    outputs=choices,
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_leaves_change_streams_as_they_are(workload, outputs, place, faults):
    sources, views = workload
    views = choose(views, outputs)
    expected = run(sources, views, **place)
    Crashing.faults = list(faults)
    assert run(sources, views, kind=Crashing, **place) == expected


@effort(3)
@given(work=rescaled_workloads(), outputs=choices, place=places)
def test_shards_that_change_leave_change_streams_as_they_are(work, outputs, place):
    sources, views, there, shards = work
    views = choose(views, outputs)
    found = in_rescaled_runs(sources, views, there, shards, place)
    assert rounded(found) == rounded(in_runs(sources, views, there, place, last=True))
