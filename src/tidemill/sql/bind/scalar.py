"""Scalar expressions: checked against the allow-list, names resolved, typed by DuckDB itself."""

from __future__ import annotations

import atexit
import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from tidemill.plan.scalars import (
    Cast,
    Chain,
    ColumnRef,
    Literal,
    Operation,
    Paren,
    Scalar,
    Shift,
    Timestamp,
    quoted,
    template,
)
from tidemill.plan.sources import Column, Schema
from tidemill.sql.bind.functions import aggregate_name, hint_for, is_allowed, name_in_sql
from tidemill.sql.bind.lambdas import guard_lambdas
from tidemill.sql.bind.lengths import check_nesting, guard_length
from tidemill.sql.bind.scope import Field, Scope, problem
from tidemill.sql.bind.trees import scalar_of, tree_of
from tidemill.sql.bind.user_functions import register_stubs
from tidemill.sql.dialect.nodes import Now, PlanColumn, copy_tree
from tidemill.sql.lexical.durations import Duration, duration_from_text

_open: dict[int, duckdb.DuckDBPyConnection] = {}
_functions: dict[int, set[str]] = {}  # of users, in each of them
_DUCKDB = DuckDB()
_FOREIGN = re.compile(r"\bBIT\b|\bTIME WITH TIME ZONE")
_MOST_HOURS = ((1 << 63) - 1) // 3_600_000_000_000 - 1  # Arrow counts nanoseconds, DuckDB microseconds
_BEYOND = {
    "INTERVAL": (f"abs(date_part('hour', {{0}})) > {_MOST_HOURS}", f"an interval of more than {_MOST_HOURS} hours"),
    "UHUGEINT": (f"{{0}} > CAST('{(1 << 127) - 1}' AS UHUGEINT)", "a number of 128 bits without a sign"),
}
_IN_AGGREGATES = (exp.Filter, exp.Where, exp.Order, exp.Ordered)
COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)


@dataclass(frozen=True)
class Bound:
    """A bound expression over columns of the plan, and its type."""

    value: Scalar
    type: str

    @property
    def sql(self) -> str:
        return self.value.sql


def cast_null_column(bound: Bound) -> Bound:
    """The expression as a column: an untyped NULL is cast, so that its values have the type of the column."""
    if bound.type in ('"NULL"', "NULL"):
        return Bound(Cast(bound.value, "BIGINT"), "BIGINT")
    return bound


def check_type(type_name: str, node: exp.Expression) -> None:
    """Refuse a type that Arrow does not have."""
    if _FOREIGN.search(type_name):
        raise problem(
            f"a view cannot hold values of type {type_name}", node, code="TM625", hint="CAST(… AS VARCHAR) can be held"
        )


def fit_arrow(bound: Bound, node: exp.Expression) -> Bound:
    """A value that Arrow can carry: it has no type for some of DuckDB's, and fewer bits for others. A row whose value
    would change on the way is put aside.
    """
    check_type(bound.type, node)
    beyond = _BEYOND.get(bound.type)
    if beyond is None or isinstance(node, exp.Column):
        return bound
    reason = f"{beyond[1]} cannot be kept"
    value = template(f"CASE WHEN {beyond[0]} THEN error('{reason}') ELSE {{0}} END", bound.value)
    return Bound(value, bound.type)


def typer() -> duckdb.DuckDBPyConnection:
    """A private DuckDB connection for the types of expressions."""
    thread = threading.get_ident()
    if thread not in _open:
        found = duckdb.connect(":memory:")
        for setting in ("SET threads = 1", "SET TimeZone = 'UTC'", "SET enable_external_access = false"):
            found.execute(setting)
        _open[thread], _functions[thread] = found, set()
    register_stubs(_open[thread], _functions[thread])
    return _open[thread]


def first_value(sql: str) -> Any:
    """The first value of the first row of an answer, or None. The result is read to its end: one that is
    not keeps the connection busy.
    """
    rows = typer().execute(sql).fetchall()
    return rows[0][0] if rows else None


@atexit.register
def close_all() -> None:
    """Connections must not outlive the interpreter."""
    while _open:
        _open.popitem()[1].close()


def types_of(expressions: list[str], schema: Schema, group: bool = False) -> list[str]:
    """DuckDB's types of expressions over columns of the given types."""
    try:
        return list(_ask_types(tuple(expressions), schema))
    except duckdb.Error as error:
        message = str(error).split("\n")[0]
        raise problem(
            message.partition(": ")[2] or message,
            None,
            code="TM203",
            hint="check the types of the columns with DESCRIBE",
        ) from None


@lru_cache(maxsize=4096)
def _ask_types(expressions: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    # Many queries over one stream have the same columns and aggregates.
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in schema) or "1 AS __nothing"
    return tuple(str(t) for t in typer().sql(f"SELECT {', '.join(expressions)} FROM (SELECT {columns})").types)


def _type_of(value: Scalar, schema: Schema) -> str:
    """DuckDB's type of an expression. Conditions are asked for one by one: many queries have the same ones, joined in
    other ways, and what joins truth values is one.
    """
    if isinstance(value, Paren):
        return _type_of(value.value, schema)
    if isinstance(value, Chain) and all(_type_of(condition, schema) == "BOOLEAN" for condition in value.conditions):
        return "BOOLEAN"
    return types_of([value.sql], schema)[0]


class Scalars:
    """Binds expressions of one SELECT. `replaced` maps SQL of group keys and aggregates to result columns."""

    def __init__(self, scope: Scope, schema: Schema | None = None, replaced: dict[str, str] | None = None) -> None:
        self.scope = scope
        self.schema = schema if schema is not None else scope.node.schema
        self.replaced = replaced or {}

    def bind(self, node: exp.Expression) -> Bound:
        """One expression and its type."""
        value = self.value(node)
        try:
            return fit_arrow(Bound(value, _type_of(value, self.schema)), node)
        except Exception as error:
            if getattr(error, "code", None) == "TM203" and getattr(error, "line", None) is None:
                raise problem(error.message, node, code="TM203", hint=error.hint) from None  # type: ignore[attr-defined]
            raise

    def column(self, name: str) -> Bound:
        """A column of the plan."""
        return Bound(ColumnRef(name), types_of([quoted(name)], self.schema)[0])

    def predicate(self, node: exp.Expression) -> Scalar:
        """A condition; anything that is not a truth value is refused."""
        bound = self.bind(node)
        if bound.type not in ("BOOLEAN", '"NULL"', "NULL"):
            raise problem(
                f"a condition must be true or false, this is {bound.type}",
                node,
                code="TM203",
                hint="compare it with something",
            )
        return bound.value

    def value(self, node: exp.Expression) -> Scalar:
        """The expression with every column replaced by its plan column."""
        plain = self._plain_column(node)
        if plain is not None:
            return ColumnRef(self.replaced.get(plain.sql, plain.name))
        check_nesting(node)
        return scalar_of(guard_lambdas(self._translate(copy_tree(node)), self._type))

    def key(self, node: exp.Expression) -> str:
        """The text by which a group expression or aggregate is recognised again."""
        plain = self._plain_column(node)
        return plain.sql if plain is not None else _text(self._translate(copy_tree(node), shallow=True))

    def _plain_column(self, node: exp.Expression) -> ColumnRef | None:
        """The column of the plan that a name means; None for anything else. Most expressions are plain columns,
        which need no copy of their tree.
        """
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        found = self.scope.resolve(node)
        return ColumnRef(found.column) if isinstance(found, Field) else None

    def _translate(self, node: exp.Expression, shallow: bool = False) -> exp.Expression:
        if isinstance(node, PlanColumn):
            return tree_of(ColumnRef(node.name))
        if self.replaced and not shallow:
            found = self._replacement(node)
            if found is not None:
                return found
        node = _list_values(node)
        if not shallow and isinstance(node, COMPARISONS):
            compared = self._compare_times(node)
            if compared is not None:
                return compared
        if isinstance(node, exp.Column):
            return self._column(node)
        _check_node(node, shallow)
        shifted = self._shift_time(node)
        if shifted is not None:
            return shifted
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                node.set(key, self._translate(value, shallow))
            elif isinstance(value, list):
                node.set(key, [self._translate(v, shallow) if isinstance(v, exp.Expression) else v for v in value])
        return node if shallow else guard_length(node, self._type)

    def _type(self, sql: str) -> str:
        return types_of([sql], self.schema)[0]

    def _replacement(self, node: exp.Expression) -> exp.Expression | None:
        try:
            text = self.key(node)
        except Exception:  # not a whole group expression: its parts may be
            return None
        name = self.replaced.get(text)
        return tree_of(ColumnRef(name)) if name else None

    def _column(self, node: exp.Column) -> exp.Expression:
        if isinstance(node.this, exp.Star):
            raise problem("* is not possible here", node, hint="name the columns")
        found = self.scope.resolve(node)
        if isinstance(found, Field):
            return tree_of(ColumnRef(found.column))
        return stamp_expression(tree_of(ColumnRef(str(found.ts))), self.scope)

    # ---- time ---------------------------------------------------------------------------------

    def time_us(self, node: exp.Expression) -> Scalar | None:
        """Microseconds of TS or TS ± a duration; None for anything else."""
        if isinstance(node, exp.Paren):
            return self.time_us(node.this)
        if isinstance(node, exp.Column):
            stamp = self.scope.stamp(node)
            return ColumnRef(stamp) if stamp else None
        if isinstance(node, (exp.Add, exp.Sub)):
            base, length = self.time_us(node.this), duration_us(node.expression, self.scope.unit_us)
            if base is not None and length is not None:
                return Shift(base, "+" if isinstance(node, exp.Add) else "-", length)
        return None

    def _compare_times(self, node: exp.Expression) -> exp.Expression | None:
        """Two times are compared in microseconds, whatever the user calls them."""
        left, right = self.time_us(node.this), self.time_us(node.expression)
        if left is not None and right is not None:
            return type(node)(this=tree_of(left), expression=tree_of(right))
        return None

    def _shift_time(self, node: exp.Expression) -> exp.Expression | None:
        if isinstance(node, (exp.Add, exp.Sub)):
            shifted = self.time_us(node)
            if shifted is not None:
                return stamp_expression(tree_of(shifted), self.scope)
        return None


def _list_values(node: exp.Expression) -> exp.Expression:
    """x = ANY([a, b]) as x IN (a, b); every other node as it is."""
    inner = node.expression.this.unnest() if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any) else None
    if isinstance(inner, exp.Array) and inner.expressions:
        return exp.In(this=node.this, expressions=inner.expressions)
    return node


def _check_node(node: exp.Expression, shallow: bool) -> None:
    """Refuse a node that may not stand in an expression; `shallow`: aggregate functions and * may."""
    if isinstance(node, exp.Star) and not shallow:
        raise problem("* is not possible here", node, hint="name the columns")
    if isinstance(node, Now):
        hint = "for example  WHERE NOW - 5 < TS AND TS <= NOW"
        raise problem("NOW may only bound a window here", node, code="TM205", hint=hint)
    if not shallow and aggregate_name(node):
        hint = "use HAVING, or a view on a view"
        raise problem("an aggregate function is not possible here", node, code="TM206", hint=hint)
    if not (is_allowed(node) or (shallow and (aggregate_name(node) or isinstance(node, _IN_AGGREGATES)))):
        hint = hint_for(node)
        raise problem(f'"{name_in_sql(node)}" is not part of the language of views', node, code="TM207", hint=hint)


def stamp_expression(us: exp.Expression, scope: Scope) -> exp.Expression:
    """Microseconds as users see time: clock units, or a TIMESTAMP."""
    if scope.domain == "timestamp":
        return exp.UnixToTime(this=us, scale=exp.Literal.number(6))
    return exp.Paren(this=exp.IntDiv(this=us, expression=exp.Literal.number(scope.unit_us)))


def stamp_value(us: Scalar, domain: str | None, unit_us: int) -> Scalar:
    """A time in the domain of its sources."""
    if domain == "timestamp":
        return Timestamp(us)
    return Paren(Operation("//", us, Literal(str(unit_us))))


def duration_us(node: exp.Expression, unit_us: int) -> int | None:
    """Microseconds of an integer literal (clock units), an INTERVAL, or None."""
    if isinstance(node, exp.Paren):
        return duration_us(node.this, unit_us)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name) * unit_us
    if isinstance(node, exp.Interval) and node.this is not None:
        unit = node.text("unit") or (node.args["unit"].sql() if node.args.get("unit") else "")
        amount = node.this.name if isinstance(node.this, exp.Literal) else node.this.sql()
        try:
            return in_us(duration_from_text(f"{amount} {unit}".strip()), unit_us)
        except ValueError:
            return None
    return None


def in_us(duration: Duration, unit_us: int) -> int:
    """A parsed duration in microseconds."""
    return duration.us if duration.us is not None else int(duration.units or 0) * unit_us


def column_list(names: list[tuple[str, str]]) -> Schema:
    """Columns from (name, type) pairs."""
    return tuple(Column(n, t) for n, t in names)


def _text(node: exp.Expression) -> str:
    """DuckDB text of a tree; the tree may be changed."""
    return _DUCKDB.generate(node, copy=False)
