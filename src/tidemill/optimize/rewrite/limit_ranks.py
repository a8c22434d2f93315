"""A condition on a rank is a limit: only the first rows of each partition are computed, and kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidemill.optimize.rewrite.filters import push_filters
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import Between, Chain, ColumnRef, Literal, Operation, Paren, Scalar, conjunction

_MIRROR = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Bounds = tuple[int, int | None]  # ranks greater than the first and at most the second


def limit_ranks(node: Relation) -> Relation | None:
    """Let a ranking compute only what a selection on its rank, or on its partition, leaves.

        Filter[rank <= 3 and p]                Filter[p]
          Ranked[k; order → rank]       →        Ranked[k; order ≤ 3 → rank]
            R                                      R

        Filter[q(k)]                           Ranked[k]
          Ranked[k]                     →        Filter[q(k)]
            R                                      R

    The rank is compared with whole numbers (`=`, `<`, `<=`, `>`, `>=`, BETWEEN). A condition on the partition alone
    keeps or drops whole partitions, also of other window functions. Projections between the two are passed as
    `push_filters` passes them, and a time stamp that the condition does not read.
    Must not pass a condition on other columns: it would change the ranks of the rows that are left.
    """
    if not isinstance(node, r.Filter):
        return None
    if not isinstance(node.input, (r.Ranked, r.WindowFunctions)):
        return _pass_to_ranking(node)
    below, wanted = node.input, _Wanted()
    for condition in _conjuncts(node.predicate):
        wanted.add(condition, below)
    if not wanted.inside and (wanted.after, wanted.last) == (0, None):
        return None
    selected = conjunction(*wanted.inside)
    rows = below.input if selected is None else r.Filter(below.input, selected)
    limited: Relation = replace(below, input=rows)
    if isinstance(below, r.Ranked):
        after, last = max(wanted.after, below.after), _least(wanted.last, below.last)
        limited = replace(below, input=rows, after=after, last=last)
    left = conjunction(*wanted.rest)
    return limited if left is None else r.Filter(limited, left)


@dataclass
class _Wanted:
    """What a selection says of the rows of partitions: which ranks, which partitions (`inside`), and the rest."""

    after: int = 0
    last: int | None = None
    inside: list[Scalar] = field(default_factory=list)
    rest: list[Scalar] = field(default_factory=list)

    def add(self, condition: Scalar, below: r.Ranked | r.WindowFunctions) -> None:
        bounds = _bounds_of(condition, below.name) if isinstance(below, r.Ranked) and below.name else None
        if bounds is not None:
            self.after, self.last = max(self.after, bounds[0]), _least(self.last, bounds[1])
        elif condition.columns and condition.columns <= set(below.partition):
            self.inside.append(condition)
        else:
            self.rest.append(condition)


def hide_ranks(node: Relation) -> Relation | None:
    """Leave out a rank that is not read: a row that stays then does not change when its rank does.

        Project[e]                       Project[e]
          Ranked[k; order ≤ 3 → rank]  →   Ranked[k; order ≤ 3]
            R                                R

    Other projections and a selection may stand between them. A ranking that neither limits nor shows anything is left
    out itself, and so is a time stamp above a ranking that is not read.
    """
    if not isinstance(node, r.Project):
        return None
    if isinstance(node.input, r.Stamp) and _is_over_ranking(node.input.input):
        read = {c for item in node.items for c in item.value.columns}
        return r.Project(node.input.input, node.items) if r.TS not in read else None
    items, below = node.items, node.input
    while isinstance(below, r.Project):
        columns = {i.name: i.value for i in below.items}
        items = tuple(replace(i, value=i.value.over(columns)) for i in items)
        below = below.input
    between = below if isinstance(below, r.Filter) else None
    ranked = below if between is None else between.input
    read = {c for item in items for c in item.value.columns}
    read |= set() if between is None else between.predicate.columns
    if not isinstance(ranked, r.Ranked) or ranked.name is None or ranked.name in read:
        return None
    limits = ranked.after > 0 or ranked.last is not None
    rows: Relation = replace(ranked, name=None) if limits else ranked.input
    return r.Project(rows if between is None else r.Filter(rows, between.predicate), items)


def _pass_to_ranking(node: r.Filter) -> Relation | None:
    """The selection one step nearer to a ranking below it."""
    if not _is_over_ranking(node.input):
        return None
    if not isinstance(node.input, r.Stamp):
        return push_filters(node)
    return r.Stamp(r.Filter(node.input.input, node.predicate)) if r.TS not in node.predicate.columns else None


def _is_over_ranking(node: Relation) -> bool:
    while isinstance(node, (r.Filter, r.Project, r.Stamp)):
        node = node.input
    return isinstance(node, (r.Ranked, r.WindowFunctions))


def _conjuncts(predicate: Scalar) -> list[Scalar]:
    """The conditions that must all hold."""
    inner = _bare(predicate)
    if isinstance(inner, Chain) and inner.word == "AND":
        return [c for condition in inner.conditions for c in _conjuncts(condition)]
    return [inner]


def _bare(value: Scalar) -> Scalar:
    while isinstance(value, Paren):
        value = value.value
    return value


def _bounds_of(condition: Scalar, rank: str) -> _Bounds | None:
    """The ranks that satisfy a comparison of the rank with a whole number; None for any other condition."""
    column = ColumnRef(rank)
    if isinstance(condition, Between):
        bounds = [b.number for b in (condition.low, condition.high) if isinstance(b, Literal) and b.number is not None]
        return (max(bounds[0] - 1, 0), bounds[1]) if condition.value == column and len(bounds) == 2 else None
    if not isinstance(condition, Operation) or condition.sign not in _MIRROR:
        return None
    left, sign, right = _bare(condition.left), condition.sign, _bare(condition.right)
    if right == column:
        left, sign, right = right, _MIRROR[sign], left
    number = right.number if isinstance(right, Literal) and left == column else None
    if number is None:
        return None
    return {
        "=": (max(number - 1, 0), number),
        "<": (0, max(number - 1, 0)),
        "<=": (0, number),
        ">": (number, None),
        ">=": (max(number - 1, 0), None),
    }[sign]


def _least(one: int | None, other: int | None) -> int | None:
    given = [n for n in (one, other) if n is not None]
    return min(given) if given else None
