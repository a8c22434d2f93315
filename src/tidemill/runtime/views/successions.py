"""What replaced views show is copied for those that take their place: all as of one time, as they are read together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.runtime.views.beginnings import BEGAN
from tidemill.runtime.views.moments import METAS, Standing, common_moment, read_standings
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.stand_ins import META, read_stand_ins, stand_in_table
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView


@dataclass(frozen=True)
class Shown:
    """A view that is replaced, and the time as of which it reads its streams again: what it was before is not known."""

    view: StoredView
    moment: int | None = None


@dataclass(frozen=True)
class Succession:
    """A view that is replaced, the view that takes its place, and the first of those that do so in one statement."""

    old: Shown
    new: StoredView
    first: str


def can_stand_in(old: StoredView, new: StoredView, metas: Mapping[str, str]) -> bool:
    """Whether ad hoc queries may read both, and the old one shows something."""
    if "streamed" in (old.output, new.output):
        return False
    standing = read_standings(metas, [old.id]).get(old.id)
    return old.id in read_stand_ins(metas) or (standing is not None and standing.has_begun)


def copy_shown(successions: Sequence[Succession], store: ViewStore, duck: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Copy what replaced views show in the connection's transaction; what was stored of it beside."""
    metas = store.read_metas((*METAS, BEGAN, META), duck)
    waiting, past = read_stand_ins(metas), Past(store, duck)
    moments = _moments([s.old for s in successions if s.old.view.id not in waiting], metas)
    for s in successions:
        old = s.old.view
        there = f"SELECT * FROM {stand_in_table(old.id)}"
        rows = there if old.id in waiting else past.relation_sql(old, *moments[old.id])
        duck.execute(f"CREATE TABLE {stand_in_table(s.new.id)} AS {rows}")
    stored = {META: json.dumps(waiting | {s.new.id: s.first for s in successions})}
    store.set_metas(stored, duck)
    return stored


def _moments(shown: Sequence[Shown], metas: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """View → the moment as of which it is copied, and how far it is closed: those of one time domain together, as ad
    hoc queries read them. FOREVER: as it is, also where that moment is not known of all of them.
    """
    views = {one.view.id: one.view for one in shown}
    began = json.loads(metas.get(BEGAN, "{}")) | {s.view.id: s.moment for s in shown if s.moment is not None}
    standings = {v: s for v, s in read_standings(metas, views).items() if not s.is_static}
    shows_end = metas.get("peek", "0") != "0"
    found = dict.fromkeys(views, (FOREVER, FOREVER))
    for domain in {view.stamp_type for view in views.values()}:
        members = {v: s for v, s in standings.items() if views[v].stamp_type == domain}
        common = common_moment(members)
        if all(_is_known(moment, members[v], began.get(v, BEGINNING)) for v, moment in common.items()):
            found |= {v: (m, members[v].closed) for v, m in common.items() if shows_end or m < members[v].closed}
    return found


def _is_known(moment: int, standing: Standing, began: int) -> bool:
    return standing.reaches(moment) and not BEGINNING < moment <= began
