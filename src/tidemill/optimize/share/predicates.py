"""Predicates that need no SQL engine: comparisons of integer columns with integers, joined by AND, OR and NOT.

The reader evaluates such a program on arrays; every other predicate is evaluated by DuckDB. Programs are nested
lists, so that they travel in a plan file: ["and", …], ["or", …], ["not", p], [">", column, number], ["in", column,
[numbers]].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
Program = list[Any]


def program(predicate: str, types: Mapping[str, str]) -> Program | None:
    """The predicate as a program over columns of these types, or None where it needs more than that.

    >>> program('"a" > 3 AND ("b" = 1 OR NOT "a" IN (5, 6))', {"a": "INTEGER", "b": "BIGINT"})
    ['and', ['>', 'a', 3], ['or', ['=', 'b', 1], ['not', ['in', 'a', [5, 6]]]]]
    >>> program('"a" > 3.5', {"a": "INTEGER"}) is None
    True
    """
    try:
        return _compiled(sqlglot.parse_one(predicate, dialect="duckdb"), types)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None


def _compiled(node: exp.Expr, types: Mapping[str, str]) -> Program | None:
    if isinstance(node, exp.Paren):
        return _compiled(node.this, types)
    if isinstance(node, (exp.And, exp.Or)):
        sides = [_compiled(node.this, types), _compiled(node.expression, types)]
        return None if None in sides else ["and" if isinstance(node, exp.And) else "or", *sides]
    if isinstance(node, exp.Not):
        inner = _compiled(node.this, types)
        return None if inner is None else ["not", inner]
    if isinstance(node, exp.In) and not node.args.get("query"):
        name, numbers = _column(node.this, types), [_number(e) for e in node.expressions]
        return None if name is None or None in numbers else ["in", name, numbers]
    if type(node) in _COMPARISONS:
        return _comparison(_COMPARISONS[type(node)], node, types)
    return None


def _comparison(sign: str, node: exp.Expr, types: Mapping[str, str]) -> Program | None:
    for left, right, how in ((node.this, node.expression, sign), (node.expression, node.this, _MIRROR[sign])):
        name, number = _column(left, types), _number(right)
        if name is not None and number is not None:
            return [how, name, number]
    return None


def _column(node: exp.Expr, types: Mapping[str, str]) -> str | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and not node.table and types.get(node.name) in _INTEGERS:
        return node.name
    return None


def _number(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) < 19:
        return int(node.name)
    return None
