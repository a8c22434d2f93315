"""GROUP BY and aggregates: project the keys and arguments, group, project the answer, filter by HAVING."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Literal, When, quoted
from tidemill.plan.sources import Column
from tidemill.plan.two_level import APPROXIMATE, by_register, decomposes
from tidemill.plan.user_aggregates import UserAggregate, UserAggregateDefinition
from tidemill.sql.bind.aggregate_calls import (
    column_not_grouped,
    find_aggregate_calls,
    is_plain,
    not_grouped,
    of_truth,
    read_argument,
)
from tidemill.sql.bind.collected_calls import bind_collected, read_collected
from tidemill.sql.bind.epochs import find_epoch, find_windows
from tidemill.sql.bind.functions import aggregate_name, user_aggregate_of
from tidemill.sql.bind.grouping_sets import find_groupings, replace_grouping_calls
from tidemill.sql.bind.scalar import Bound, Scalars, cast_null_column, types_of
from tidemill.sql.bind.scope import EVERY_CHANGE, Rhythm, Scope, TableWindows, column_name, problem
from tidemill.sql.bind.stars import star_of
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.forms import has_subquery
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.dialect.nodes import PlanColumn, copy_tree

_POINT = "TS"  # when the windows of a table function are asked


@dataclass(frozen=True)
class Grouped:
    """The relation of a grouped SELECT, its key, and its rhythm where the grouping sets one."""

    node: Relation
    keys: tuple[str, ...] | None
    rhythm: Rhythm | None


def bind_groups(select: exp.Select, scope: Scope, subqueries: Subqueries) -> Grouped:
    """Bind a grouped SELECT over a joined and filtered scope.

    Subqueries in keys and in arguments of aggregates are asked for the rows, all others for the groups.
    """
    groupings = find_groupings(select)
    if groupings is None:
        return _bind_grouping(_Groups(select, scope, subqueries), _written_keys(select))
    return _bind_groupings(select, scope, subqueries, groupings)


def _bind_grouping(work: _Groups, keys: list[exp.Expression]) -> Grouped:
    for key in keys:
        work.bind_key(key)
    work.read_aggregates()
    return work.result()


def _bind_groupings(
    select: exp.Select, scope: Scope, subqueries: Subqueries, groupings: list[tuple[exp.Expression, ...]]
) -> Grouped:
    """The answers of several groupings over one input; a row does not tell which one it is of, so there is no key."""
    reading = _Groups(select, replace(scope), subqueries)
    keys = {reading.key_text(key): key for keys in groupings for key in keys}
    if has_subquery(*map(reading.resolve_item, keys.values())):
        raise problem(
            "a subquery is not possible in GROUPING SETS, ROLLUP and CUBE",
            select,
            code="TM206",
            hint="compute it in a subquery in FROM",
        )
    types = {text: reading.key_type(key) for text, key in keys.items()}
    done = []
    for grouping in groupings:
        texts = {reading.key_text(key) for key in grouping}
        part = copy_tree(select)
        replace_grouping_calls(part, {text: text in texts for text in keys}, reading.key_text)
        work = _Groups(part, replace(scope), subqueries)
        for text, type_ in types.items():
            if text not in texts:
                work.leave_out(keys[text], type_)
        done.append(_bind_grouping(work, list(grouping)))
    rhythms = {g.rhythm for g in done}
    common = done[0].rhythm if len(rhythms) == 1 else EVERY_CHANGE
    answers = r.Union(tuple(g.node for g in done))
    return Grouped(r.Project(answers, tuple(map(Item.of, answers.schema))), None, common)


def _written_keys(select: exp.Select) -> list[exp.Expression]:
    """The keys of GROUP BY; GROUP BY ALL means the items of SELECT without an aggregate."""
    group = select.args.get("group")
    if group is None:
        return []
    if not group.args.get("all"):
        return list(group.expressions)
    items = [e.this if isinstance(e, exp.Alias) else e for e in select.expressions]
    return [item for item in items if not find_aggregate_calls(item) and not isinstance(item, exp.Literal)]


def group_expressions(select: exp.Select, scope: Scope, subqueries: Subqueries) -> list[exp.Expression]:
    """The expressions of GROUP BY, of all its groupings; numbers and names of select items stand for the items."""
    work = _Groups(select, scope, subqueries)
    groupings = find_groupings(select)
    keys = _written_keys(select) if groupings is None else [key for keys in groupings for key in keys]
    found = [e.this if isinstance(e, exp.Alias) else work.resolve_item(e) for e in keys]
    return list({work.scalars.key(e): e for e in found}.values()) if groupings is not None else found


def resolve_key(key: exp.Expression, select: exp.Select, scope: Scope, subqueries: Subqueries) -> exp.Expression:
    """What a key of GROUP BY stands for."""
    return _Groups(select, scope, subqueries).resolve_item(key)


class _Groups:
    def __init__(self, select: exp.Select, scope: Scope, subqueries: Subqueries) -> None:
        self.select, self.scope = select, scope
        self.subqueries, self.rows = subqueries, Outer(scope)
        self.items: dict[str, Item] = {}  # columns of the projection below the grouping, by SQL
        self.keys: list[str] = []
        self.absent: dict[str, str] = {}  # columns above the grouping that are NULL, and their types
        self.replaced: dict[str, str] = {}  # text of keys and aggregates → column above the grouping
        self.calls: dict[int, str] = {}  # aggregate calls of the SELECT, by identity → column above the grouping
        self.aggregates: list[Aggregate] = []
        self.rhythm: Rhythm | None = None
        self.derived: dict[str, tuple[str, Item]] = {}  # above the grouping: the key they stand for

    @property
    def scalars(self) -> Scalars:
        """Binds expressions over the rows as they are now."""
        return Scalars(self.scope)

    def column(self, bound: Bound, prefix: str) -> str:
        """The column of the lower projection that holds an expression; plain columns keep their name."""
        if bound.sql not in self.items:
            plain = bound.value.name if isinstance(bound.value, ColumnRef) else None
            column = cast_null_column(bound)
            self.items[bound.sql] = Item(plain or f"__{prefix}{len(self.items)}", column.value, column.type)
        return self.items[bound.sql].name

    # ---- keys ----------------------------------------------------------------------------------

    def bind_key(self, expression: exp.Expression) -> None:
        """One more key of the grouping."""
        alias = expression.alias if isinstance(expression, exp.Alias) else None
        inner = expression.this if isinstance(expression, exp.Alias) else self.resolve_item(expression)
        inner = self.subqueries.rewrite(inner, self.rows)
        name = self._bind_epoch(inner) or self._add_key(self.scalars.bind(inner))
        self.replaced[self.scalars.key(inner)] = name
        if alias:
            self.replaced[exp.column(alias).sql(dialect="duckdb")] = name
            self.replaced[alias.lower()] = name

    def _add_key(self, bound: Bound) -> str:
        name = self.column(bound, "g")
        if name not in self.keys:
            self.keys.append(name)
        return name

    def _bind_epoch(self, node: exp.Expression) -> str | None:
        """The column above the grouping that shows an epoch; None where the key is none."""
        epoch = find_epoch(node, self.scope)
        if epoch is None:
            return None
        self.scope.node = epoch.enter(self.scope.node)
        self.rhythm = epoch.rhythm or self.rhythm
        key = _POINT if epoch.bound is None else self._add_key(epoch.bound)
        if epoch.shown is None:
            return key
        name = f"__e{len(self.derived)}"
        self.derived[name] = (key, Item(name, epoch.shown(ColumnRef(key)), epoch.type))
        return name

    def key_text(self, expression: exp.Expression) -> str:
        """The text by which a key is known, whatever it is written as in GROUP BY."""
        return self.scalars.key(self.resolve_item(expression))

    def key_type(self, expression: exp.Expression) -> str:
        """The type of a key."""
        inner = self.resolve_item(expression)
        epoch = find_epoch(inner, self.scope)
        if epoch is not None:
            return epoch.bound.type if epoch.shown is None and epoch.bound is not None else epoch.type
        return cast_null_column(self.scalars.bind(inner)).type

    def leave_out(self, expression: exp.Expression, type_: str) -> None:
        """A key that this grouping lacks: NULL in every row of its answer."""
        name = f"__n{len(self.absent)}"
        self.absent[name] = type_
        self.replaced[self.key_text(expression)] = name

    def resolve_item(self, expression: exp.Expression) -> exp.Expression:
        """GROUP BY 2 and GROUP BY alias mean the select item."""
        items = self.select.expressions
        if isinstance(expression, exp.Literal) and not expression.is_string:
            index = int(expression.name) - 1
            if not 0 <= index < len(items):
                raise problem(
                    f"GROUP BY {expression.name}: there are {len(items)} columns",
                    self.select,
                    hint="count from 1, or name the column",
                )
            found = items[index]
            return found.this if isinstance(found, exp.Alias) else found
        if isinstance(expression, exp.Column) and not expression.table and not self._is_column(expression.name):
            for item in items:
                if isinstance(item, exp.Alias) and item.alias.lower() == expression.name.lower():
                    return item.this
        return expression

    def _is_column(self, name: str) -> bool:
        return any(i.field(name) or (name.lower() == "ts" and i.ts) for i in self.scope.inputs)

    # ---- aggregates ----------------------------------------------------------------------------

    def read_aggregates(self) -> None:
        roots = [*self.select.expressions]
        having = self.select.args.get("having")
        if having is not None:
            roots.append(having.this)
        for root in roots:
            for node in find_aggregate_calls(root):
                self._bind_aggregate(self.subqueries.rewrite(node, self.rows))

    def _bind_aggregate(self, node: exp.Expression) -> None:
        text = self.scalars.key(node)
        name = self.calls[id(node)] = self.replaced.get(text, f"__agg{len(self.aggregates)}")
        if text in self.replaced:
            return
        call, condition = (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        function = str(aggregate_name(call))
        self.replaced[text] = name
        own = user_aggregate_of(call)
        if own is not None:
            self._add_user_aggregate(own, call, condition, name)
            return
        if isinstance(call, (exp.LogicalAnd, exp.LogicalOr)):
            function, call = of_truth(call)
        if not is_plain(call):
            self._add_collected(call, condition, function, name)
            return
        argument, distinct = read_argument(call, function)
        if argument is None and condition is None:
            self.aggregates.append(Aggregate("count", None, None, name, "BIGINT"))
            return
        bound = self._apply_filter(argument, condition)
        column = self.column(bound, "a")
        type_ = next(i.type for i in self.items.values() if i.name == column)
        call_sql = f"{function}({quoted(column)})"
        result = types_of([call_sql], (Column(column, type_),))[0]
        distinct = distinct and function not in ("min", "max")
        self.aggregates.append(Aggregate(function, column, type_, name, result, distinct))

    def _add_user_aggregate(
        self, own: UserAggregateDefinition, call: exp.Expression, condition: exp.Expression | None, name: str
    ) -> None:
        """A call of a user's aggregate: its argument gets the declared type."""
        if len(call.expressions) != 1 or isinstance(call.expressions[0], (exp.Star, exp.Distinct)):
            raise problem(f"{own.name} takes one argument", call, code="TM206", hint=f"write {own.name}(column)")
        bound = self._apply_filter(call.expressions[0], condition)
        if bound.type != own.accepts:
            cast = Cast(bound.value, own.accepts)
            bound = Bound(cast, types_of([cast.sql], self.scope.node.schema)[0])
        column = self.column(bound, "a")
        self.aggregates.append(UserAggregate(own.name, column, own.accepts, name, own.returns, body=own.body))

    def _add_collected(self, call: exp.Expression, condition: exp.Expression | None, function: str, name: str) -> None:
        """A call that needs all values at once: its argument is a struct of what it reads."""
        times = [i.ts for i in self.scope.inputs if i.ts and i.ts in self.scope.node.names]
        bound = bind_collected(read_collected(call), call, self.scalars.bind, times)
        struct = bound.struct(self.scalars.predicate(condition) if condition is not None else None)
        self.aggregates.append(bound.aggregate(call, function, self.column(struct, "a"), name))

    def _apply_filter(self, argument: exp.Expression | None, condition: exp.Expression | None) -> Bound:
        value = self.scalars.bind(argument) if argument is not None else Bound(Literal("1"), "INTEGER")
        if condition is None:
            return value
        test = self.scalars.predicate(condition)
        return Bound(When(test, value.value), value.type)

    def result(self) -> Grouped:
        hops = find_windows(self.scope)
        if not self.keys and (hops or any(a.user_functions is not None for a in self.aggregates)):
            # A window that holds nothing has no answer, so it is a group like any other.
            alone = Item("__all", Literal("0"), "INTEGER")
            self.items["__all"] = alone
            self.keys.append(alone.name)
        below = r.Project(self.scope.node, tuple(self.items.values()) or (Item("__one", Literal("1"), "INTEGER"),))
        grouped: Relation = self._expand_approximate(r.GroupBy(below, tuple(self.keys), tuple(self.aggregates)))
        grouped = grouped if hops is None else self._ask_windows(grouped, hops)
        node, expressions = self._bind_groups(self._add_absent(grouped))
        above = Scalars(self.scope, node.schema, self.replaced)
        items, named = [], set()
        for i, expression in enumerate(expressions):
            item = self._bind_output(expression, above, i)
            name, n = item.name, 1
            while name.lower() in named:
                name, n = f"{item.name}_{n}", n + 1
            named.add(name.lower())
            items.append(Item(name, item.value, item.type))
        names = {i.value.name: i.name for i in items if isinstance(i.value, ColumnRef)}
        names |= {key: names[column] for column, (key, _) in self.derived.items() if column in names}
        keys = [names.get(k) for k in [*self.keys, *([_POINT] if hops else [])] if k != "__all"]
        whole = tuple(k for k in keys if k is not None)
        return Grouped(r.Project(node, tuple(items)), whole if None not in keys else None, self.rhythm)

    def _add_absent(self, grouped: Relation) -> Relation:
        if not self.absent and not self.derived:
            return grouped
        present = [Item(c.name, ColumnRef(c.name), c.type) for c in grouped.schema]
        missing = [Item(name, Cast(Literal("NULL"), type_), type_) for name, type_ in self.absent.items()]
        return r.Project(grouped, (*present, *missing, *(item for _, item in self.derived.values())))

    def _ask_windows(self, grouped: Relation, windows: TableWindows) -> Relation:
        """The groups of each window, from its end on; the user wants them all to be kept."""
        if _POINT in grouped.names:
            raise problem(
                "a key of GROUP BY beside window_start and window_end cannot be called TS",
                self.select,
                code="TM202",
                hint="give the column another name in a subquery",
            )
        whole = r.Rstream(grouped, (windows.slide_us, 0), None, Cast(Hidden("__time"), "BIGINT"), "BIGINT")
        return r.Temporal(whole, None, None)

    def _bind_groups(self, grouped: Relation) -> tuple[Relation, list[exp.Expression]]:
        """The groups that satisfy HAVING, with what subqueries add to them, and the select list over them."""
        groups = Outer(self.scope, grouped, self.replaced)
        known = self.rows.attached.items()
        groups.attached = {text: v for text, v in known if isinstance(v, PlanColumn) and v.name in self.keys}
        having = self.select.args.get("having")
        if having is not None:
            condition = self.subqueries.rewrite(having.this, groups)
            above = Scalars(self.scope, groups.node.schema, self.replaced)
            groups.node = r.Filter(groups.node, self._bind_above(above, condition, predicate=True).value)
        listed = [self.subqueries.rewrite(e, groups) for e in self.select.expressions]
        return groups.node, listed

    def _expand_approximate(self, grouped: r.GroupBy) -> Relation:
        """APPROX_COUNT_DISTINCT is a sketch with a row for each register: two groupings, one over the other."""
        counted = {a.argument for a in grouped.aggregates if a.function == APPROXIMATE}
        if not counted:
            return grouped
        others = [a for a in grouped.aggregates if a.function != APPROXIMATE]
        if len(counted) > 1 or any(a.distinct or not decomposes(a, exactly=False) for a in others):
            raise problem(
                "APPROX_COUNT_DISTINCT counts one column, beside COUNT, SUM, AVG, MIN and MAX only",
                self.select,
                code="TM206",
                hint="write one view for each count and join them",
            )
        return by_register(grouped)

    def _bind_output(self, expression: exp.Expression, above: Scalars, index: int) -> Item:
        inner = expression.this if isinstance(expression, exp.Alias) else expression
        if star_of(inner) is not None:
            raise problem("* is not possible with GROUP BY", expression, hint="name the grouped columns")
        if isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in self.replaced:
            column = self.replaced[inner.name.lower()]
            shown = [*self.items.values(), *(item for _, item in self.derived.values())]
            type_ = next(i.type for i in shown if i.name == column)
            return Item(expression.alias_or_name, ColumnRef(column), type_)
        bound = cast_null_column(self._bind_above(above, inner))
        name = expression.alias if isinstance(expression, exp.Alias) else _call_name(inner, index, self.scope)
        return Item(name, bound.value, bound.type)

    def _bind_above(self, above: Scalars, node: exp.Expression, predicate: bool = False) -> Bound:
        try:
            bound = above.column(self.calls[id(node)]) if id(node) in self.calls else above.bind(node)
        except Exception as error:
            if not_grouped(error):
                raise column_not_grouped(node) from None
            raise
        if predicate and bound.type != "BOOLEAN":
            raise problem(
                f"HAVING must be true or false, this is {bound.type}",
                node,
                code="TM203",
                hint="compare it with something",
            )
        return bound


def _call_name(node: exp.Expression, index: int, scope: Scope) -> str:
    if isinstance(node, exp.Filter):
        node = node.this
    if isinstance(node, exp.Column):
        return column_name(node, scope)
    return aggregate_name(node) or f"col{index}"
