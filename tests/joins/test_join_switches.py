"""The plan of a join changes between two batches, as often as anybody likes, and no answer does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.joins import switching
from tests.joins.drawn import Taste, plan_names, workloads
from tests.joins.rows import KEYED
from tests.joins.shapes import Workload
from tests.joins.switching import METHODS, all_views, install, obeys, running_plans, switch
from tests.joins.test_join_answers import places
from tests.properties.effort import effort
from tests.properties.query_text import Query, View
from tests.properties.streams import Stream
from tests.properties.test_invariance import Crashing
from tests.properties.trial import check_view, database, oracle
from tests.share.outcomes import check_same, outcome

TASTE = Taste(failing=True, inputs=4)
WORDS = ("auto", "late", "early")
NEIGHBOUR = (
    "CREATE VIEW neighbour AS SELECT a.k, COUNT(*) AS n FROM K AS a JOIN K AS b ON a.k = b.k GROUP BY a.k",
    "DROP VIEW neighbour",
)


@dataclass(frozen=True)
class Event:
    """Something between two batches: `step`, `set` a plan, or a `neighbour` that comes or goes."""

    what: str
    plan: str = ""


@st.composite
def histories(draw: st.DrawFn) -> tuple[Workload, list[Event]]:
    """A workload in several batches, and what happens while it runs."""
    workload = draw(workloads(TASTE))
    small = tuple(s if s.static else s.recut(s.sizes, s.batch_rows or 3) for s in workload.streams)
    plans = st.one_of(
        st.sampled_from(plan_names(workload.inputs)),
        st.sampled_from(plan_names(2)),
        st.sampled_from([*WORDS, *METHODS]),
    )
    events: list[Event] = []
    for _ in range(draw(st.integers(2, 5))):
        what = draw(st.sampled_from(["set", "set", "set", "neighbour"]))
        events += [Event(what, draw(plans)), *([Event("step")] * draw(st.integers(0, 2)))]
    return replace(workload, streams=small), events


PLANS_SEEN: Counter[int] = Counter()  # runs by the number of plans that the first join had in them


def lived(workload: Workload, events: list[Event], *, kind: type[LocalDatabase] = LocalDatabase, **options):
    """The outcome of a life with events; without the rule nothing is switched."""
    still = bool(options.get("without"))
    seen: set[str] = set()
    with database(workload.streams, kind=kind, **options) as db:
        install(db, all_views(workload))
        keyed = any(s.name == "K" for s in workload.streams)
        db.start()
        standing = False
        for event in events:
            if event.what == "step":
                db.step()
            elif event.what == "set" and not still:
                switch(db, event.plan)
                seen |= {p for p in running_plans(db) if len(p) == workload.inputs}
            elif event.what == "neighbour" and keyed:
                db.execute(NEIGHBOUR[standing])
                standing = not standing
        db.stop()
        db.run()
        PLANS_SEEN[len(seen)] += 1
        return outcome(db, all_views(workload))


@effort(3)
@given(history=histories(), place=places)
def test_switches_leave_the_tagged_output_as_it_is(history, place):
    workload, events = history
    expected = lived(workload, [e for e in events if e.what == "step"], without=switching.PLAIN_JOINS, **place)
    found = lived(workload, events, **place)
    check_same(found, expected)
    assert found.aside >= expected.aside


def test_the_plans_above_did_change():
    assert sum(n for plans, n in PLANS_SEEN.items() if plans > 1) > 0, PLANS_SEEN


# ---- every switch between two plans --------------------------------------------------------------

# Each of the four plans follows each other one once.
ROUND = "00 01 00 10 00 11 01 10 01 11 10 11 00".split()
SCRIPT = "+10 +20 u11 +31 -1 u22 +12 u30 -3 +33 u24 -2 u13 +21 -1 u34 -3 u20".split()


def told(name: str, shift: int) -> Stream:
    """+12: key 1 comes with value 2; u22: key 2 has value 2 now; -1: key 1 goes. One record a time."""
    operations = {"+": "insert", "u": "update", "-": "delete"}
    rows = []
    for at, word in enumerate(SCRIPT[shift:] + SCRIPT[:shift]):
        value = int(word[2]) if len(word) > 2 else None
        rows.append(
            {
                "k": int(word[1]),
                "b": at % 3,
                "s": "ab"[at % 2],
                "v": value,
                "x": at / 8,
                "d": None,
                "op": operations[word[0]],
                "tm": at,
            }
        )
    return Stream(name, KEYED, tuple(rows), ("k",), batch_rows=1)


ALL_CALLS = (
    "COUNT(*) AS n, SUM(a.v) AS sa, SUM(c.v) AS sc, SUM(a.v * c.v) AS ac, AVG(a.x) AS m, MIN(c.v) AS l,"
    " MAX(a.v) AS g, COUNT(DISTINCT c.b) AS cd, VARIANCE(a.v) AS va"
)


GROUPINGS = ("", "a.s AS g0, c.s AS g1")


def of_all_calls(number: int, grouped: str) -> View:
    keys = ", ".join(one.partition(" AS ")[0] for one in grouped.split(", ")) if grouped else ""
    text = f"SELECT {grouped + ', ' if grouped else ''}{ALL_CALLS} FROM K AS a JOIN L AS c ON a.b = c.b"
    return View(f"v{number}", "STREAMED", Query(text + f" GROUP BY {keys}" * bool(keys), (), {}, plain=False))


def test_each_plan_may_follow_each_other_plan():
    """Rows stored under one plan are replaced and taken back under another."""
    views = [of_all_calls(i, grouped) for i, grouped in enumerate(GROUPINGS)]
    streams = [told("K", 0), told("L", 7)]
    with database(streams, shards=1, cores=1) as db:
        for view in views:
            db.execute(view.statement)
        db.start()
        for plan in ROUND:
            switch(db, plan)
            assert all(obeys(p, plan) for p in running_plans(db))
        db.stop()
        db.run()
        with oracle(db, streams) as truth:
            for view in views:
                check_view(db, view, truth)


# ---- crashes -------------------------------------------------------------------------------------


class Switching(Crashing):
    """Also: the next plan is published after a batch was computed and before it is computed again."""

    plans: ClassVar[list[str]] = []

    def finish(self, end):
        if self.faults and self.faults[0] == "switched":
            self.faults.pop(0)
            type(self).landed += 1
            self.compute(end)
            self.publish_plan(self.plans[len(self.faults) % len(self.plans)])
            self.reopen_outlet()
            return LocalDatabase.finish(self, end)
        return super().finish(end)

    def publish_plan(self, plan: str) -> None:
        """As SET does, without waiting for the batch that takes it up: this is the middle of one."""
        switch(self, plan)


@effort(3)
@given(
    history=histories(),
    place=places,
    faults=st.lists(
        st.sampled_from(["", "computed", "applied", "kept", "committed", "switched", "switched"]),
        min_size=3,
        max_size=8,
    ),
)
def test_a_crash_in_the_middle_of_a_switch_changes_nothing(history, place, faults):
    workload, events = history
    expected = lived(workload, events, **place)
    Switching.faults, Switching.plans = list(faults), [*plan_names(workload.inputs), "auto"]
    check_same(lived(workload, events, kind=Switching, **place), expected)


def test_the_crashes_above_did_happen():
    assert Switching.landed > 0
