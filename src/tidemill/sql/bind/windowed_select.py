"""A SELECT with window functions, brought into the form that `window_functions` binds.

Items get names, QUALIFY may use these names, and a grouping becomes an input: its keys and aggregates are columns, and
the window functions are computed over its groups.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.plan.relations import Relation
from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.functions import aggregate_name
from tidemill.sql.bind.grouping_sets import find_groupings
from tidemill.sql.bind.groups import bind_groups, group_expressions, resolve_key
from tidemill.sql.bind.projection import default_name
from tidemill.sql.bind.scalar import Scalars
from tidemill.sql.bind.scope import Field, Input, Rhythm, Scope, problem
from tidemill.sql.bind.stars import star_of
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.forms import has_subquery
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.window_functions import bind_windows
from tidemill.sql.bind.window_syntax import FUNCTIONS, find_windows, operands, read_call, resolve_named_windows
from tidemill.sql.dialect.nodes import copy_tree

Bound = tuple[Relation, tuple[str, ...] | None, Rhythm | None]  # relation, key, rhythm where a grouping sets one


def bind_windowed_select(select: exp.Select, scope: Scope, subqueries: Subqueries) -> Bound:
    """The relation of a SELECT with window functions over a joined and filtered scope."""
    resolve_named_windows(select)
    _name_items(select, scope)
    _use_names(select, scope)
    rhythm = None
    if is_grouped(select):
        _refuse_subqueries(select)
        scope, rhythm = _Grouping(select, scope, subqueries).bind()
    else:
        outer = Outer(scope)
        select.set("expressions", [subqueries.rewrite(e, outer) for e in select.expressions])
        if select.args.get("qualify"):
            select.args["qualify"].set("this", subqueries.rewrite(select.args["qualify"].this, outer))
    node, keys = bind_windows(select, scope)
    return node, keys, rhythm


def _refuse_subqueries(select: exp.Select) -> None:
    if has_subquery(*select.expressions, select.args.get("qualify")):
        raise problem(
            "a subquery is not possible beside window functions over groups",
            select,
            code="TM202",
            hint="put the grouping into a subquery in FROM",
        )


def _name_items(select: exp.Select, scope: Scope) -> None:
    items = []
    for index, item in enumerate(select.expressions):
        if not isinstance(item, exp.Alias) and star_of(item) is None:
            item = exp.alias_(item, _name_of(item, index, scope), quoted=True)
        items.append(item)
    select.set("expressions", items)


def _name_of(item: exp.Expression, index: int, scope: Scope) -> str:
    if isinstance(item, exp.Window):
        return read_call(item).name
    return aggregate_name(item) or default_name(item, index, scope)


def _use_names(select: exp.Select, scope: Scope) -> None:
    """Names of items in QUALIFY stand for the items, unless they are columns."""
    qualify = select.args.get("qualify")
    if qualify is None:
        return
    items = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for column in list(qualify.find_all(exp.Column)):
        known = any(i.field(column.name) for i in scope.inputs)
        if not column.table and not known and column.name.lower() in items:
            item = copy_tree(items[column.name.lower()])
            column.replace(item if isinstance(item, (exp.Window, exp.Column)) else exp.Paren(this=item))


class _Grouping:
    """The grouping of a SELECT as the one input of its window functions; `select` is changed to read it."""

    def __init__(self, select: exp.Select, scope: Scope, subqueries: Subqueries) -> None:
        self.select, self.scope, self.subqueries = select, scope, subqueries
        self.scalars = Scalars(scope)
        self.items: dict[str, exp.Expression] = {}  # keys and aggregates, by text
        self.keys: set[str] = set()

    def bind(self) -> tuple[Scope, Rhythm | None]:
        keys = [copy_tree(key) for key in group_expressions(self.select, self.scope, self.subqueries)]
        below = copy_tree(self.select)
        for key in keys:
            self.keys.add(self.scalars.key(key))
            self._column(key)
        for item in self.select.expressions:
            if star_of(item) is not None:
                raise problem("* is not possible with GROUP BY", item, hint="name the grouped columns")
            item.set("this", self._lift(item.this))
        qualify = self.select.args.get("qualify")
        if qualify is not None:
            qualify.set("this", self._lift(qualify.this))
        listed = [exp.alias_(copy_tree(e), f"__g{i}", quoted=True) for i, e in enumerate(self.items.values())]
        below.set("expressions", listed)
        below.set("qualify", None)
        self._write_keys(below, keys)
        grouped = bind_groups(below, self.scope, self.subqueries)
        fields = tuple(Field(c.name, c.name, c.type) for c in grouped.node.schema)
        source = Input("", grouped.node, fields, None, grouped.keys, self.scope.domain)
        return Scope([source], grouped.node, self.scope.unit_us, self.scope.needs), grouped.rhythm

    def _write_keys(self, below: exp.Select, keys: list[exp.Expression]) -> None:
        """GROUP BY in full: the items that its numbers and names stand for are no longer in SELECT."""
        groupings = find_groupings(below)
        if groupings is not None:
            for key in {id(key): key for keys in groupings for key in keys}.values():
                key.replace(copy_tree(resolve_key(key, self.select, self.scope, self.subqueries)))
        elif below.args.get("group") is not None:
            below.set("group", exp.Group(expressions=[copy_tree(key) for key in keys]))

    def _column(self, node: exp.Expression) -> exp.Expression:
        """The column of the grouping that has a key or an aggregate."""
        text = self.scalars.key(node)
        self.items.setdefault(text, node)
        return exp.column(f"__g{list(self.items).index(text)}", quoted=True)

    def _lift(self, node: exp.Expression) -> exp.Expression:
        """An expression over the columns of the grouping."""
        if isinstance(node, exp.Window):
            for part in list(operands(node)):
                part.replace(self._lift(copy_tree(part)))
            return node
        if aggregate_name(node) or (isinstance(node, exp.Filter) and aggregate_name(node.this)):
            return self._column(node)
        if self._is_key(node):
            return self._column(node)
        for child in list(node.iter_expressions()):
            lifted = self._lift(child)
            if lifted is not child:
                child.replace(lifted)
        return node

    def _is_key(self, node: exp.Expression) -> bool:
        if isinstance(node, (exp.Identifier, exp.Star, exp.DataType)) or type(node) in FUNCTIONS:
            return False
        if any(True for _ in find_windows(node)):
            return False
        try:
            return self.scalars.key(node) in self.keys
        except Exception:  # not a whole key: its parts may be
            return False
