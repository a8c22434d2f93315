"""Is the answer of a query contained in a view, and how is it computed from the view's columns?

The data of both are compared as blocks (`block`), after their synchronizers were taken off (`peel`). What is found is a
*compensation*: the filter, window, projection or grouping over the view that gives the query's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.optimize.views.block import Block, GroupedBlock, block_of, grouped_block_of, is_loose, pair_leaves
from tidemill.optimize.views.canonical import Given, canonical, rewrite
from tidemill.optimize.views.columns import project, user_text
from tidemill.optimize.views.groups import regroup
from tidemill.optimize.views.implication import Implication
from tidemill.optimize.views.window_bounds import is_inside, rewrite_window
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef, Scalar, conjunction

OTHER_SHAPE = ("it shows groups, not rows", "it shows rows, not groups", "other inputs")
Compensation = Callable[[Relation], Relation]


@dataclass(frozen=True)
class Match:
    """How a query is computed from a view: the tree over the view's rows, and the conditions that it adds."""

    over: Compensation
    rest: tuple[Scalar, ...] = ()  # over the columns of the view
    implied: tuple[tuple[str, str], ...] = ()  # (a condition of the view, what of the query implies it)
    regroups: bool = False


@dataclass(frozen=True)
class NoMatch:
    """Why a view does not contain a query, for people."""

    reason: str


@dataclass(frozen=True)
class ViewData:
    """The data of a view: its block, or the grouping that it shows."""

    block: Block
    grouped: GroupedBlock | None = None
    whole_times: bool = True  # its times are whole clock units, or it shows them with their fractions

    @classmethod
    def of(cls, data: Relation, whole_times: bool = True) -> ViewData:
        """The blocks of a peeled tree."""
        grouped = grouped_block_of(data)
        return cls(block_of(data) if grouped is None else grouped.block, grouped, whole_times)


def match(query: Relation, wanted: Block, view: ViewData) -> Match | NoMatch:
    """Compare the data of a query with that of a view; `wanted` is the query's block, or the one below its grouping."""
    pairs = pair_leaves(wanted, view.block)
    grouped = view.grouped
    if isinstance(query, r.GroupBy):
        if grouped is None or not query.keys:
            return NoMatch(OTHER_SHAPE[1] if query.keys else "an answer without groups begins with its query")
        return _first(_match_groups(query, wanted, grouped, block) for block in pairs)
    if grouped is not None:
        return NoMatch(OTHER_SHAPE[0])
    return _first(_match_rows(query, wanted, block, view.whole_times) for block in pairs)


def _first(found: Iterable[Match | NoMatch]) -> Match | NoMatch:
    """The first match; the last reason where there is none."""
    answer: Match | NoMatch = NoMatch(OTHER_SHAPE[2])
    for answer in found:
        if isinstance(answer, Match):
            return answer
    return answer


def _match_rows(query: Relation, wanted: Block, view: Block, whole_times: bool) -> Match | NoMatch:
    refused = _refusal(wanted, view)
    if refused is not None:
        return refused
    given = view.given
    rest = _rest(wanted.conditions, view, given)
    if isinstance(rest, NoMatch):
        return rest
    narrower = [rewrite_window(w, given) for w in wanted.windows if w not in view.windows]
    windows = [window for window in narrower if window is not None]
    if narrower and not whole_times:
        return NoMatch("it rounds the TS that the window needs")
    if len(windows) < len(narrower):
        return NoMatch("it does not give the TS that the window needs")
    values: dict[str, Scalar] = {}
    for name, value in wanted.columns.items():
        found = rewrite(value, given)
        if found is None:
            return NoMatch(f"it does not give {user_text(value)}")
        values[name] = found

    def over(source: Relation) -> Relation:
        node = _select(source, rest)
        for window in windows:
            node = r.Temporal(node, window.lower, window.upper)
        return project(node, query, values)

    return Match(over, tuple(rest), _implications(wanted, view))


def _match_groups(query: r.GroupBy, wanted: Block, grouped: GroupedBlock, view: Block) -> Match | NoMatch:
    refused = _refusal(wanted, view)
    if refused is not None:
        return refused
    if set(wanted.windows) != set(view.windows):
        return NoMatch("its window is another one")
    if not all(isinstance(value, ColumnRef) for value in grouped.columns.values()):
        return NoMatch("it computes with its aggregates")
    shown_keys = {
        name: view.columns[value.name]
        for name, value in grouped.columns.items()
        if isinstance(value, ColumnRef) and value.name in grouped.grouping.keys
    }
    loose = frozenset(
        canonical(view.columns[k]) for k in grouped.grouping.keys if is_loose(grouped.grouping.type_of(k))
    )
    rest = _rest(wanted.conditions, view, replace(view.given_by(shown_keys), loose=loose))
    if isinstance(rest, NoMatch):
        return NoMatch(f"{rest.reason} among its groups")
    found = regroup(query, wanted, grouped, view, replace(Given.of(shown_keys), loose=loose))
    if isinstance(found, str):
        return NoMatch(found)
    return Match(
        lambda source: found.over(_select(source, rest)), tuple(rest), _implications(wanted, view), found.again
    )


def _refusal(wanted: Block, view: Block) -> NoMatch | None:
    """Why rows of the query may be missing in the view."""
    implication = Implication([column for column, kind in wanted.types.items() if kind == "VARCHAR"])
    for condition in view.conditions:
        if not implication.holds(wanted.conditions, condition):
            return NoMatch(f"{user_text(condition)} is not implied")
    for window in view.windows:
        if not any(is_inside(inner, window) for inner in wanted.windows):
            return NoMatch("its window ends earlier")
    for value in view.partial:
        if canonical(value) not in wanted.evaluated:
            return NoMatch(f"{user_text(value)} may fail, and rows on which it does are put aside")
    return None


def _rest(conditions: Sequence[Scalar], view: Block, given: Given) -> list[Scalar] | NoMatch:
    """The conditions that the view has not applied, over its columns."""
    applied = {canonical(c) for c in view.conditions}
    rest = []
    for condition in conditions:
        if canonical(condition) in applied:
            continue
        found = rewrite(condition, given)
        if found is None:
            return NoMatch(f"{user_text(condition)} cannot be tested")
        rest.append(found)
    return rest


def _implications(wanted: Block, view: Block) -> tuple[tuple[str, str], ...]:
    """Each condition of the view that the query does not have itself, and the query's conditions on its columns."""
    own = {canonical(c) for c in wanted.conditions}
    found = []
    for condition in view.conditions:
        if canonical(condition) not in own:
            because = [c for c in wanted.conditions if c.columns & condition.columns]
            found.append((user_text(condition), " AND ".join(map(user_text, because))))
    return tuple(found)


def _select(source: Relation, rest: Sequence[Scalar]) -> Relation:
    predicate = conjunction(*rest)
    return source if predicate is None else r.Filter(source, predicate)


__all__ = ["OTHER_SHAPE", "Match", "NoMatch", "ViewData", "match"]
