"""Refuses what would keep state for ever, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation


def check_bounded(root: Relation, named: Callable[[], Mapping[str, str]]) -> None:
    """Raise when a join would have to remember every row of an input that never stops growing.

    Difference, distinct, grouping and keyed streams are allowed: their state follows the keys. `named` maps
    each source to the stream by which users know it; it is asked when there is something to say only.
    """
    for node in walk(root):
        if isinstance(node, r.Join):
            _check_join(node, named)


def grows(node: Relation) -> bool:
    """True when the relation keeps every row of an endless stream."""
    if isinstance(node, r.Scan):
        return not node.static
    if isinstance(node, (r.Rstream, r.Clock)):
        return True
    if isinstance(node, r.Temporal):
        # Without bounds it is [WINDOW UNTIL NOW]: the user asks for everything.
        return node.upper is None and node.lower is not None and grows(node.input)
    if isinstance(node, (r.Tag, r.RowsWindow, r.GroupBy, r.WindowAggregate, r.JoinAggregate, r.SetCombine, r.Seed,
                         r.RowPoints)):
        return False
    if isinstance(node, r.SynchronizeOn):
        return grows(node.input)
    return any(grows(c) for c in node.children if isinstance(c, Relation))


def _check_join(node: r.Join, named: Callable[[], Mapping[str, str]]) -> None:
    for side, other, kept in ((node.left, node.right, node.keep_left_us), (node.right, node.left, node.keep_right_us)):
        if kept is None and grows(side) and not r.never_changes(other):
            streams = named()
            left, right = _names(node.left, streams), _names(node.right, streams)
            raise PlanProblem(
                "TM204", f"join of {left} and {right} would keep state for ever",
                detail=f"{_names(side, streams)} has neither a window nor a key, so every row may still find a partner",
                hint=f"add a window, for example  {_first(side, streams)} [WINDOW 10 MINUTES],"
                     "  or say WITH (unbounded_state = true)",
            )


def _first(node: Relation, streams: Mapping[str, str]) -> str:
    return next(iter(_sources(node, streams)), "clockStr")


def _names(node: Relation, streams: Mapping[str, str]) -> str:
    return " and ".join(f'stream "{n}"' for n in _sources(node, streams)) or "clockStr"


def _sources(node: Relation, streams: Mapping[str, str]) -> list[str]:
    scans = [n for n in walk(node) if isinstance(n, r.Scan) and not n.static]
    return list(dict.fromkeys(streams.get(n.source, n.source) for n in scans))
