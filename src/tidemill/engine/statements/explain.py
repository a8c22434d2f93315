"""EXPLAIN: the plan of a query, of a view, or of everything that stands."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from sqlglot import exp

from tidemill.engine.show.answers import Holds, report_answers
from tidemill.engine.show.operators import report_operators
from tidemill.engine.show.sharing import report_joins, report_sharing, report_taggers
from tidemill.engine.show.shedding import remarks_on_shedding
from tidemill.engine.show.why import missed_rows
from tidemill.engine.sites.remarks import remarks_on_sites
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.moment import time_text
from tidemill.engine.views.bound_view import BoundView, PlannedQuery, Trace
from tidemill.engine.views.history import begins_with_history, streams_of
from tidemill.engine.views.virtual import remark_on, remarks_on_reader
from tidemill.errors import PlanProblem
from tidemill.optimize.views.answer import Answer
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import BEGINNING
from tidemill.plan.points import show_relation_points
from tidemill.plan.relations import Relation
from tidemill.plan.show.plans import Explanation
from tidemill.plan.statements import CreateView, Select
from tidemill.runtime.spark.shard_labels import shard_labels
from tidemill.runtime.views.feedback import last_closed
from tidemill.runtime.views.moments import FRONTIERS, read_frontiers
from tidemill.sql.bind.query import BoundQuery
from tidemill.sql.catalog import VIRTUAL, Entry


def explain(state: DatabaseState, target: Any) -> Explanation:
    """The plan of `target`: a SELECT, a CREATE VIEW, a table expression that names a view, or None for everything."""
    if target is None:
        views = {v.entry.name: (v.query, v.node) for v in state.workload.views.values()}
        return _explain_roots(state, views, (), None)
    if isinstance(target, exp.Table):
        entry = state.catalog.find(target.name, "view", "query")
        if entry.output == VIRTUAL:
            return _explain_virtual(state, entry)
        view = state.workload.views[entry.name.lower()]
        made = _explain_query(state, view.entry.name, (view.query, view.node), view.trace, view.answer)
        remarks = (*remarks_on_reader(entry, state.catalog), *remarks_on_sites(entry.options, state.sites.status()))
        return replace(made, remarks=(*remarks, *made.remarks))
    if isinstance(target, (Select, CreateView)):
        name = target.name if isinstance(target, CreateView) else "query"
        output = "complete" if target.output == VIRTUAL else str(target.output)
        planned = state.workload.plan_query(target.query, output, target.options)
        answer = replace(planned.answer, refused={**planned.answer.refused, **_not_compared(state, planned)})
        holds = partial(_say_what_is_held, state)
        made = _explain_query(state, name, (planned.bound, planned.node), planned.trace, answer, holds)
        return replace(made, remarks=(*remarks_on_sites(target.options, state.sites.status()), *made.remarks))
    raise PlanProblem(
        "TM216", "only queries and views can be explained", hint="EXPLAIN SELECT …, EXPLAIN VIEW v or EXPLAIN"
    )


_Query = tuple[BoundQuery, Relation]  # what users see of a query, and its plan


def _explain_virtual(state: DatabaseState, entry: Entry) -> Explanation:
    """A virtual view as if it were a query of its own."""
    planned = state.workload.plan_query(state.workload.virtual_query(entry), "complete", {"unbounded_state": True})
    made = _explain_query(state, entry.name, (planned.bound, planned.node), planned.trace, planned.answer)
    return replace(made, remarks=(remark_on(entry, state.catalog), *made.remarks))


def _explain_query(
    state: DatabaseState, name: str, query: _Query, trace: Trace, answer: Answer, holds: Holds = lambda _: None
) -> Explanation:
    found = _explain_roots(state, {name: query}, trace, {name: query[1]})
    bound, unit = query[0], state.workload.unit_us
    reports = report_answers(answer, unit, bound.domain, bound.needs, state.catalog.hidden, holds)
    again = () if answer.moment is None else (f"{name} reads its streams again from the beginning",)
    return replace(found, answers=reports, refused=answer.refused, remarks=(*again, *found.remarks))


def _not_compared(state: DatabaseState, planned: PlannedQuery) -> dict[str, str]:
    """Why a new query was not even compared with some views."""
    workload, answer, found = state.workload, planned.answer, dict[str, str]()
    own = {scan.source for scan in streams_of(planned.bound.node)}
    known = {*answer.refused, *(part.view.name for part in answer.parts), *planned.bound.needs}
    for view in workload.views.values():
        if view.entry.name in known or not own:
            continue
        if own.isdisjoint(n.source for n in walk(view.query.node) if isinstance(n, r.Scan)):
            found[view.entry.name] = "other inputs"
        elif view.entry.birth != workload.pending and not answer.parts and answer.moment is None:
            why = "with another plan" if _has_seen_nothing(state, view) else "and has seen other rows"
            found[view.entry.name] = f"it began earlier, {why}"
    return found


def _has_seen_nothing(state: DatabaseState, view: BoundView) -> bool:
    """Whether no row of the streams of a view was read since it was created."""
    reads_streams = all(state.catalog.find(name).kind in ("stream", "table") for name in view.query.needs)
    if begins_with_history(view.entry.options) or not reads_streams:
        return False
    return missed_rows(view, state.catalog, state.outlet.source_totals) == view.entry.missed


def _say_what_is_held(state: DatabaseState, view_id: str) -> str | None:
    """How many rows a view has and as of when; None where nothing of it is closed."""
    stored = next((v.stored for v in state.workload.views.values() if v.entry.id == view_id), None)
    with state.store.reading() as duck:
        frontiers = read_frontiers(state.store.read_metas((FRONTIERS,), duck))
        if stored is None or frontiers.get(f"view {view_id}", BEGINNING) == BEGINNING:
            return None
        rows = sum(state.store.contents(stored, duck)["__diff"].to_pylist())
    time = time_text(last_closed(frontiers, stored), stored.stamp_type, state.workload.unit_us)
    return f"what {stored.name} has, {rows:,} rows as of {time}"


def _explain_roots(
    state: DatabaseState, queries: dict[str, _Query], trace: Trace, planned: dict[str, Relation] | None
) -> Explanation:
    """`planned` are the roots of the physical plan; None plans all running views under their ids."""
    workload = state.workload
    state.learn_streams()
    shards = shard_labels(state.catalog.settings.get("shards") or 2)
    physical = workload.physical(workload.pending, shards, planned)
    roots = {name: node for name, (_, node) in queries.items()}
    points = tuple(
        (name, show_relation_points(node, workload.unit_us, bound.domain)) for name, (bound, node) in queries.items()
    )
    return Explanation(
        roots,
        physical,
        trace,
        *report_sharing(workload, roots),
        joins=report_joins(workload, roots),
        points=points,
        operators=report_operators(physical, state.operators),
        tagging=report_taggers(workload, roots),
        remarks=remarks_on_shedding(state, roots.values()),
    )
