"""What EXPLAIN says of shared work: windows and keyed streams that are shared, the plans of aggregation joins."""

from __future__ import annotations

from typing import Any

from tidemill.engine.views.rereading import second_specs
from tidemill.engine.workload import Workload
from tidemill.optimize.joins.report import report as join_report
from tidemill.optimize.lower import lower
from tidemill.optimize.rewrite.window_aggregates import why_not
from tidemill.optimize.share.report import report
from tidemill.optimize.share.sharing_key import settings_for, sharing_key
from tidemill.optimize.views.tagging import report_tagging
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation


def report_joins(workload: Workload, roots: dict[str, Relation]) -> tuple[dict[str, Any], ...]:
    """Every plan of the aggregation joins of these queries."""
    settings = workload.join_planning.settings.copy()
    return tuple(
        join_report(name, n, settings)
        for name, node in roots.items()
        for n in walk(node)
        if isinstance(n, r.JoinAggregate)
    )


def report_taggers(workload: Workload, roots: dict[str, Relation]) -> tuple[dict[str, Any], ...]:
    """The keyed streams that these queries read beside others, and the pipelines over each."""
    everything = {v.entry.name: v.node for v in workload.running_views()} | roots
    settings = workload.choose_taggers(workload.pending, roots.values())
    return tuple(report_tagging(everything, roots.values(), settings))


def report_sharing(
    workload: Workload, roots: dict[str, Relation]
) -> tuple[tuple[dict[str, Any], ...], tuple[tuple[str, str], ...]]:
    """How window aggregates share their work once these queries stand beside the others; and why some do not."""
    everything = {v.entry.name: v.node for v in workload.views.values()} | roots
    settings = workload.sharing.settings.copy()
    specs = {e.spec.name: e.spec for e in workload.catalog.of("source", "table") if e.spec}
    specs |= second_specs(everything.values(), specs)
    lower(
        everything,
        specs,
        version=0,
        unit_us=workload.unit_us,
        shards=(0,),
        bits={},
        sharing=settings,
        join_settings=workload.join_planning.settings.copy(),
    )
    nodes = {name: [n for n in walk(node) if isinstance(n, r.WindowAggregate)] for name, node in everything.items()}
    names = {n.fingerprint: name for name, found in nodes.items() for n in found}
    asked = {sharing_key(n): n for name in roots for n in nodes[name]}
    reports = tuple(
        report(fed, settings.reader_plans[fed], settings_for(node, settings), names) | _rows_title(node)
        for fed, node in sorted(asked.items())
    )
    alone = tuple(
        (name, reason)
        for name, node in roots.items()
        for n in walk(node)
        if isinstance(n, r.GroupBy) and not isinstance(_below(n), r.WindowAggregate) and (reason := why_not(n))
    )
    return reports, alone


def _rows_title(node: r.WindowAggregate) -> dict[str, Any]:
    """Windows that count rows share by what they number; rates are then for a million rows."""
    if not node.counts_rows:
        return {}
    below = next((n.source for n in walk(node) if isinstance(n, r.Scan)), "a view")
    return {"source": f"the rows of {below} by number (rates for 1,000,000 rows)"}


def _below(node: Relation) -> Relation:
    """What a grouping groups, without projections: of a distinct count's upper level, a window aggregate."""
    below = node.children[0]
    while isinstance(below, (r.Project, r.Filter)):
        below = below.input
    assert isinstance(below, Relation)
    return below
