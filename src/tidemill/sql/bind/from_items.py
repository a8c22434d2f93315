"""One item of FROM: a stream, view, table, subquery or difference, with its alias, window and SYNC clause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.sql.bind.bound import BoundQuery, visible
from tidemill.sql.bind.scope import Input, problem
from tidemill.sql.bind.sessions import apply_session
from tidemill.sql.bind.set_operations import difference
from tidemill.sql.bind.table_windows import apply_table_function
from tidemill.sql.bind.unfolding import place_of_view, unfolded_view
from tidemill.sql.bind.unnest import is_unnest
from tidemill.sql.bind.values import bind_series, bind_values
from tidemill.sql.bind.windows import apply_sync, apply_window
from tidemill.sql.dialect.nodes import Difference, Sync

Lookup = Callable[[str, exp.Expression | None], Input]
Pair = tuple[Input, Sync | None]  # the SYNC clause is applied later, above the NOW conditions


class FromItems:
    """Binds items of FROM. `lookup` finds streams, views, tables and clockStr; `query` binds subqueries.

    `local` are the names that WITH gives, the innermost last.
    """

    def __init__(
        self,
        lookup: Lookup,
        unit_us: int,
        query: Callable[[exp.Expression], BoundQuery],
        clock_views: bool,
        dates: bool,
        keep_us: int | None,
        birth: int,
    ) -> None:
        self.lookup = lookup
        self.unit_us = unit_us
        self.query = query
        self.clock_views, self.dates, self.keep_us, self.birth = clock_views, dates, keep_us, birth
        self.forgets = False  # whether a join lets rows go because of `keep_us`
        self.local: list[dict[str, BoundQuery]] = []
        self.unnamed = 0

    def bind_item(self, node: exp.Expression) -> Pair:
        """One item of FROM with its window, and its SYNC clause."""
        if isinstance(node, Difference):
            return self.bind_difference(node), None
        if isinstance(node, exp.Subquery):
            item = self._subquery(node).as_input(self.name_item(node))
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            item = self._table(node)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.GenerateSeries):
            item = bind_series(node, self.name_item(node), self.unit_us, self.birth)
        elif isinstance(node, exp.Values):
            item = bind_values(node, self.name_item(node), self.unit_us, self.birth)
        else:
            lists = "UNNEST stands behind the input whose lists it takes apart:  FROM s, UNNEST(s.items) AS t(x)"
            raise problem(
                "only streams, views, tables and subqueries can stand in FROM",
                node,
                code="TM202",
                hint=lists if is_unnest(node) else "files are read through REGISTER SOURCE … FROM FILES",
            )
        window = node.args.get("window")
        if window is not None and window.column is not None:
            item = apply_table_function(item, window, self.unit_us, node)
        elif window is not None and window.kind == "session":
            item = apply_session(item, window, self.unit_us, node)
        elif window is not None:
            item = apply_window(item, window, self.unit_us)
        return _rename_fields(item, node), node.args.get("sync")

    def _subquery(self, node: exp.Subquery) -> BoundQuery:
        """A subquery, or a virtual view: that does not see what WITH names around its reader."""
        view = unfolded_view(node)
        if view is None:
            return self.query(node.this)
        outer, self.local = self.local, []
        try:
            bound = self.query(node.this)
        except PlanProblem as error:
            detail = f'in virtual view "{view}"' + (f": {error.detail}" if error.detail else "")
            raise problem(error.message, place_of_view(node), code=error.code, detail=detail, hint=error.hint) from None
        finally:
            self.local = outer
        return replace(bound, needs=bound.needs | {view})

    def _table(self, node: exp.Table) -> Input:
        if node.args.get("catalog"):
            hint = "names have one part, or two: that of a site and that of what it exports"
            raise problem(f'"{node.sql()}" has too many parts', node, code="TM202", hint=hint)
        if node.args.get("db"):
            return replace(self.lookup(f"{node.db}.{node.name}", node), alias=self.name_item(node))
        for names in reversed(self.local):
            if node.name.lower() in names:
                return names[node.name.lower()].as_input(self.name_item(node))
        return replace(self.lookup(node.name, node), alias=self.name_item(node))

    def name_item(self, node: exp.Expression) -> str:
        """What an item of FROM is called."""
        if node.alias_or_name:
            return str(node.alias_or_name)
        self.unnamed += 1
        return f"q{self.unnamed}"

    def synchronize(self, item: Input, sync: Sync | None) -> Input:
        """The item with its SYNC clause applied."""
        if sync is None:
            return item
        points = self._points(sync) if sync.on is not None else None
        synchronize = apply_sync(item, sync, points, self.unit_us, self.clock_views)
        return replace(synchronize, needs=synchronize.needs | points.needs) if points is not None else synchronize

    def _points(self, sync: Sync) -> Input:
        try:
            return self.lookup(str(sync.on), None)
        except CatalogProblem as error:
            line, column = sync.place or (None, None)
            raise CatalogProblem(
                error.code, error.message, detail=error.detail, hint=error.hint, line=line, column=column
            ) from None

    def bind_difference(self, node: Difference) -> Input:
        """R(S1) - R(S2): multiset difference on the attributes, without TS."""
        left = visible(_attributes(self.synchronize(*self.bind_item(node.this))))
        right = visible(_attributes(self.synchronize(*self.bind_item(node.expression))))
        result = difference(node, left, right)
        return result.as_input(self.name_item(node.this))


def _attributes(item: Input) -> Input:
    """An input without the column that its TS was taken from, unless that is part of its key."""
    if item.event is None or (item.keys and item.event in item.keys):
        return item
    return replace(item, fields=tuple(f for f in item.fields if f.column != item.event))


def _rename_fields(item: Input, node: exp.Expression) -> Input:
    """FROM t AS u(a, b): the first columns of the input are called so."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.columns] if alias is not None else []
    if not names:
        return item
    check_names(names, len(item.fields), item.alias, node)
    renamed = tuple(replace(f, name=name) for f, name in zip(item.fields, names, strict=False))
    return replace(item, fields=renamed + item.fields[len(names) :])


def check_names(names: list[str], columns: int, owner: str, node: exp.Expression) -> None:
    """Refuse a list of column names that is too long for its relation."""
    if len(names) > columns:
        raise problem(
            f'"{owner}" has {columns} columns, but {len(names)} names are given',
            node,
            hint="name as many columns as there are, or fewer",
        )
