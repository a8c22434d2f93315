"""Checked sqlglot trees to scalars of the plan, and times back into a tree that is still being translated."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from tidemill.plan.scalars import (
    Cast,
    Chain,
    ColumnRef,
    In,
    Literal,
    Negative,
    Not,
    Operation,
    Paren,
    Scalar,
    Shift,
    Template,
)

_DUCKDB = DuckDB()
_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Mul: "*",
    exp.Mod: "%",
}


def scalar_of(node: exp.Expr) -> Scalar:
    """The scalar of a translated tree, whose columns are columns of the plan.

    >>> from sqlglot import parse_one
    >>> scalar_of(parse_one('"a" > 3 AND f("b", 1) = "a"', dialect="duckdb"))
    <"a" > 3 AND F("b", 1) = "a">
    """
    if isinstance(node, exp.Column):
        return ColumnRef(node.name)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Literal(node.name)
    if isinstance(node, exp.Paren):
        return Paren(scalar_of(node.this))
    if isinstance(node, (exp.And, exp.Or)):
        return Chain("AND" if isinstance(node, exp.And) else "OR", tuple(map(scalar_of, _flatten_chain(node))))
    if type(node) in _SIGNS:
        return Operation(_SIGNS[type(node)], scalar_of(node.this), scalar_of(node.expression))
    if isinstance(node, exp.Not):
        return Not(scalar_of(node.this))
    if isinstance(node, exp.Neg):
        return Negative(scalar_of(node.this))
    if isinstance(node, exp.In) and {k for k, v in node.args.items() if v} == {"this", "expressions"}:
        return In(scalar_of(node.this), tuple(map(scalar_of, node.expressions)))
    if isinstance(node, exp.Cast) and {k for k, v in node.args.items() if v} == {"this", "to"}:
        return Cast(scalar_of(node.this), _DUCKDB.generate(node.args["to"]))
    return _Cutting(dialect=_DUCKDB).cut(node)


def _flatten_chain(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that one word connects, however many: a chain leans to the left, so this must not recurse."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


class _Cutting(DuckDBGenerator):
    """Writes DuckDB text with a hole for each column.

    Arguments are not always generated in the order in which they stand in the text (those of lpad are not), so a hole
    carries the number of its column.
    """

    _HOLE = re.compile("\x00([0-9]+)\x00")  # no text that DuckDB takes has a zero in it

    def cut(self, node: exp.Expr) -> Scalar:
        """The node as a template over its columns."""
        self.columns: list[Scalar] = []
        pieces = self._HOLE.split(self.generate(node, copy=False))
        return Template(tuple(pieces[::2]), tuple(self.columns[int(number)] for number in pieces[1::2]))

    def column_sql(self, expression: exp.Column, *args: Any) -> str:
        if self._HOLE.fullmatch(expression.name):
            return expression.name  # the hole itself: some functions parse the text of their arguments again
        self.columns.append(ColumnRef(expression.name))
        return f"\x00{len(self.columns) - 1}\x00"


def tree_of(time: Scalar) -> exp.Expression:
    """A column, or a column plus or minus durations, as a tree."""
    if isinstance(time, Shift):
        kind = exp.Add if time.sign == "+" else exp.Sub
        return exp.Paren(this=kind(this=tree_of(time.time), expression=exp.Literal.number(time.us)))
    assert isinstance(time, ColumnRef), time
    return exp.Column(this=exp.Identifier(this=time.name, quoted=True))
