"""ORDER BY with LIMIT, OFFSET and DISTINCT ON: the first rows of the answer, or of each group of it.

What is sorted by and not selected is selected under a name of its own, and left out again above. Rows that the order
leaves equal are in the order of the selected columns, from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item, RankFunction, Relation
from tidemill.plan.sort_keys import SortKey
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.scalar import first_value
from tidemill.sql.bind.scope import problem
from tidemill.sql.lexical.tokens import position

_ARITHMETIC = (exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)
_MOST = 1 << 62


@dataclass
class _Column:
    """An expression to sort or group by: the name or number of a selected column, or one that is selected for it."""

    written: exp.Expression
    descending: bool = False
    nulls_first: bool = False
    name: str | None = None
    number: int | None = None

    def key(self) -> SortKey:
        assert self.name is not None
        return SortKey(self.name, self.descending, self.nulls_first)


@dataclass
class Ordering:
    """What a query says of the order of its rows."""

    query: exp.Expression
    columns: list[_Column]
    on: list[_Column]
    after: int
    last: int | None
    function: RankFunction
    hidden: list[_Column] = field(default_factory=list)
    visible: tuple[str, ...] | None = None  # the columns that are selected

    def hide(self, select: exp.Select) -> None:
        """Add what is sorted by to the selected items, unless it is one of them."""
        aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
        for column in (*self.on, *self.columns):
            if column.number is None and (_plain_name(column.written) or "").lower() not in aliases:
                self.hidden.append(column)
                name = f"order by {len(self.hidden)}"
                select.append("expressions", exp.alias_(column.written.copy(), name, quoted=True))

    def settle(self, node: Relation, distinct: bool) -> Relation:
        """The projection of a SELECT without the columns that only repeat a selected one."""
        assert isinstance(node, r.Project)
        count = len(node.items) - len(self.hidden)
        items = list(node.items[:count])
        for column, item in zip(self.hidden, node.items[count:], strict=True):
            same = next((i.name for i in items if i.value == item.value), None)
            if same is None and distinct:
                raise problem(
                    "with DISTINCT the order is one of selected columns",
                    self._place(column.written),
                    code="TM202",
                    hint="select the column too, or GROUP BY",
                )
            column.name = item.name if same is None else same
            items += [item] if same is None else []
        self.visible = tuple(i.name for i in items[:count])
        return r.Project(node.input, tuple(items))

    def apply(self, bound: BoundQuery) -> BoundQuery:
        """The first rows of a bound query."""
        node = bound.node
        visible = node.names if self.visible is None else self.visible
        for column in (*self.on, *self.columns):
            column.name = column.name or self._find(column, visible)
        on = tuple(dict.fromkeys(str(c.name) for c in self.on))
        sorted_by: dict[str, SortKey] = {}
        for column in self.columns:
            sorted_by.setdefault(column.key().column, column.key())
        order = tuple(sorted_by.values())
        keys = bound.keys if bound.keys is not None and set(bound.keys) <= set(visible) else None
        if on:
            node = r.Ranked(node, on, tuple(k for k in order if k.column not in on), "row_number", last=1)
            keys = keys if keys is not None or not set(on) <= set(visible) else on
        if self.after or self.last is not None:
            node = r.Ranked(node, (), order, self.function, self.after, self.last)
            keys = () if keys is None and self.last == self.after + 1 and self.function == "row_number" else keys
        if node.names != visible:
            node = r.Project(node, tuple(Item.of(c) for c in node.schema if c.name in visible))
        return replace(bound, node=node, keys=keys)

    def _find(self, column: _Column, visible: tuple[str, ...]) -> str:
        """The selected column that is meant by its number or name."""
        name = _plain_name(column.written)
        if column.number is not None and 1 <= column.number <= len(visible):
            return visible[column.number - 1]
        found = [n for n in visible if name is not None and n.lower() == name.lower()]
        if found:
            return found[0]
        raise problem(
            f"ORDER BY {column.written.sql(dialect='duckdb')}: there is no such column in the answer",
            self._place(column.written),
            hint=f"the columns are {', '.join(visible[:12])}; they are counted from 1",
        )

    def _place(self, node: exp.Expression) -> exp.Expression:
        return node if position(node) is not None else self.query


def read_ordering(query: exp.Expression) -> Ordering | None:
    """The order and the limits of a query; None where it has none. An order without a limit is refused."""
    order, limit, offset = (query.args.get(clause) for clause in ("order", "limit", "offset"))
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    if order is None and limit is None and offset is None and on is None:
        return None
    if limit is None and offset is None and on is None:
        raise problem(
            "ORDER has no meaning in a standing query without LIMIT: its answer is a set that changes",
            query,
            code="TM208",
            hint="add LIMIT, or order the answer when you read it, with an ad hoc SELECT",
        )
    last, function = _read_limit(limit, query)
    given = offset if offset is not None else limit if limit is not None and limit.args.get("offset") else None
    after = 0 if given is None else _constant(given.args.get("offset") or given.expression, "OFFSET", query)
    if function == "rank" and after:
        raise problem("WITH TIES has no OFFSET", query, code="TM245", hint="leave one of them out")
    sorted_by = [c for o in (order.expressions if order is not None else []) for c in _read_column(o, query)]
    groups = [_Column(e, number=_number(e)) for e in _expressions(on)]
    return Ordering(query, sorted_by, groups, after, None if last is None else after + last, function)


def _read_limit(limit: exp.Expression | None, query: exp.Expression) -> tuple[int | None, RankFunction]:
    """(how many rows, how they are counted)."""
    if limit is None:
        return None, "row_number"
    options = limit.args.get("limit_options")
    if limit.args.get("expressions") or (options is not None and options.args.get("percent")):
        raise problem(
            "LIMIT of a share or BY columns is not possible in a standing query",
            query,
            code="TM245",
            hint="QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n",
        )
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    if isinstance(count, exp.Var) and count.name.upper() == "ALL":
        return None, "row_number"
    ties = options is not None and options.args.get("with_ties")
    return (1 if count is None else _constant(count, "LIMIT", query)), "rank" if ties else "row_number"


def _constant(node: exp.Expression, clause: str, query: exp.Expression) -> int:
    """A whole number that is known before the query runs."""
    found = None
    if all(isinstance(n, _ARITHMETIC) and not n.is_string for n in node.walk()):
        found = first_value(f"SELECT TRY_CAST(({node.sql(dialect='duckdb')}) AS BIGINT)")
    if found is None or not 0 <= found < _MOST:
        raise problem(
            f"{clause} must be a constant, a whole number that is not negative",
            node if position(node) is not None else query,
            code="TM245",
            hint=f"for example  {clause} 10",
        )
    return int(found)


def _read_column(ordered: exp.Expression, query: exp.Expression) -> list[_Column]:
    """One item of ORDER BY; ALL is the order in which rows are anyway."""
    node = ordered.this
    if isinstance(node, exp.Var) and node.name.upper() == "ALL" and not ordered.args.get("desc"):
        return []
    if isinstance(node, (exp.Collate, exp.Var)) or ordered.args.get("with_fill"):
        raise problem(
            "an order is one of columns and expressions, ASC or DESC, NULLS FIRST or LAST",
            node if position(node) is not None else query,
            code="TM202",
            hint="for case-insensitive order  ORDER BY lower(name)",
        )
    return [_Column(node, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")), number=_number(node))]


def _number(node: exp.Expression) -> int | None:
    """The n of ORDER BY n."""
    return int(node.name) if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string else None


def _plain_name(node: exp.Expression) -> str | None:
    return node.name if isinstance(node, exp.Column) and not node.table else None


def _expressions(on: exp.Expression | None) -> list[exp.Expression]:
    if on is None:
        return []
    return list(on.expressions) if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
