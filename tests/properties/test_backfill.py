"""`begin = 'history'` where the streams are read again: the log is the suffix of the log of the twin, a query with the
same text that stood since the streams were first read. What the twin had at the moment of creation comes as `+`.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.properties import queries
from tests.properties.effort import effort
from tests.properties.query_text import View
from tests.properties.test_answers import places, workloads
from tests.properties.test_invariance import rounded
from tests.properties.test_runs import portions
from tests.properties.trial import contents_of, create, drawn_database, log_of, watch
from tests.reference.logs import Change, replay
from tidemill.errors import PlanProblem
from tidemill.optimize.views.answer import Answer

_seen: Counter[str] = Counter()


class Crash(Exception):
    """The process ends."""


@dataclass(frozen=True)
class Twin:
    """A later view as it is written for the beginning: it reads twins where the later one reads later views."""

    view: View

    @property
    def name(self) -> str:
        return f"t{self.view.name}"

    @property
    def statement(self) -> str:
        return re.sub(r"\bw(\d)\b", r"tw\1", self.view.statement)


@st.composite
def histories(draw):
    """Sources, views that stand from the beginning, later ones, what is there at each run, and what happens between."""
    sources, early = draw(workloads())
    later = [v for v in draw(queries.views(sources, odd=True, most=3, prefix="w", known=early)) if v.name[0] == "w"]
    there = draw(portions(sources))
    runs = len(there[0])
    crash = st.tuples(st.integers(0, 3), st.booleans())
    return (
        (sources, early, later, there),
        draw(st.integers(1, runs - 1)),  # before which run the later views are created
        draw(st.lists(st.booleans(), min_size=runs, max_size=runs)),  # whether a run says that the input is over
        draw(st.lists(st.one_of(st.none(), crash), min_size=runs, max_size=runs)),
        draw(st.one_of(st.none(), st.integers(1, 4))),  # shards from the run of the creation on
    )


def create_later(db, later):
    """Create the views with their history; those whose streams are read again."""
    search = db.workload.answering._search_complete
    db.workload.answering._search_complete = lambda wanted, *_: Answer(wanted)
    made, gone = [], set()
    for view in later:
        if gone & {i.source.name for i in view.query.items}:
            gone.add(view.name)
            continue
        try:
            db.execute(view.statement.replace("unbounded_state = true", "unbounded_state = true, begin = 'history'"))
        except PlanProblem as problem:
            assert problem.code in ("TM223", "TM209"), problem
            _seen[problem.code] += 1
            gone.add(view.name)
            continue
        if db.workload.views[view.name].entry.moment is not None:
            made.append(view)
    db.workload.answering._search_complete = search
    return made


def run_until_crash(db, batches, applied):
    """Some batches of a run; the process ends before, or after, the next one is in the views."""
    apply, done = db.outlet.apply, [0]

    def fail(batch, messages):
        done[0] += 1
        if done[0] <= batches or applied:
            apply(batch, messages)
        if done[0] > batches:
            raise Crash

    db.outlet.apply = fail
    with suppress(Crash):
        db.run(final=False)


def suffix(db, name, moment):
    """The log of the twin from a moment on, with what is there then as insertions."""
    log = log_of(db, name)
    ((_, there),) = replay([c for c in log if c.time <= moment], [moment])
    begun = Counter({Change(moment, "+", row): n for row, n in there.items()})
    return begun + Counter(c for c in log if c.time > moment)


def reopen(db, place):
    path, shards = db.paths.root, db.catalog.settings["shards"]
    db.close()
    return CheckpointedDatabase(path, **{**place, "shards": shards})


@effort(9, thorough_cases=240)
@given(work=histories(), place=places)
def test_the_log_is_the_suffix_of_the_log_of_the_twin(work, place):
    (sources, early, later, there), birth, finals, crashes, shards = work
    with drawn_database(sources, write=False, kind=CheckpointedDatabase, **place) as first:
        db, folder = first, Path(first.paths.root).parent
        known = create(db, early)
        missing = {v.name for v in early} - {v.name for v in known}
        twins = {v.name for v in create_twins(db, later, missing)}
        watch(db, sources)
        written, made = [(0, 0)] * len(sources), []
        for number, final in enumerate(finals):
            for i, stream in enumerate(sources):
                done, file = written[i]
                written[i] = there[i][number], stream.write(folder, done, there[i][number], file)
            if number == birth:
                made = create_later(db, [v for v in later if v.name in twins])
            if crashes[number] is not None:
                run_until_crash(db, *crashes[number])
                db = reopen(db, place)
            if number >= birth and shards is not None and db.outlet.committed >= 0:
                db.rescale(shards)
            db.run(final=final)
        db.run(final=True)
        check(db, made)
        if db is not first:
            db.close()


def create_twins(db, later, missing):
    """Those of the later views that can stand from the beginning."""
    made = []
    for view in later:
        reads = {i.source.name for i in view.query.items}
        known = {v.name for v in made}
        if reads & missing or any(re.fullmatch(r"w\d", name) and name not in known for name in reads):
            continue
        try:
            db.execute(Twin(view).statement)
            made.append(view)
        except PlanProblem as problem:
            assert problem.code == "TM209", problem
    return made


def check(db, made):
    for view in made:
        moment = db.workload.views[view.name].entry.moment
        _seen["read again"] += 1
        contents = {name: contents_of(db, name) for name in (view.name, f"t{view.name}")}
        logs = {}
        if view.output == "STREAMED":
            logs = {view.name: Counter(log_of(db, view.name)), f"t{view.name}": suffix(db, f"t{view.name}", moment)}
        logs, contents = rounded((logs, contents))
        assert contents[view.name] == contents[f"t{view.name}"], view.statement
        if logs:
            assert logs[view.name] == logs[f"t{view.name}"], f"{view.statement}\nmoment {moment}"


def test_many_views_were_read_again():
    assert _seen["read again"] >= 3, _seen
