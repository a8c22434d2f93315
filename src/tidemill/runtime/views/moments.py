"""As of which time several views can be read together.

A view is *closed* up to its frontier: every change before it is in the view, and none will come. A view whose plan
loops is closed later than its neighbours. Several views are read as of one *moment*, an exclusive bound: the changes
before it count. It is the least frontier of the views that are read. Views that are further take back what they have
shown from the moment on, so these changes are kept until no view needs them (`history`).

Where the input has ended for now (the open end of a run), a view that shows everything up to the end is limited by
nothing: no row is left that it could wait for.

A view that has closed no time is empty. It holds back the views that were there no earlier than it: those stand as of
before their beginning. Older views do not wait for a view that was just created.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.plan.physical import BEGINNING, FOREVER, Physical
from tidemill.runtime.views.stored_view import StoredView

FRONTIERS = "gates"  # the name under which they are stored
METAS = (FRONTIERS, "kept", "ends", "peek", "floor", "began")  # what is stored of a batch that says how far views are


@dataclass(frozen=True)
class Standing:
    """How far a view is after a micro-batch."""

    closed: int  # its frontier
    since: int  # all its changes from this time on are kept
    born: int  # the first batch that had the view
    end: int | None = None  # the greatest time of its inputs, where the view shows everything up to it

    @property
    def limit(self) -> int:
        """The greatest moment as of which the view is known."""
        return self.closed if self.end is None else FOREVER

    @property
    def has_begun(self) -> bool:
        """Whether a time of it is closed."""
        return self.limit > BEGINNING

    @property
    def is_static(self) -> bool:
        """Whether it never changes: it reads tables only."""
        return self.closed >= FOREVER

    def reaches(self, moment: int) -> bool:
        """Whether the view can be shown as of the moment, if it is known so far: nothing has to be taken back, or
        everything that has to be is kept.
        """
        return moment >= min(self.since, self.closed)


def read_frontiers(metas: Mapping[str, str]) -> dict[str, int]:
    """How far "view <id>" is closed after the last batch, and "clock", the clock of the job; {} before the first."""
    found: dict[str, int] = json.loads(metas.get(FRONTIERS, "{}"))
    return found


def read_standings(metas: Mapping[str, str], views: Iterable[str]) -> dict[str, Standing]:
    """View id → how far it is; views that no batch has seen are left out.

    A database of an older version has not stored what is kept, nor up to which time an open end is shown.
    """
    frontiers, kept = read_frontiers(metas), json.loads(metas.get("kept", "{}"))
    ends = json.loads(metas.get("ends", "{}"))
    shows_end = metas.get("peek", "0") != "0"
    found = {}
    for view in views:
        closed = frontiers.get(f"view {view}")
        if closed is not None:
            since, born = kept.get(view, (closed, -1))
            end = ends.get(view) if "ends" in metas else closed - 1
            found[view] = Standing(closed, since, born, end if shows_end else None)
    return found


def newest_floor(metas: Mapping[str, str]) -> int:
    """How far the source that is furthest is closed. A view with synchronization points is closed up to the next one,
    but time has not come so far.
    """
    return int(metas.get("floor", FOREVER))


def common_moment(views: Mapping[str, Standing]) -> dict[str, int]:
    """View → the moment as of which it is read together with the others; FOREVER: as it is.

    >>> ahead, behind = Standing(9, 0, 0), Standing(5, 0, 0)
    >>> common_moment({"a": ahead, "b": behind})
    {'a': 5, 'b': 5}
    >>> waits, later = Standing(BEGINNING, BEGINNING, 3), Standing(9, 0, 4)
    >>> common_moment({"a": ahead, "b": waits, "c": later}) == {"a": 9, "b": BEGINNING, "c": BEGINNING}
    True
    """
    least = min((s.limit for s in views.values() if s.has_begun), default=BEGINNING)
    waiting = _first_waiting(views.values())
    return {name: BEGINNING if waiting <= s.born else least for name, s in views.items()}


def lowest_moments(views: Mapping[str, Standing]) -> dict[str, int]:
    """View → the least moment as of which it may be read together with any of the others."""
    least = min((s.closed for s in views.values() if s.closed > BEGINNING), default=BEGINNING)
    waiting = _first_waiting(views.values())
    return {name: BEGINNING if waiting <= s.born else least for name, s in views.items()}


def _first_waiting(views: Iterable[Standing]) -> int:
    """The batch that had the first of the views of which no time is closed."""
    return min((s.born for s in views if not s.has_begun), default=FOREVER)


def advance_frontiers(plan: Physical, reached: list[int], before: Mapping[str, int]) -> dict[str, int]:
    """How far each view of a plan is closed after a batch whose outputs have `reached` these frontiers. What was closed
    stays closed, also where a new plan begins with an operator that has closed nothing.
    """
    names = (f"view {output.view}" for output in plan.outputs)
    return {name: max(frontier, before.get(name, BEGINNING)) for name, frontier in zip(names, reached, strict=True)}


def advance_standings(
    before: Mapping[str, str], closed: Mapping[str, int], batch: int, views: Iterable[StoredView]
) -> dict[str, Standing]:
    """How far views are after a batch, with everything kept that was; `before` is what the batch before stored."""
    frontiers, kept = read_frontiers(before), json.loads(before.get("kept", "{}"))
    found = {}
    for view in views:
        name = f"view {view.id}"
        if name in closed:
            # The changes of a new view are kept from its first batch on; an older version kept none.
            since, born = kept.get(view.id) or ((frontiers[name], -1) if name in frontiers else (BEGINNING, batch))
            found[view.id] = Standing(closed[name], since, born)
    return found


def kept_from(
    standings: Mapping[str, Standing], views: Mapping[str, StoredView], stopped: Iterable[str]
) -> dict[str, int]:
    """View → the time from which its changes have to be kept: those that a read together with another view of its time
    domain may take back, and those that `retain` asks for. A view that has stopped holds nothing back.
    """
    idle = set(stopped)
    found: dict[str, int] = {}
    for domain in {views[v].stamp_type for v in standings}:
        members = {v: s for v, s in standings.items() if views[v].stamp_type == domain}
        running = {v: s for v, s in members.items() if v not in idle}
        least = lowest_moments(running)
        found |= {v: least.get(v, s.closed) for v, s in members.items()}
    for v, lowest in found.items():
        retain = views[v].retain_us
        if retain is not None:
            found[v] = min(lowest, max(standings[v].closed - retain, BEGINNING))
    return found
