"""Every set of views, read together after any micro-batch, is as of one time; and so are several that are followed.

The views loop: counts over counts, joins on another key. What is read while the engine runs is compared at the end with
the oracle, which knows all rows: what is closed does not change.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tests.properties.streams import UNIT
from tests.properties.test_answers import places, workloads
from tests.properties.test_runs import portions
from tests.properties.trial import contents_of, create, drawn_database, oracle, plan_of
from tests.reference.logs import Change, canonical_row, replay, same_rows
from tidemill.engine.statements.moment import Asked, choose_moment
from tidemill.errors import PlanProblem
from tidemill.plan.physical import FOREVER
from tidemill.plan.statements import AsOf
from tidemill.runtime.views.moments import METAS, read_standings
from tidemill.runtime.views.past import Past

RETAIN = "WITH (retain = 1000000) "
LOOPING = """
CREATE VIEW Counts {kept}AS SELECT k, count(*) AS n FROM A GROUP BY k;
CREATE VIEW Counted AS SELECT n, count(*) AS m FROM Counts GROUP BY n;
CREATE VIEW Highest AS SELECT max(m) AS most FROM Counted;
CREATE STREAMED VIEW Matches AS SELECT K.k, C.m FROM K JOIN Counted C ON K.v = C.n;
CREATE RSTREAM VIEW Again {kept}AS SELECT n, m FROM Counted;
CREATE VIEW Rows {kept}AS SELECT k, v FROM A;
"""


@dataclass(frozen=True)
class Read:
    """What one read of some views gave: the time it is as of, in microseconds, and their rows. Views of tables alone
    (`static`) do not change. `open` are views that show the end of their input before it is closed.
    """

    time: int | None
    at_end: bool
    rows: dict[str, Counter]
    static: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()


def read_together(db, names, given=None):
    """Read views as an ad hoc query does, also STREAMED ones."""
    views = [db.workload.views[name.lower()] for name in names]
    with db.store.reading() as duck:
        metas = db.store.read_metas(METAS, duck)
        moment = choose_moment({v.entry.id: Asked(v) for v in views}, given, metas, db.workload.unit_us)
        past, standings = Past(db.store, duck), read_standings(metas, [v.entry.id for v in views])
        rows = {
            v.entry.name: Counter(
                canonical_row(row)
                for row in duck.sql(past.relation_sql(v.stored, *moment.bound_of(v.entry.id))).fetchall()
            )
            for v in views
        }
    at_end = given is None and all(s.limit >= FOREVER for s in standings.values())
    known = {v.entry.name: standings[v.entry.id] for v in views if v.entry.id in standings}
    static = frozenset(name for name, s in known.items() if s.is_static)
    is_open = frozenset(name for name, s in known.items() if s.end is not None and (moment.time or 0) >= s.closed)
    return Read(moment.time, at_end, rows, static, is_open)


class Watched(LocalDatabase):
    """After every batch it reads some sets of views as of their moment, and as of times that it draws."""

    seed: ClassVar[int] = 0
    reads: ClassVar[list[Read]] = []
    refused: ClassVar[Counter] = Counter()
    tell: ClassVar[list] = []

    def finish(self, end):
        super().finish(end)
        chance = random.Random(self.seed * 1000 + self.batch)
        names = [v.entry.name for v in self.workload.views.values()]
        for _ in range(2):
            chosen = chance.sample(names, chance.randint(2, len(names)))
            found = read_together(self, chosen)
            self.reads.append(found)
            if found.at_end:
                assert found.rows == {name: contents_of(self, name) for name in chosen}
        self._name_a_time(chance, chance.sample(names, chance.randint(1, len(names))))
        for follower in self.tell:
            follower()

    def _name_a_time(self, chance, chosen):
        """An answer as of a time in the past, or the error that says why there is none."""
        time = chance.randint(-1, 40) * UNIT
        ids = [self.workload.views[name.lower()].entry.id for name in chosen]
        standings = {v: s for v, s in read_standings(self.store.metas(), ids).items() if not s.is_static}
        try:
            found = read_together(self, chosen, AsOf(Decimal(time // UNIT)))
        except PlanProblem as problem:
            self.refused[problem.code] += 1
            if problem.code == "TM232":
                ends = [s.end for s in standings.values() if s.end is not None]
                open_views = [s for s in standings.values() if s.end is None]
                assert any(time >= s.closed for s in open_views) or (not open_views and time > max(ends))
            else:
                assert problem.code == "TM233" and any(time + 1 < min(s.since, s.closed) for s in standings.values())
            return
        # Times that the next rows may change are in `test_the_open_end_has_times_too`.
        if all(time < s.closed for s in standings.values()):
            self.reads.append(found)


@st.composite
def looping_workloads(draw):
    """Every stream has a row from the first batch on: an aggregate of nothing begins when all sources have had one, and
    the oracle does not know when that was.
    """
    sources, views = draw(workloads(most=3))
    assume(all(s.rows for s in sources if not s.static))
    kept = draw(st.sampled_from(["", RETAIN]))
    return sources, views, kept, draw(st.integers(0, 1000))


def start(db, views, kept, seed):
    """The views of an example, and a clean slate for what is read of them."""
    Watched.seed, Watched.reads, Watched.tell = seed, [], []
    db.execute(LOOPING.format(kept=kept))
    create(db, views)


def expected_at(history, time):
    """The rows of a view at a time, or before all events."""
    moments = sorted(history)
    place = bisect_right(moments, time) if time is not None else 0
    return Counter(map(canonical_row, history[moments[place - 1]])) if place else Counter()


def check_reads(db, sources, reads):
    """Each read equals the oracle at its time; how many there were that show something."""
    telling = 0
    with oracle(db, sources) as truth:
        histories = {v: truth.history(plan_of(db, v)) for v in {name for read in reads for name in read.rows}}
        for read in reads:
            if read.at_end:
                continue
            for name, found in read.rows.items():
                if name in read.open:
                    continue
                expected = expected_at(histories[name], FOREVER if name in read.static else read.time)
                assert same_rows(found, expected), (
                    f"{name} as of {None if read.time is None else read.time / UNIT}, with {sorted(read.rows)}:"
                    f"\n  read {sorted(found.elements(), key=str)}\n  is   {sorted(expected.elements(), key=str)}"
                )
                telling += bool(expected)
    return telling


@effort(5)
@given(work=looping_workloads(), place=places)
def test_views_read_together_are_as_of_one_time(work, place):
    sources, views, kept, seed = work
    with drawn_database(sources, kind=Watched, **place) as db:
        start(db, views, kept, seed)
        db.run()
        check_reads(db, sources, Watched.reads)


@effort(3)
@given(work=looping_workloads(), place=places, data=st.data())
def test_also_across_open_ends_of_runs(work, place, data):
    """While the provisional end goes through loops, some views show it and others do not yet."""
    sources, views, kept, seed = work
    there = [[max(rows, 1) for rows in runs] for runs in data.draw(portions(sources, most=3))]
    with drawn_database(sources, kind=Watched, write=False, **place) as db:
        folder, written = Path(db.paths.root).parent, [(0, 0)] * len(sources)
        for s in sources:
            (folder / s.name).mkdir(parents=True, exist_ok=True)
        start(db, views, kept, seed)
        for number in range(len(there[0])):
            for i, stream in enumerate(sources):
                first, file = written[i]
                written[i] = there[i][number], stream.write(folder, first, there[i][number], file)
            db.run(final=number == len(there[0]) - 1)
        check_reads(db, sources, Watched.reads)


@effort(5)
@given(work=looping_workloads(), place=places)
def test_views_followed_together_are_as_of_one_time_after_each_delivery(work, place):
    sources, views, kept, seed = work
    with drawn_database(sources, kind=Watched, **place) as db:
        start(db, views, kept, seed)
        names, chance = [v.entry.name for v in db.workload.views.values()], random.Random(seed)
        followers = []

        def follow():
            """From some batch on, what a subscriber of some views knows after each delivery."""
            if len(followers) < 3 and chance.random() < 0.5:
                followers.append(Follower(db, chance.sample(names, chance.randint(2, len(names)))))
            for follower in followers:
                follower.take()

        follow()
        Watched.tell.append(follow)
        db.run()
        for follower in followers:
            check_reads(db, sources, follower.seen)


class Follower:
    """Replays what one subscription delivers."""

    def __init__(self, db, names):
        self.names = {db.workload.views[n.lower()].entry.id: n for n in names}
        stored = [db.workload.views[n.lower()].stored for n in names]
        first, self.joint = db.outlet.subscribe_together(stored)
        self.logs = {view: [] for view in self.names}
        self.seen: list[Read] = []
        self._add(first)

    def take(self):
        while not self.joint.queue.empty():
            self._add(self.joint.queue.get(0))

    def _add(self, moment):
        for view, table in moment.changes.items():
            for row in table.to_pylist():
                time, tag, old = row.pop("__time"), row.pop("__tag"), row.pop("__old")
                assert moment.time is None or time <= moment.time, "a change after the moment it belongs to"
                known = canonical_row(old.values()) if old is not None else None
                self.logs[view].append(Change(time, tag, canonical_row(row.values()), known))
        rows = {name: dict(replay(self.logs[view], [FOREVER]))[FOREVER] for view, name in self.names.items()}
        self.seen.append(Read(moment.time, False, rows))
