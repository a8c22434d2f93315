"""Calls of aggregates that need all values at once, as they are parsed: name, arguments, DISTINCT and order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan.collected import VALUE, CollectedAggregate
from tidemill.plan.scalars import ColumnRef, Scalar, When, template
from tidemill.plan.sources import Column
from tidemill.sql.bind.functions import name_in_sql
from tidemill.sql.bind.scalar import Bound, check_type, first_value, types_of
from tidemill.sql.bind.scope import problem

# Aggregates whose answer depends on the order of the rows: they get them by time.
ORDERED = frozenset(
    "any_value arbitrary approx_quantile approx_top_k arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null"
    " arg_min_nulls_last argmax argmin array_agg first group_concat last list listagg max_by min_by mode"
    " string_agg".split()
)


@dataclass(frozen=True)
class CollectedCall:
    """A call with its parts apart. `within`: its one column is written in WITHIN GROUP."""

    name: str
    arguments: tuple[exp.Expression, ...]
    distinct: bool
    order: tuple[exp.Ordered, ...]
    within: bool = False


def read_collected(node: exp.Expression) -> CollectedCall:
    """The parts of a call of an aggregate function."""
    if isinstance(node, exp.WithinGroup):
        inner = read_collected(node.this)
        name = {"quantile_cont": "percentile_cont", "quantile_disc": "percentile_disc"}.get(inner.name, inner.name)
        return CollectedCall(name, inner.arguments, False, tuple(node.expression.expressions), within=True)
    name = name_in_sql(node)
    if isinstance(node, exp.IgnoreNulls) and name == "any_value":  # which has no other meaning
        node = node.this
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        hint = f"{name}(x) FILTER (WHERE x IS NOT NULL)"
        raise problem(f"IGNORE NULLS in {name} is for window functions", node, code="TM206", hint=hint)
    given: list[exp.Expression] = []
    for value in node.args.values():
        given += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expression)]
    order: tuple[exp.Ordered, ...] = ()
    arguments: list[exp.Expression] = []
    distinct = False
    for argument in given:
        if isinstance(argument, exp.Order):
            order, argument = tuple(argument.expressions), argument.this
        if isinstance(argument, exp.Distinct):
            distinct = True
            arguments += argument.expressions
        else:
            arguments.append(argument)
    if isinstance(node, exp.GroupConcat) and len(arguments) == 1:
        arguments.append(exp.Literal.string(","))
    return CollectedCall(name, tuple(arguments), distinct, order)


@dataclass(frozen=True)
class BoundCall:
    """The struct that a call reads, and the call over it; columns of the struct are a0, a1, …"""

    fields: tuple[Bound, ...]
    sql: str

    def struct(self, condition: Scalar | None) -> Bound:
        """The value of one row; NULL, which does not count, where the condition of FILTER fails."""
        names = [f"a{i}" for i in range(len(self.fields))]
        items = ", ".join(f"{name} := {{{i}}}" for i, name in enumerate(names))
        value: Scalar = template(f"struct_pack({items})", *(f.value for f in self.fields))
        if condition is not None:
            value = When(condition, value)
        inner = ", ".join(f"{name} {f.type}" for name, f in zip(names, self.fields, strict=True))
        return Bound(value, f"STRUCT({inner})")

    def aggregate(self, call: exp.Expression, function: str, column: str, name: str) -> CollectedAggregate:
        """The aggregate over a column of such structs; refused where DuckDB has no such call."""
        struct = self.struct(None).type
        try:
            result = types_of([self.sql], (Column(VALUE, struct),))[0]
        except PlanProblem as error:
            hint = "the language reference shows its arguments"
            raise problem(error.message, call, code="TM206", hint=hint) from None
        check_type(result, call)
        text = f"SELECT CAST({self.sql} AS VARCHAR) FROM (SELECT CAST(NULL AS {struct}) AS {VALUE}) WHERE FALSE"
        found = first_value(text)
        empty = "NULL" if found is None else f"CAST('{found}' AS {result})"
        fields = tuple(f.type for f in self.fields)
        return CollectedAggregate(function, column, struct, name, result, call=self.sql, empty=empty, fields=fields)


def bind_collected(
    call: CollectedCall, node: exp.Expression, bind: Callable[[exp.Expression], Bound], times: list[str]
) -> BoundCall:
    """The call over a struct of what it reads. `times` are the columns with the times of the rows."""
    fields: dict[str, Bound] = {}

    def place(bound: Bound) -> str:
        if not bound.value.columns:
            return bound.sql
        fields.setdefault(bound.sql, bound)
        return f"{VALUE}.a{list(fields).index(bound.sql)}"

    def place_argument(argument: exp.Expression) -> str:
        if isinstance(argument, exp.Tuple):  # rows of values have no names for their fields, so they are no column
            return f"({', '.join(place(bind(e)) for e in argument.expressions)})"
        return place(bind(argument))

    arguments = [place_argument(argument) for argument in call.arguments]
    order = [place(bind(key.this)) + _direction(key) for key in call.order]
    if call.within:
        if len(order) != 1:
            raise problem("WITHIN GROUP takes one column", node, code="TM206", hint="WITHIN GROUP (ORDER BY column)")
        return BoundCall(
            tuple(fields.values()), f"{call.name}({', '.join(arguments)}) WITHIN GROUP (ORDER BY {order[0]})"
        )
    if not fields:
        fields["1"] = Bound(template("1"), "INTEGER")  # a call over constants counts the rows
    if not call.distinct and call.name in ORDERED:
        for time in times:
            order.append(place(Bound(ColumnRef(time), "BIGINT")))
    order += [f"{VALUE}.a{i}" for i in range(len(fields)) if not call.distinct or f"{VALUE}.a{i}" in arguments]
    once = "DISTINCT " if call.distinct else ""
    by = f" ORDER BY {', '.join(dict.fromkeys(order))}" if order else ""
    return BoundCall(tuple(fields.values()), f"{call.name}({once}{', '.join(arguments)}{by})")


def _direction(key: exp.Ordered) -> str:
    nulls = "FIRST" if key.args.get("nulls_first") else "LAST"
    return f" {'DESC' if key.args.get('desc') else 'ASC'} NULLS {nulls}"
