"""Refuses what would keep state for ever, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import TypeGuard

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation

Place = tuple[int, int] | None  # line and column in the text of the query


def check_bounded(
    root: Relation,
    named: Callable[[], Mapping[str, str]],
    accepted: Container[str] = (),
    place: Callable[[str], Place] = lambda _: None,
) -> None:
    """Raise when a join or a window function would have to remember every row of an input that never stops growing.

    Difference, distinct, grouping, keyed streams and the first rows of each partition are allowed: their state follows
    the keys. Views have been checked when they were created; those in `accepted` may grow for ever, and so may what
    reads them. `named` maps each source to the stream that users have named; it is called only for an error. `place` is
    where the query names an input.
    """
    for node in _own(root):
        side = _endless(node, accepted) if isinstance(node, r.Join) else None
        if side is not None:
            assert isinstance(node, r.Join)
            raise _problem(node, side, named(), place)
        if isinstance(node, r.JoinAt) and is_unbounded(node.right, accepted):
            raise _problem(node, node.right, named(), place)
        if _keeps_all(node) and is_unbounded(node.input, accepted):
            raise _ranking_problem(node.input, named(), place)
        if isinstance(node, r.Recursive):
            endless = next((i for i in node.inputs if is_unbounded(i, accepted)), None)
            if endless is not None:
                raise _recursion_problem(endless, named(), place)
        if isinstance(node, r.Sessions) and not r.closes_for_good(node) and is_unbounded(node.input, accepted):
            raise _session_problem(node.input, named(), place)


def _keeps_all(node: Relation) -> TypeGuard[r.Ranked | r.WindowFunctions]:
    """True for an operator that keeps all rows of its partitions: any of them may still be shown, or move."""
    if isinstance(node, r.Ranked):
        return node.last is None or not r.append_only(node.input)
    return isinstance(node, r.WindowFunctions)


def _own(root: Relation) -> Iterator[Relation]:
    """The relations of a query itself, without what lies below the views that it reads."""
    seen, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            yield node
            todo += [c for c in node.children if isinstance(c, Relation)] if not isinstance(node, r.View) else []


def is_unbounded(node: Relation, accepted: Container[str] = ()) -> bool:
    """True if the relation keeps every row of an endless stream, so that its state has no bound."""
    if isinstance(node, r.Scan):
        return not node.static
    if isinstance(node, (r.Rstream, r.ChangeStream, r.Clock)):
        return True
    if isinstance(node, r.Delivered):
        return False  # a view, which was checked where it was created
    if isinstance(node, r.View) and node.name in accepted:
        return False
    if isinstance(node, r.Temporal):
        # Without bounds it is [WINDOW UNTIL NOW]: the user wants all rows to be kept.
        return node.upper is None and node.lower is not None and is_unbounded(node.input, accepted)
    if isinstance(
        node, (r.Tag, r.RowsWindow, r.GroupBy, r.WindowAggregate, r.JoinAggregate, r.SetCombine, r.Seed, r.RowPoints)
    ):
        return False
    if isinstance(node, r.Ranked) and node.last is not None:
        return False
    if isinstance(node, r.SynchronizeOn):
        return is_unbounded(node.input, accepted)
    if isinstance(node, r.JoinAt):
        return is_unbounded(node.left, accepted)
    return any(is_unbounded(c, accepted) for c in node.children if isinstance(c, Relation))


def _endless(node: r.Join, accepted: Container[str]) -> Relation | None:
    """A side of which the join would keep all rows for ever."""
    sides = (node.left, node.right, node.keep_left_us), (node.right, node.left, node.keep_right_us)
    return next(
        (
            side
            for side, other, kept in sides
            if kept is None and is_unbounded(side, accepted) and not r.never_changes(other)
        ),
        None,
    )


def _problem(
    node: r.Join | r.JoinAt, side: Relation, streams: Mapping[str, str], place: Callable[[str], Place]
) -> PlanProblem:
    left, right, endless = (_names(n, streams) for n in (node.left, node.right, side))
    first = next((name for _, name in _inputs(side, streams)), "clockStr")
    line, column = place(first) or (None, None)
    return PlanProblem(
        "TM204",
        f"join of {left} and {right} would keep state for ever",
        detail=f"{endless} has neither a window nor a key, so every row may still find a partner",
        hint=f"add a window, for example  {first} [WINDOW 10 MINUTES],  or say WITH (keep = '1 day'): rows whose times"
        " are farther apart are not joined,  or WITH (unbounded_state = true)",
        line=line,
        column=column,
    )


def _ranking_problem(rows: Relation, streams: Mapping[str, str], place: Callable[[str], Place]) -> PlanProblem:
    first = next((name for _, name in _inputs(rows, streams)), "clockStr")
    line, column = place(first) or (None, None)
    return PlanProblem(
        "TM204",
        f"ranks and window functions over {_names(rows, streams)} would keep state for ever",
        detail="every row of a partition is kept: any of them may still get another rank, neighbour or sum",
        hint=f"add a window, for example  {first} [WINDOW 10 MINUTES],  or keep the first rows of each partition only"
        " (QUALIFY row_number() OVER (…) <= 3, LIMIT 3),  or say WITH (unbounded_state = true)",
        line=line,
        column=column,
    )


def _session_problem(rows: Relation, streams: Mapping[str, str], place: Callable[[str], Place]) -> PlanProblem:
    first = next((name for _, name in _inputs(rows, streams)), "clockStr")
    line, column = place(first) or (None, None)
    return PlanProblem(
        "TM204",
        f"sessions of {_names(rows, streams)} would keep state for ever",
        detail="its rows may come after their times or be taken back, so no session is ever over for good",
        hint="leave late = 'apply' out,  or say WITH (unbounded_state = true)",
        line=line,
        column=column,
    )


def _recursion_problem(rows: Relation, streams: Mapping[str, str], place: Callable[[str], Place]) -> PlanProblem:
    first = next((name for _, name in _inputs(rows, streams)), "clockStr")
    line, column = place(first) or (None, None)
    return PlanProblem(
        "TM204",
        f"WITH RECURSIVE over {_names(rows, streams)} would keep state for ever",
        detail="every row may still find others, so all are kept",
        hint=f"use a keyed stream or a window, for example  {first} [WINDOW 10 MINUTES],"
        "  or say WITH (unbounded_state = true)",
        line=line,
        column=column,
    )


def _names(node: Relation, streams: Mapping[str, str]) -> str:
    return " and ".join(f'{kind} "{n}"' for kind, n in _inputs(node, streams)) or "clockStr"


def _inputs(node: Relation, streams: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a user has named in FROM: views, and streams."""
    found = [
        ("view", n.name) if isinstance(n, r.View) else ("stream", streams.get(n.source, n.source))
        for n in reversed(list(_own(node)))
        if isinstance(n, r.View) or (isinstance(n, r.Scan) and not n.static)
    ]
    return list(dict.fromkeys(found))
