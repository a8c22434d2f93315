"""An aggregation join gives what SQL gives from scratch, at every moment, under every plan, however rows are cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.joins import switching
from tests.joins.drawn import FACTS, Taste, plan_names, workloads
from tests.joins.drawn import workload as workload_of
from tests.joins.shapes import JoinView, Workload
from tests.joins.switching import METHODS, all_views, install, obeys, run, switch
from tests.properties.effort import effort, thorough
from tests.properties.streams import UNIT
from tests.properties.test_later_views import settled
from tests.properties.trial import check_directly, check_view, drawn_database, oracle, plain_sql, span, watch
from tests.share.outcomes import check_same
from tests.share.workloads import few_cuts

places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
bits = st.integers(0, 63)


def plan_of(number: int, workload: Workload) -> str:
    """A number as a plan of the first join."""
    return plan_names(workload.inputs)[number % 2**workload.inputs]


def check_answers(workload: Workload, place: dict[str, int], plan: str) -> None:
    """Every view under the plan, held against the oracle at every moment and against SQL at some."""
    with drawn_database(workload.streams, **place) as db:  # type: ignore[arg-type]
        switch(db, plan)
        install(db, all_views(workload))
        db.run()
        with oracle(db, workload.streams) as truth:
            for view in all_views(workload):
                check_view(db, view, truth)
        with plain_sql(workload.streams) as duck:
            for view in all_views(workload):
                check_directly(db, view, duck, [*truth.universe[::4], truth.universe[-1]])


@effort(8)
@given(workload=workloads(), place=places, number=bits)
def test_answers_of_every_moment_are_those_of_sql(workload, place, number):
    check_answers(workload, place, plan_of(number, workload))


@effort(4)
@given(workload=workloads(Taste(failing=True)), places=st.tuples(places, places), number=bits, data=st.data())
def test_cuts_and_shards_leave_the_tagged_output_as_it_is(workload, places, number, data):
    plan = plan_of(number, workload)
    expected, _ = run(workload.streams, workload, plan, **places[0])
    cuts = [data.draw(few_cuts(len(s.rows))) for s in workload.streams]
    found, _ = run(workload.recut(cuts), workload, plan, **places[1])
    check_same(found, expected)


@effort(3)
@given(workload=workloads(Taste(failing=True, inputs=4)), place=places, first=bits)
def test_every_plan_gives_the_tagged_output_of_plain_joins(workload, place, first):
    """Theorems 1 and 2: all 2^m plans, and the plan without the rule."""
    expected, none = run(workload.streams, workload, without=switching.PLAIN_JOINS, **place)
    assert none == []
    names = plan_names(workload.inputs)
    if workload.inputs > 2 and not thorough():
        names = [names[0], names[1 + first % (len(names) - 2)], names[-1]]
    spread = any(isinstance(v, JoinView) and v.spread for v in workload.views)
    for plan in names:
        found, running = run(workload.streams, workload, f"{plan}/{METHODS[first % 3 == 0]}", **place)
        check_same(found, expected)
        # A row that finds no partner is looked at by an early plan: there it may fail.
        assert found.aside >= expected.aside
        assert spread or all(obeys(p, plan) for p in running)  # a spread input is always late


# ---- joins over what stands already --------------------------------------------------------------


def halves_of(workload: Workload, cut: int) -> dict[str, int]:
    """How many rows of each stream come before the joins are created."""
    return {
        s.name: len(s.rows) if s.static else next((i for i, r in enumerate(s.rows) if r["tm"] > cut), len(s.rows))
        for s in workload.streams
    }


@effort(5)
@given(workload=workloads(Taste(inputs=3)), place=places, cut=st.integers(0, 10), number=bits)
def test_a_later_join_sees_stored_contents_and_later_rows(workload, place, cut, number):
    """Views below are created first and run; then the joins come, over those views and over the streams."""
    halves = halves_of(workload, cut)
    moving, end = settled([s for s in workload.streams if not s.static], halves)
    sources = [*moving, *(s for s in workload.streams if s.static)]
    with drawn_database(sources, write=False, **place) as db:
        folder = Path(db.paths.root).parent
        switch(db, plan_of(number, workload))
        install(db, workload.below)
        watch(db, sources)
        files = {s.name: s.write(folder, 0, halves[s.name]) for s in sources}
        db.run()
        install(db, workload.views)
        for stream in moving:
            stream.write(folder, halves[stream.name], None, files[stream.name])
        db.run()
        version = db.workload.views[workload.views[0].name].entry.birth
        begun = {s.source: halves[s.name] for s in moving}
        births = {v.entry.birth: max(end, 0) * UNIT for v in db.workload.views.values()}
        _, begin = span([replace(s, rows=s.rows[: halves[s.name]]) for s in moving])
        with oracle(db, sources, firsts={version: begun}, births=births, begin=begin) as truth:
            for view in all_views(workload):
                check_view(db, view, truth)


# ---- the draws themselves ------------------------------------------------------------------------


def test_the_draws_reach_every_window_graph_and_aggregate():
    seen: Counter[str] = Counter()

    @settings(
        max_examples=150,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(workload=workloads())
    def look(workload):
        seen.update(workload.facts)

    look()
    assert not FACTS - seen.keys()


def test_most_draws_fold_something_and_have_an_answer():
    """The tests above say something about plans only where there is one to choose, and rows that meet."""
    folded, answered = 0, 0
    for seed in range(6):
        drawn = workload_of(Random(seed), Taste(inputs=4))
        found, running = run(drawn.streams, drawn)
        folded += any(set(plan) - {"-"} for plan in running)
        answered += any(found.contents[v.name] or len(found.logs.get(v.name, ())) > 1 for v in drawn.views)
    assert folded > 3 and answered > 3
