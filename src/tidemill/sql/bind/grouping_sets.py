"""GROUPING SETS, ROLLUP and CUBE: the groupings that one GROUP BY stands for.

    GROUP BY a, ROLLUP (b, c)      stands for      (a, b, c), (a, b) and (a)

Every grouping is bound by itself over the same input, with NULL for the keys that it lacks, and the answers are put
together by UNION ALL. So window aggregates among them are shared as those of separate queries are: the finer grouping
feeds the coarser ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

from sqlglot import exp

from tidemill.sql.bind.scope import problem

MOST_GROUPINGS = 64  # CUBE over six columns
Keys = tuple[exp.Expression, ...]
_SEVERAL = (exp.GroupingSets, exp.Rollup, exp.Cube)


def find_groupings(select: exp.Select) -> list[Keys] | None:
    """The keys of each grouping; None where GROUP BY stands for itself."""
    group = select.args.get("group")
    if group is None or not any(isinstance(e, _SEVERAL) or _is_empty(e) for e in group.expressions):
        return None
    count = 1
    for expression in group.expressions:
        count *= _count(expression)
        if count > MOST_GROUPINGS:
            raise problem(
                f"GROUP BY stands for more than {MOST_GROUPINGS} groupings",
                select,
                code="TM206",
                hint="name the ones that you need with GROUPING SETS",
            )
    parts = [_groupings(e) for e in group.expressions]
    return [tuple(key for part in parts_of_one for key in part) for parts_of_one in product(*parts)]


def replace_grouping_calls(select: exp.Select, keys: dict[str, bool], text_of: Callable[[exp.Expression], str]) -> None:
    """Replace GROUPING(a, b) by its value in one grouping: a bit for each argument, 1 where the column is not a key.

    `keys` has the text of the keys of all groupings, and whether this one has them.
    """
    for call in list(select.find_all(exp.Grouping, exp.GroupingId)):
        value = 0
        for argument in call.expressions:
            text = text_of(argument)
            if text not in keys:
                raise problem(
                    "GROUPING takes columns of GROUP BY",
                    argument,
                    code="TM206",
                    hint="name a column or expression as it stands in GROUP BY",
                )
            value = 2 * value + (not keys[text])
        number: exp.Expression = exp.cast(exp.Literal.number(value), "BIGINT")
        top = call.parent is select and call.arg_key == "expressions"
        call.replace(exp.alias_(number, call.sql_name().lower()) if top else number)


def _is_empty(expression: exp.Expression) -> bool:
    return isinstance(expression, exp.Tuple) and not expression.expressions


def _count(expression: exp.Expression) -> int:
    """How many groupings an item of GROUP BY stands for."""
    inner = expression.expressions
    if isinstance(expression, exp.GroupingSets):
        return sum(map(_count, inner))
    if isinstance(expression, exp.Rollup):
        return len(inner) + 1
    return int(2 ** len(inner)) if isinstance(expression, exp.Cube) else 1


def _groupings(expression: exp.Expression) -> list[Keys]:
    """The groupings of one item of GROUP BY, the finest first."""
    if isinstance(expression, exp.GroupingSets):
        return [keys for inner in expression.expressions for keys in _groupings(inner)]
    elements = [_elements(e) for e in expression.expressions] if isinstance(expression, _SEVERAL) else []
    if isinstance(expression, exp.Rollup):
        return [_join_keys(elements[:n]) for n in range(len(elements), -1, -1)]
    if isinstance(expression, exp.Cube):
        sizes = range(len(elements), -1, -1)
        return [_join_keys(list(chosen)) for n in sizes for chosen in combinations(elements, n)]
    return [_elements(expression)]


def _elements(expression: exp.Expression) -> Keys:
    """(a, b) are two keys, (a) and a are one."""
    if isinstance(expression, exp.Tuple):
        return tuple(expression.expressions)
    return (expression.this,) if isinstance(expression, exp.Paren) else (expression,)


def _join_keys(parts: list[Keys]) -> Keys:
    return tuple(key for part in parts for key in part)
