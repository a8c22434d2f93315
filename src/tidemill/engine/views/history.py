"""Queries that begin with the history of their streams: `WITH (begin = 'history')`.

Usually a query sees the rows that come after its creation. With its history it has the answer that it would have if it
had stood since its streams were first read. That is possible where the streams have not been read yet, where views
that have seen every row contain the query (it then begins with what is stored of them), and where the streams can be
read again (`rereading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from tidemill.engine.views.bound_view import BoundView
from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.plan.sources import SourceSpec, registered_name
from tidemill.sql.catalog import Catalog

OPTION, HISTORY = "begin", "history"
BEGINNINGS = ("creation", HISTORY)
_UNKNOWN = 0  # a source that was read before its first reader was recorded
_TABLE = -1  # tables are there at all times
_SYNCHRONIZED = (r.Synchronize, r.SynchronizePeriods)
_RANKED = (r.Ranked, r.WindowFunctions)
_POINTWISE = (r.Project, r.Filter, r.Unnest, r.Join, r.GroupBy, r.SetCombine, r.Union, *_SYNCHRONIZED, *_RANKED)


class FirstReaders:
    """The plan version in which each source was first read, kept with the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        known = {e.spec.name: _UNKNOWN for e in catalog.of("source") if e.spec} if catalog.version else {}
        self._births: dict[str, int] = catalog.settings.setdefault("first_read", known)

    def record(self, view: BoundView) -> None:
        """A view was created: it is the first reader of sources that had none."""
        for scan in streams_of(view.query.node):
            self._births.setdefault(scan.source, scan.birth)

    def forget(self, source: str) -> None:
        """A source was dropped: its name never comes again."""
        self._births.pop(source, None)

    def has_history(self, query: Relation) -> bool:
        """Whether rows of the query's streams were read before it begins."""
        return any(self._births.get(scan.source, scan.birth) < scan.birth for scan in streams_of(query))

    def was_read(self, source: str, birth: int) -> bool:
        """Whether a source was read before plan `birth`."""
        return self._births.get(source, birth) < birth

    def first_read(self, source: str) -> int:
        """The plan version in which a source was first read."""
        return self._births.get(source, _UNKNOWN)

    def since_the_beginning(self, node: Relation) -> Relation:
        """The query as it would stand since its streams were first read."""

        @cache
        def visit(node: Relation) -> Relation:
            if isinstance(node, r.View):
                return node
            if isinstance(node, r.Scan):
                birth = _TABLE if node.static else self._births.get(node.source, node.birth)
                return replace(node, birth=birth)
            inputs = [c for c in node.children if isinstance(c, Relation)]
            return r.with_children(node, *map(visit, inputs)) if inputs else node

        return visit(node)

    def is_complete(self, view: BoundView, views: Mapping[str, BoundView]) -> bool:
        """Whether a view has seen every row of its streams, and keeps its whole answer."""
        if view.entry.options.get("retain") and view.entry.output != "complete":
            return False
        if view.entry.moment is not None:
            return True
        node = view.query.node
        begun = self.since_the_beginning(node) if begins_with_history(view.entry.options) else node
        return self._is_complete(begun, views)

    def _is_complete(self, node: Relation, views: Mapping[str, BoundView]) -> bool:
        @cache
        def visit(node: Relation) -> bool:
            if isinstance(node, r.Scan):
                return node.static or self._births.get(node.source, _UNKNOWN) == node.birth != _UNKNOWN
            if isinstance(node, r.View):
                return visit(node.input)
            inputs = [c for c in node.children if isinstance(c, Relation)]
            seeds = [i for i in inputs if isinstance(i, r.Seed)]
            if seeds:  # a view that ran before: its contents are its history
                return all(s.view in views and self.is_complete(views[s.view], views) for s in seeds)
            if isinstance(node, r.CatchUp):
                return True
            if isinstance(node, (r.Seed, r.Clock)):
                return False
            return (not began_later(node) or isinstance(node, _POINTWISE)) and all(map(visit, inputs))

        return visit(node)


def streams_of(query: Relation) -> list[r.Scan]:
    """The streams that a query reads itself, not through views."""
    return [n for n in r.nodes_above_views(query) if isinstance(n, r.Scan) and not n.static]


def began_later(node: Relation) -> bool:
    """Whether a view begins with rows that came before it: what other views held, or what is read again."""
    return any(isinstance(n, (r.Seed, r.CatchUp)) for n in walk(node))


def no_history(scans: list[r.Scan], refused: Mapping[str, str], why_not_again: str) -> PlanProblem:
    """Why a query cannot begin with the history of its streams."""
    sources = ", ".join(sorted({f'"{registered_name(scan.source)}"' for scan in scans}))
    nearest = next(iter(refused.items()), None)
    views = f"nearest is {nearest[0]}: {nearest[1]}" if nearest else "there is no such view over the same inputs"
    return PlanProblem(
        "TM223",
        f"the rows that were read of {sources} are gone: no view that has seen all of them contains this query",
        detail=f"{views}; {why_not_again}",
        hint="WITH (begin = 'creation') begins with the rows to come; RESTART SOURCE reads the source again",
    )


def has_whole_times(spec: SourceSpec) -> bool:
    """Whether the event times of a source are whole clock units, or are shown as they are."""
    if spec.timestamp is None:
        return True
    kind = next(c.type for c in spec.columns if c.name == spec.timestamp)
    return kind in INTEGERS or kind.startswith(("TIMESTAMP", "DATE"))


def begins_with_history(options: Mapping[str, Any]) -> bool:
    """What the options of a view say."""
    return options.get(OPTION) == HISTORY
