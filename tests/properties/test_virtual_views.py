"""A query over virtual views is the query over their texts in parentheses: the same plan, so the same answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.query_text import Item, Query, View
from tests.properties.test_answers import places, workloads
from tests.properties.test_later_views import growing_workloads, settled
from tests.properties.trial import check_view, create, drawn_database, log_of, oracle, watch
from tidemill.errors import PlanProblem


def choose_virtual(views: list[View], chosen: list[bool]) -> list[View]:
    """Some of the views made virtual: those whose changes, not whole answers, are what others read."""
    able = {v.name for v in views if v.output != "RSTREAM" and not v.name.startswith("sync") and v.query.items}
    return [
        replace(v, output="VIRTUAL") if v.name in able and chosen[i % len(chosen)] else v for i, v in enumerate(views)
    ]


def with_texts(view: View, virtual: dict[str, str]) -> View:
    """The view with the texts of virtual views in the place of their names."""

    def put(item: Item) -> Item:
        text = virtual.get(item.source.name)
        return item if text is None else replace(item, source=replace(item.source, name=f"({text})"))

    query: Query = replace(view.query, items=tuple(map(put, view.query.items)))
    return replace(view, query=query)


def create_both(views: list[View], db, twin, texts: dict[str, str], missing: set[str]) -> list[View]:
    """Create views, and in the twin their texts; the stored views that both have. What one refuses, the other does.

    `texts` has the virtual views so far, `missing` those that were refused; both are added to.
    """
    made: list[View] = []
    for view in views:
        if missing & {i.source.name for i in view.query.items}:
            missing.add(view.name)
            continue
        plain = with_texts(view, texts)
        if view.output == "VIRTUAL":
            try:
                db.execute(f"CREATE VIRTUAL VIEW {view.name} AS {view.query.text}")
                texts[view.name] = plain.query.text
            except PlanProblem as problem:
                assert problem.code == "TM209"
                missing.add(view.name)
            continue
        there = create(db, [view])
        assert [v.name for v in create(twin, [plain])] == [v.name for v in there]
        missing |= set() if there else {view.name}
        made += there
    return made


@effort(12)
@given(workload=workloads(most=6), chosen=st.lists(st.booleans(), min_size=3, max_size=5), place=places)
def test_readers_of_virtual_views_have_the_plan_of_their_texts(workload, chosen, place):
    sources, views = workload
    views = choose_virtual(views, chosen)
    with drawn_database(sources, write=False, **place) as db, drawn_database(sources, write=False, **place) as twin:
        for view in create_both(views, db, twin, {}, set()):
            mine, other = (d.workload.views[view.name.lower()] for d in (db, twin))
            assert mine.node is other.node and mine.query.node is other.query.node
            assert mine.stored.keys == other.stored.keys and mine.trace == other.trace


@effort(4)
@given(workload=growing_workloads(), chosen=st.lists(st.booleans(), min_size=3, max_size=5), place=places)
def test_readers_of_virtual_views_begin_with_their_own_creation(workload, chosen, place):
    """Views of two generations over virtual ones, the later after a run: the log of each is that of its text."""
    sources, halves, early, late = workload
    sources, end = settled(sources, halves)
    views = choose_virtual([*early, *late], chosen)
    with drawn_database(sources, write=False, **place) as db, drawn_database(sources, write=False, **place) as twin:
        folders = [Path(d.paths.root).parent for d in (db, twin)]
        texts: dict[str, str] = {}
        missing: set[str] = set()
        for d in (db, twin):
            watch(d, sources)
        made = create_both(views[: len(early)], db, twin, texts, missing)
        files = {(f, s.name): s.write(f, 0, halves[s.name]) for f in folders for s in sources}
        if end >= 0:
            db.run(), twin.run()
        made += create_both(views[len(early) :], db, twin, texts, missing)
        for folder, stream in ((f, s) for f in folders for s in sources):
            stream.write(folder, halves[stream.name], None, files[folder, stream.name])
        db.run(), twin.run()
        for view in made:
            if view.output == "STREAMED":
                assert log_of(db, view.name) == log_of(twin, view.name), view.statement


@effort(8)
@given(workload=workloads(most=5), chosen=st.lists(st.booleans(), min_size=3, max_size=5), place=places)
def test_readers_of_virtual_views_give_the_answer_of_every_moment(workload, chosen, place):
    sources, views = workload
    with drawn_database(sources, **place) as db, drawn_database(sources, write=False, **place) as twin:
        made = create_both(choose_virtual(views, chosen), db, twin, {}, set())
        db.run()
        with oracle(db, sources) as truth:
            for view in made:
                check_view(db, view, truth)
