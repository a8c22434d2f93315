"""Hot keys may be split over the shards at any moment: no answer changes, however rows are cut and whatever crashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.joins.drawn import Taste, plan_names, workloads
from tests.joins.heating import SEEN, Heat, Heating, note_split
from tests.joins.rows import APPENDED, KEYED
from tests.joins.shapes import Workload
from tests.joins.switching import all_views, install, switch
from tests.properties.effort import effort
from tests.properties.query_text import Query, View
from tests.properties.streams import Stream
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import check_same, outcome

TASTE = Taste(failing=True, inputs=4, rows=18)
SOUND = replace(TASTE, failing=False)  # SQL gives up where an expression fails on some row
FAULTS = ("", "", "computed", "applied", "kept", "committed")
places = st.fixed_dictionaries({"shards": st.integers(2, 3), "cores": st.integers(1, 2)})


@st.composite
def heated(draw: st.DrawFn, taste: Taste = TASTE) -> tuple[Workload, list[Heat], str]:
    """A workload in several batches, what becomes hot before which one, and the plan at the beginning."""
    found = draw(workloads(taste))
    rows = draw(st.integers(2, 6))
    small = tuple(s if s.static else s.recut(s.sizes, rows) for s in found.streams)
    plans = st.one_of(st.sampled_from(plan_names(found.inputs)), st.sampled_from(["late", "early", "auto"]))
    batches, seeds = st.integers(0, 8), st.integers(0, 2**32)
    heats = draw(st.lists(st.builds(Heat, batches, seeds), min_size=1, max_size=3))
    heats += [Heat(b, plan=p) for b, p in draw(st.lists(st.tuples(batches, plans), max_size=3))]
    return replace(found, streams=small), heats, draw(plans)


def lived(workload: Workload, plan: str, heats: list[Heat], faults: tuple[str, ...] = (), **place):
    """What one run leaves behind."""
    Heating.heats, Heating.faults = list(heats), list(faults)
    with database(workload.streams, kind=Heating, **place) as db:
        switch(db, plan)
        install(db, all_views(workload))
        db.run()
        note_split(db)
        return outcome(db, all_views(workload))


@effort(5)
@given(drawn=heated(), place=places, faults=st.lists(st.sampled_from(FAULTS), max_size=10))
def test_split_keys_leave_the_tagged_output_as_it_is_whatever_crashes_meanwhile(drawn, place, faults):
    workload, heats, plan = drawn
    expected = lived(workload, plan, [], **place)
    check_same(lived(workload, plan, heats, tuple(faults), **place), expected)


@effort(4)
@given(drawn=heated(SOUND), place=places)
def test_answers_with_split_keys_are_those_of_sql(drawn, place):
    workload, heats, plan = drawn
    Heating.heats, Heating.faults = list(heats), []
    with database(workload.streams, kind=Heating, **place) as db:
        switch(db, plan)
        install(db, all_views(workload))
        db.run()
        note_split(db)
        with oracle(db, workload.streams) as truth:
            for view in all_views(workload):
                check_view(db, view, truth)


# ---- rows that leave while their key is copied ---------------------------------------------------


ONE_KEY = tuple(
    {"k": at, "b": 1, "s": "ab"[at % 2], "v": at % 5, "x": at / 8, "d": None, "tm": at // 3} for at in range(36)
)
REPLACED = tuple({**row, "k": row["k"] % 4, "v": row["k"] % 7, "op": "upsert"} for row in ONE_KEY)  # type: ignore[operator]
TEXT = (
    "SELECT {}COUNT(*) AS n, SUM(a.v) AS sa, SUM(c.v) AS sc, MIN(a.v) AS l, COUNT(DISTINCT a.x) AS d"
    " FROM A [WINDOW 4] AS a JOIN {} AS c ON a.b = c.b{}"
)
# K comes round through the outlet, A from the readers.
TEXTS = (TEXT.format("", "K", ""), TEXT.format("a.b AS b, ", "A [WINDOW 6]", " GROUP BY a.b"))
VIEWS = tuple(View(f"v{i}", "STREAMED", Query(text, (), {}, plain=False)) for i, text in enumerate(TEXTS))


def of_one_key(plan: str, heats: list[Heat]):
    """All rows of both inputs have one key; a record of K replaces an older one in every batch."""
    streams = (Stream("A", APPENDED, ONE_KEY, batch_rows=3), Stream("K", KEYED, REPLACED, ("k",), batch_rows=3))
    return lived(Workload(streams, (), VIEWS, 2, frozenset()), plan, heats, shards=2)


@pytest.mark.parametrize("plan", ["00", "11"])
def test_rows_may_leave_in_the_very_batch_that_copies_their_key(plan):
    """Of a set that another shard is about to get, what leaves and what comes may cancel in number and not in sum."""
    expected = of_one_key(plan, [])
    before = SEEN["split"]
    check_same(of_one_key(plan, [Heat(5, key="1::BIGINT")]), expected)
    assert SEEN["split"] == before + len(VIEWS)


def test_keys_were_split_above_and_crashes_happened():
    assert SEEN["split"] > 0 and SEEN["groups gone round"] > 0 and Heating.landed > 0, SEEN
