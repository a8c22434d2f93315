"""The change log depends on the rows alone: not on cuts, shards, rules, neighbours or crashes."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.test_answers import places, workloads
from tests.properties.trial import contents_of, create, drawn_database, log_of, watch
from tests.reference.logs import Change
from tidemill.optimize.optimizer import RULES

rules = st.sets(st.sampled_from([rule.__name__ for rule in RULES])).map(lambda names: tuple(sorted(names)))


def outcome(db, views):
    """Logs of STREAMED views as multisets for each time, stored answers of all."""
    logs = {v.name: Counter(log_of(db, v.name)) for v in views if v.output == "STREAMED"}
    return logs, {v.name: contents_of(db, v.name) for v in views}


def run(sources, views, *, kind=LocalDatabase, watched=False, **options):
    """The outcome of a run; `watched` reads every source, so that the clock does not depend on the views."""
    with drawn_database(sources, kind=kind, **options) as db:
        if watched:
            watch(db, sources)
        made = create(db, views)
        db.run()
        return outcome(db, made)


def rounded(result):
    """Outcomes with floats to ten digits: the last bits of a sum may depend on the order of addition."""

    def plain(value):
        return float(f"{value:.10g}") if isinstance(value, float) else value

    def row(values):
        return None if values is None else tuple(map(plain, values))

    logs, contents = result
    turned = {
        name: Counter({Change(c.time, c.tag, row(c.row), row(c.old)): 0 for c in log}) for name, log in logs.items()
    }
    for name, log in logs.items():
        for c, n in log.items():
            turned[name][Change(c.time, c.tag, row(c.row), row(c.old))] += n
    return turned, {name: Counter(row(r) for r in rows.elements()) for name, rows in contents.items()}


@st.composite
def recut(draw, sources):
    return [s if s.static else s.recut(*draw(streams.cuts(len(s.rows)))) for s in sources]


@effort(9, thorough_cases=400)
@given(workload=workloads(), first=places, second=places, off=rules, data=st.data())
def test_cuts_shards_and_rules_leave_every_log_as_it_is(workload, first, second, off, data):
    sources, views = workload
    expected = rounded(run(sources, views, **first))
    others = data.draw(recut(sources))
    assert rounded(run(others, views, without=off, **second)) == expected


def reads(view, name):
    return f"SYNC ON {name}" in view.query.text or f"FROM {name}" in view.query.text


@effort(7, thorough_cases=200)
@given(workload=workloads(), place=places, data=st.data())
def test_a_view_alone_has_the_log_it_has_among_others(workload, place, data):
    sources, views = workload
    logs, _ = rounded(run(sources, views, watched=True, **place))
    chosen = data.draw(st.sampled_from([v for v in views if v.name in logs] or [None]))
    if chosen is None:
        return
    needed, todo = [], {chosen.name}
    for view in reversed(views):
        if view.name in todo or any(reads(other, view.name) for other in needed):
            needed.append(view)
            todo |= {i.source.name for i in view.query.items}
    alone, _ = rounded(run(sources, needed[::-1], watched=True, **place))
    assert alone[chosen.name] == logs[chosen.name]


class Crashing(LocalDatabase):
    """Between any two steps of a micro-batch everything in memory may be lost."""

    faults: ClassVar[list[str]] = []
    landed: ClassVar[int] = 0

    def finish(self, end):
        fault = self.faults.pop(0) if self.faults else ""
        if not fault:
            return super().finish(end)
        type(self).landed += 1
        if fault == "computed":  # nothing was kept of the first attempt
            self.compute(end)
            self.reopen_outlet()
        blobs, out = self.compute(end)
        self.outlet.apply(self.batch, out)
        if fault == "applied":  # the answers were stored, the state was not
            self.reopen_outlet()
            blobs, out = self.compute(end)
            self.outlet.apply(self.batch, out)
        self.blobs.update(blobs)
        self.offset, self.logged, self.batch = end, None, self.batch + 1
        if fault == "kept":  # the sources were not told
            self.reopen_outlet()
            return None
        self.planner.commit(end)
        if fault == "committed":
            self.reopen_outlet()
        return None


@effort(9, thorough_cases=400)
@given(
    workload=workloads(),
    place=places,
    faults=st.lists(st.sampled_from(["", "computed", "applied", "kept", "committed"]), min_size=1, max_size=8),
)
def test_a_crash_between_any_two_steps_changes_nothing(workload, place, faults):
    sources, views = workload
    expected = run(sources, views, **place)
    Crashing.faults = list(faults)
    assert run(sources, views, kind=Crashing, **place) == expected


def test_the_crashes_above_did_happen():
    assert Crashing.landed > 0
