"""EXPLAIN: the plan of a query, of a view, or of everything that stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.engine.show.sharing import report_joins, report_sharing
from tidemill.engine.show.shedding import remarks_on_shedding
from tidemill.engine.state import DatabaseState
from tidemill.engine.views.bound_view import Trace
from tidemill.engine.views.virtual import remark_on, remarks_on_reader
from tidemill.errors import PlanProblem
from tidemill.plan.relations import Relation
from tidemill.plan.show.plans import Explanation
from tidemill.plan.statements import CreateView, Select
from tidemill.runtime.spark.shard_labels import shard_labels
from tidemill.sql.catalog import VIRTUAL, Entry


def explain(state: DatabaseState, target: Any) -> Explanation:
    """The plan of `target`: a SELECT, a CREATE VIEW, a table expression that names a view, or None for everything."""
    if target is None:
        return _explain_roots(state, {v.entry.name: v.node for v in state.workload.views.values()}, (), None)
    if isinstance(target, exp.Table):
        entry = state.catalog.find(target.name, "view", "query")
        if entry.output == VIRTUAL:
            return _explain_virtual(state, entry)
        view = state.workload.views[entry.name.lower()]
        made = _explain_query(state, view.entry.name, view.node, view.trace)
        return replace(made, remarks=(*remarks_on_reader(entry, state.catalog), *made.remarks))
    if isinstance(target, (Select, CreateView)):
        name = target.name if isinstance(target, CreateView) else "query"
        output = "complete" if target.output == VIRTUAL else str(target.output)
        planned = state.workload.plan_query(target.query, output, target.options)
        return _explain_query(state, name, planned.node, planned.trace)
    raise PlanProblem(
        "TM216", "only queries and views can be explained", hint="EXPLAIN SELECT …, EXPLAIN VIEW v or EXPLAIN"
    )


def _explain_virtual(state: DatabaseState, entry: Entry) -> Explanation:
    """A virtual view as if it were a query of its own."""
    planned = state.workload.plan_query(state.workload.virtual_query(entry), "complete", {"unbounded_state": True})
    made = _explain_query(state, entry.name, planned.node, planned.trace)
    return replace(made, remarks=(remark_on(entry, state.catalog), *made.remarks))


def _explain_query(state: DatabaseState, name: str, node: Relation, trace: Trace) -> Explanation:
    return _explain_roots(state, {name: node}, trace, {name: node})


def _explain_roots(
    state: DatabaseState, roots: dict[str, Relation], trace: Trace, planned: dict[str, Relation] | None
) -> Explanation:
    """`planned` are the roots of the physical plan; None plans all running views under their ids."""
    workload = state.workload
    shards = shard_labels(state.catalog.settings.get("shards") or 2)
    physical = workload.physical(workload.pending, shards, planned)
    shared, joins = report_sharing(workload, roots), report_joins(workload, roots)
    return Explanation(roots, physical, trace, *shared, joins, remarks_on_shedding(state, roots.values()))
