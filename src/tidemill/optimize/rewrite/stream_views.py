"""Groupings over views that only select and project a stream read the stream, so that their windows share."""

from __future__ import annotations

from tidemill.optimize.rewrite.distinct_windows import distinct_windows
from tidemill.optimize.rewrite.keyless_windows import keyless_windows
from tidemill.optimize.rewrite.window_aggregates import window_aggregates
from tidemill.optimize.views.canonical import canonical
from tidemill.optimize.views.total import is_total
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef

_SHARING = (window_aggregates, distinct_windows, keyless_windows)
_STAMP = Item(r.TS, ColumnRef(r.TS), "BIGINT")


def unfold_stream_views(node: Relation) -> Relation | None:
    """Put the selections and projections of a view in its place, and the time of a record in that of its appearance.

        GroupBy[k; f(a)]                 GroupBy[k; f(a)]
          Temporal[W]                      Temporal[W]
            Stamp                            Project[k, a, __ts]
              View v              →            Filter[p]
                Project[k, a]                    Scan
                  Filter[p]
                    Scan

    Sound when 1. the view began with the query: a later reader begins with what is stored of the view; 2. the view, and
    all views that it reads, only select and project an append-only stream: then a row appears at the time of its record
    and never leaves; 3. no expression of these views can fail: a row on which one does is not in the view, and a query
    that does not evaluate the expression would count it. The stamp of a subquery of this kind is the time of the record
    as well. Worth it only where the windows then share: elsewhere the rows of the view are there already. Views with
    points or windows of their own stay as they are, and so do those of keyed streams, which take rows back, and of
    streams whose late rows are applied, which appear after their time.
    """
    if not isinstance(node, r.GroupBy):
        return None
    below = _unfold(node.input)
    if below is node.input:
        return None
    better = r.with_children(node, below)
    return better if any(rule(better) is not None for rule in _SHARING) else None


def _unfold(node: Relation) -> Relation:
    if isinstance(node, r.Stamp):
        rows = _read_stream(node.input)
        return node if rows is None or r.TS in rows.names else _keep_stamp(rows)
    if isinstance(node, r.View):
        return _read_stream(node) or node
    if isinstance(node, (r.Filter, r.Project, r.Temporal, r.Synchronize)):
        below = _unfold(node.input)
        return node if below is node.input else r.with_children(node, below)
    return node


def _read_stream(node: Relation) -> Relation | None:
    """The rows of a tree as selections and projections of a stream; None where these might be other rows."""
    if isinstance(node, r.View):
        return None if node.late else _read_stream(node.input)
    if isinstance(node, r.Scan):
        return None if node.static else node
    if not isinstance(node, (r.Filter, r.Project)) or not _never_fails(node):
        return None
    below = _read_stream(node.input)
    return None if below is None else r.with_children(node, below)


def _never_fails(node: r.Filter | r.Project) -> bool:
    types = {canonical(ColumnRef(c.name)): c.type for c in node.input.schema}
    values = [node.predicate] if isinstance(node, r.Filter) else [item.value for item in node.items]
    return all(is_total(value, types) for value in values)


def _keep_stamp(rows: Relation) -> Relation:
    """The same rows with the times of their records."""
    if isinstance(rows, r.Project):
        return r.Project(_keep_stamp(rows.input), (*rows.items, _STAMP))
    if isinstance(rows, r.Filter):
        return r.with_children(rows, _keep_stamp(rows.input))
    return rows
