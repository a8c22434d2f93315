"""Plans change between batches and no answer does: queries come and go, settings change, statistics lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tests.properties.test_invariance import Crashing
from tests.properties.trial import database
from tests.share.outcomes import UNSHARED, check_same, outcome
from tests.share.workloads import Taste, settings_text, shared_streams, shared_views
from tidemill.optimize.share.stored_statistics import WindowStatistics

TASTE = Taste(failing=True)
SPEAKING = ("k", "s", "x", "d", "day", "f", "b")


@dataclass(frozen=True)
class Event:
    """Something that happens between two batches: `create` or `drop` the view with a number, `set`, or `replan`."""

    what: str
    value: Any = None


@st.composite
def lies(draw: st.DrawFn) -> WindowStatistics:
    """Statistics of a source that have nothing to do with its rows."""
    sets = draw(st.lists(st.sets(st.sampled_from(SPEAKING), min_size=1).map(sorted), max_size=6))
    counts = st.integers(1, 1_000_000)
    return {
        "groups": {"\x1f".join(s): draw(counts) for s in sets},
        "tuples": float(draw(counts)),
        "rate": float(draw(counts)),
        "flows": draw(st.lists(st.floats(0.5, 1000), max_size=3)),
    }


@st.composite
def histories(draw: st.DrawFn, most: int = 4) -> tuple[list[Any], list[Any], list[Event]]:
    """(views that stand all the time, views that come and go, what happens)."""
    staying = draw(shared_views(TASTE, most=3))
    passing = draw(shared_views(TASTE, most=most, prefix="w"))
    passing = [v for v in passing if v.name.removeprefix("w").isdigit()]
    events: list[Event] = []
    alive: set[int] = set()
    for _ in range(draw(st.integers(1, 5))):
        what = draw(st.sampled_from(["create", "create", "drop", "set", "replan"]))
        if what == "create":
            free = [i for i in range(len(passing)) if i not in alive]
            if free:
                fresh = draw(st.sampled_from(free))
                alive.add(fresh)
                events.append(Event("create", fresh))
        elif what == "drop" and alive:
            gone = draw(st.sampled_from(sorted(alive)))
            alive.discard(gone)
            events.append(Event("drop", gone))
        elif what == "set":
            events.append(Event("set", draw(settings_text())))
        elif what == "replan":
            events.append(Event("replan", draw(lies())))
        events.append(Event("step"))
    return staying, passing, events


def happens(db: LocalDatabase, event: Event, passing: list[Any]) -> None:
    """Let one event happen in a running database."""
    if event.what == "create":
        db.execute(passing[event.value].statement)
    elif event.what == "drop":
        db.execute(f"DROP VIEW {passing[event.value].name}")
    elif event.what == "set":
        db.execute(event.value)
    elif event.what == "replan":
        replan(db, event.value)
    else:
        db.step()


def replan(db: LocalDatabase, statistics: WindowStatistics) -> None:
    """Another plan by statistics that lie."""
    db.workload.sharing.settings.statistics["ASource"] = statistics
    db.runner.publisher.plan_is_stale = True
    db.runner.publisher.publish()


def lived(stream, staying, passing, events, *, kind=LocalDatabase, only=None, **options):
    """Outcomes of a life with events: of the views that stand all the time, and of those that stand at the end.

    `only` leaves out all events but those.
    """
    with database([stream], kind=kind, **options) as db:
        for view in staying:
            db.execute(view.statement)
        db.start()
        for event in events:
            if only is None or event.what in only:
                happens(db, event, passing)
        db.stop()
        db.run()
        standing = [v for v in passing if v.name.lower() in db.workload.views]
        return outcome(db, staying), outcome(db, standing)


places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})
cut_streams = shared_streams(TASTE).map(lambda s: s.recut(s.sizes, s.batch_rows or 5))


@effort(4)
@given(stream=cut_streams, history=histories(), place=places)
def test_neighbours_and_new_plans_change_no_answer(stream, history, place):
    """Views that stand all the time do not notice; views that come later see what they would see unshared."""
    staying, passing, events = history
    found, late = lived(stream, staying, passing, events, **place)
    alone, none = lived(stream, staying, passing, events, only={"step"}, **place)
    check_same(found, alone)
    assert not none.contents
    unshared, later = lived(stream, staying, passing, events, without=UNSHARED, **place)
    check_same(found, unshared)
    check_same(late, later)


# ---- crashes in the middle of it -----------------------------------------------------------------


class Switching(Crashing):
    """Also: the next plan is published after a batch was computed and before it is computed again."""

    lie: ClassVar[WindowStatistics] = {}

    def finish(self, end):
        if self.faults and self.faults[0] == "switched":
            self.faults.pop(0)
            type(self).landed += 1
            self.compute(end)
            replan(self, self.lie.copy())
            self.reopen_outlet()
            return LocalDatabase.finish(self, end)
        return super().finish(end)


@effort(4)
@given(
    stream=cut_streams,
    history=histories(most=2),
    place=places,
    lie=lies(),
    faults=st.lists(
        st.sampled_from(["", "computed", "applied", "kept", "committed", "switched", "switched"]),
        min_size=3,
        max_size=8,
    ),
)
def test_a_crash_in_the_middle_of_a_switch_changes_nothing(stream, history, place, lie, faults):
    staying, passing, events = history
    expected = lived(stream, staying, passing, events, **place)
    Switching.faults, Switching.lie = list(faults), lie
    found = lived(stream, staying, passing, events, kind=Switching, **place)
    for one, other in zip(found, expected, strict=True):
        check_same(one, other)


def test_the_crashes_above_did_happen():
    assert Switching.landed > 0
