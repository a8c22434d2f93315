"""Checked sqlglot trees to scalars of the plan, and times back into a tree that is still being translated."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from tidemill.plan.scalars import (
    Between,
    Cast,
    Chain,
    ColumnRef,
    In,
    IsNull,
    Literal,
    Negative,
    Not,
    Operation,
    Paren,
    Scalar,
    Shift,
    Template,
    Timestamp,
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
_WRITERS = DuckDBGenerator.TRANSFORMS
_BY_CONSTANTS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.IntDiv: "//"}


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
    if _is_shift(node):
        return Operation(_BY_CONSTANTS[type(node)], scalar_of(node.this), Literal(node.expression.name))
    if isinstance(node, exp.Not):
        return Not(scalar_of(node.this))
    if isinstance(node, exp.Neg):
        return Negative(scalar_of(node.this))
    return _with_arguments(node) or _Cutting(dialect=_DUCKDB).cut(node)


def _with_arguments(node: exp.Expr) -> Scalar | None:
    """Nodes that are known with these arguments only; None for others, and for any other node."""
    given = {name for name, value in node.args.items() if value}
    if isinstance(node, exp.In) and given == {"this", "expressions"}:
        return In(scalar_of(node.this), tuple(map(scalar_of, node.expressions)))
    if isinstance(node, exp.Between) and given == {"this", "low", "high"}:
        return Between(*(scalar_of(node.args[name]) for name in ("this", "low", "high")))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(scalar_of(node.this))
    if isinstance(node, exp.UnixToTime) and given == {"this", "scale"} and node.args["scale"].name == "6":
        return Timestamp(scalar_of(node.this), "MAKE_TIMESTAMP")
    if isinstance(node, exp.Cast) and given == {"this", "to"}:
        return Cast(scalar_of(node.this), _DUCKDB.generate(node.args["to"]))
    return None


def _is_shift(node: exp.Expr) -> bool:
    """A column, or what stands in parentheses, plus, minus or divided by a whole number.

    Longer sums are templates: their trees are as deep as they are long, and what walks a scalar recurses.
    """
    if type(node) not in _BY_CONSTANTS or not isinstance(node.this, (exp.Column, exp.Paren)):
        return False
    by = node.expression
    return isinstance(by, exp.Literal) and not by.is_string and by.name.isdigit()


def _flatten_chain(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that one word connects, however many: a chain leans to the left, so this must not recurse."""
    kind, found = type(node), []
    while type(node) is kind:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


class _Cutting(DuckDBGenerator):
    """Writes DuckDB text with a hole for each column, and for each time stamp.

    Arguments are not always generated in the order in which they stand in the text (those of lpad are not), so a hole
    carries the number of what it stands for.
    """

    _HOLE = re.compile("\x00([0-9]+)\x00")  # no text that DuckDB takes has a zero in it

    TRANSFORMS: ClassVar = {
        **_WRITERS,
        exp.IntDiv: lambda self, e: self._stamp(e),
        exp.UnixToTime: lambda self, e: self._stamp(e),
    }

    def cut(self, node: exp.Expr) -> Scalar:
        """The node as a template over its columns."""
        self.holes: list[Scalar] = []
        pieces = self._HOLE.split(self.generate(node, copy=False))
        return Template(tuple(pieces[::2]), tuple(self.holes[int(number)] for number in pieces[1::2]))

    def column_sql(self, expression: exp.Column, *args: Any) -> str:
        if self._HOLE.fullmatch(expression.name):
            return expression.name  # the hole itself: some functions parse the text of their arguments again
        return self._hole(ColumnRef(expression.name))

    def _stamp(self, expression: exp.Expr) -> str:
        known = _is_shift(expression) or isinstance(_with_arguments(expression), Timestamp)
        return self._hole(scalar_of(expression)) if known else _WRITERS[type(expression)](self, expression)

    def _hole(self, value: Scalar) -> str:
        self.holes.append(value)
        return f"\x00{len(self.holes) - 1}\x00"


def tree_of(time: Scalar) -> exp.Expression:
    """A column, or a column plus or minus durations, as a tree."""
    if isinstance(time, Shift):
        kind = exp.Add if time.sign == "+" else exp.Sub
        return exp.Paren(this=kind(this=tree_of(time.time), expression=exp.Literal.number(time.us)))
    assert isinstance(time, ColumnRef), time
    return exp.Column(this=exp.Identifier(this=time.name, quoted=True))
