"""From a parsed query to a relation of the algebra, with what users see of it: columns, key, time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation, quoted
from tidemill.plan.scalars import conjunction
from tidemill.plan.sources import Column, Schema
from tidemill.sql.bind.groups import bind_groups, is_grouped
from tidemill.sql.bind.joins import join, merge_rhythms, renamed
from tidemill.sql.bind.scalar import Scalars, types_of
from tidemill.sql.bind.scope import Domain, Field, Input, Rhythm, Scope, column_name, merge_domains, near, problem
from tidemill.sql.bind.using import merge_using
from tidemill.sql.bind.windows import apply_now, apply_sync, apply_window, conjuncts, mentions_now
from tidemill.sql.dialect_nodes import Difference, Sync

Lookup = Callable[[str, exp.Expression | None], Input]


@dataclass(frozen=True)
class BoundQuery:
    """A query as a relation: its columns by name, what identifies a row, how time looks, when it refreshes."""

    node: Relation
    keys: tuple[str, ...] | None
    domain: Domain
    rhythm: Rhythm
    needs: frozenset[str]

    @property
    def schema(self) -> Schema:
        return self.node.schema

    def as_input(self, alias: str) -> Input:
        """This query as an item of FROM."""
        fields = tuple(Field(c.name, c.name, c.type) for c in self.schema)
        return Input(alias, self.node, fields, None, self.keys, self.domain, self.rhythm, self.needs)


class Binder:
    """Binds queries. `lookup` knows streams, views, tables and clockStr."""

    def __init__(self, lookup: Lookup, unit_us: int) -> None:
        self.lookup = lookup
        self.unit_us = unit_us
        self.local: list[dict[str, BoundQuery]] = []
        self.unnamed = 0

    def query(self, node: exp.Expression) -> BoundQuery:
        """Bind a SELECT, a set operation, a parenthesised query or a difference."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this)
        if isinstance(node, Difference):
            item = self._difference(node)
            return self._visible(item)
        _refuse_ordering(node)
        names = self._common_tables(node)
        self.local.append(names)
        try:
            if isinstance(node, exp.SetOperation):
                return self._set_operation(node)
            if isinstance(node, exp.Select):
                return self._select(node)
        finally:
            self.local.pop()
        raise problem(f"{type(node).__name__.lower()} is not a query", node, code="TM202")

    def _common_tables(self, node: exp.Expression) -> dict[str, BoundQuery]:
        clause = node.args.get("with_")
        found: dict[str, BoundQuery] = {}
        if clause is None:
            return found
        if clause.args.get("recursive"):
            raise problem("recursive queries are not possible", clause, code="TM202",
                          hint="write the levels as views on views")
        for table in clause.expressions:
            self.local.append(found)
            try:
                found[table.alias.lower()] = self.query(table.this)
            finally:
                self.local.pop()
        return found

    # ---- FROM ----------------------------------------------------------------------------------

    def _item(self, node: exp.Expression) -> tuple[Input, Sync | None]:
        """One item of FROM with its window; the SYNC clause is applied later, above the NOW conditions."""
        if isinstance(node, Difference):
            return self._difference(node), None
        if isinstance(node, exp.Subquery):
            item = self.query(node.this).as_input(self._alias(node))
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            item = self._table(node)
        else:
            raise problem("only streams, views, tables and subqueries can stand in FROM", node, code="TM202",
                          hint="files are read through REGISTER SOURCE … FROM FILES")
        for clause in ("pivots", "sample"):
            if node.args.get(clause):
                raise problem(f"{clause} in FROM is not possible", node, code="TM202", hint="leave it out")
        window = node.args.get("window")
        if window is not None:
            item = apply_window(item, window, self.unit_us)
        return item, node.args.get("sync")

    def _table(self, node: exp.Table) -> Input:
        if node.args.get("db") or node.args.get("catalog"):
            raise problem(f'"{node.sql()}" has too many parts', node, code="TM202", hint="names here have one part")
        for names in reversed(self.local):
            if node.name.lower() in names:
                return names[node.name.lower()].as_input(self._alias(node))
        return replace(self.lookup(node.name, node), alias=self._alias(node))

    def _alias(self, node: exp.Expression) -> str:
        if node.alias_or_name:
            return str(node.alias_or_name)
        self.unnamed += 1
        return f"q{self.unnamed}"

    def _sealed(self, item: Input, sync: Sync | None) -> Input:
        if sync is None:
            return item
        points = self._points(sync) if sync.on is not None else None
        sealed = apply_sync(item, sync, points, self.unit_us)
        return replace(sealed, needs=sealed.needs | points.needs) if points is not None else sealed

    def _points(self, sync: Sync) -> Input:
        try:
            return self.lookup(str(sync.on), None)
        except CatalogProblem as error:
            line, column = sync.place or (None, None)
            raise CatalogProblem(error.code, error.message, detail=error.detail, hint=error.hint,
                                 line=line, column=column) from None

    def _difference(self, node: Difference) -> Input:
        """R(S1) - R(S2): multiset difference on the attributes, without TS."""
        left = self._visible(_attributes(self._sealed(*self._item(node.this))))
        right = self._visible(_attributes(self._sealed(*self._item(node.expression))))
        both = self._aligned(left, right, node)
        result = BoundQuery(
            r.SetCombine("except_all", *both), left.keys if left.keys else None,
            merge_domains([left.domain, right.domain]), _together(left, right), left.needs | right.needs,
        )
        return result.as_input(self._alias(node.this))

    def _visible(self, item: Input) -> BoundQuery:
        """All columns of an input as `SELECT *` shows them."""
        items = tuple(Item(f.name, quoted(f.column), f.type) for f in item.fields)
        names = {f.column: f.name for f in item.fields}
        keys = tuple(names[k] for k in item.keys) if item.keys is not None else None
        return BoundQuery(r.Project(item.node, items), keys, item.domain, item.rhythm, item.needs)

    def _scope(self, select: exp.Select) -> tuple[Scope, list[exp.Expression]]:
        """All inputs joined, and the conditions of WHERE that are left for a filter."""
        clause = select.args.get("from_")
        if clause is None:
            raise problem("a standing query needs FROM", select, code="TM202", hint="name a stream or a view")
        source = clause.this
        joins = [*(source.args.get("joins") or []), *(select.args.get("joins") or [])]
        pairs = [self._item(source), *(self._item(j.this) for j in joins)]
        _check_aliases([p[0] for p in pairs], select)
        _quoted_texts(select, [p[0] for p in pairs])
        merged, using = merge_using(select, joins, [p[0] for p in pairs])
        conditions = list(conjuncts(select.args.get("where")))
        nullable = _nullable(joins, [p[0].alias for p in pairs])
        _counted_inputs(select, [p[0].alias for p in pairs], nullable)
        pairs, conditions = self._time_conditions(pairs, conditions, nullable, select)
        if len(pairs) == 1:
            item = self._sealed(*pairs[0])
            return Scope([item], item.node, self.unit_us, set(item.needs)), conditions
        scope, rest = self._joined(pairs, list(zip(joins, using, strict=True)), conditions, nullable, select)
        scope.merged = merged
        return scope, rest

    def _time_conditions(
        self, pairs: list[tuple[Input, Sync | None]], conditions: list[exp.Expression], nullable: set[str],
        select: exp.Select,
    ) -> tuple[list[tuple[Input, Sync | None]], list[exp.Expression]]:
        """Conditions with NOW go to the input whose columns they read, below its synchronizer."""
        mine: dict[str, list[exp.Expression]] = {}
        rest = []
        wants_ts = {c.table.lower() for c in select.find_all(exp.Column) if c.name.lower() == "ts"}
        if wants_ts:
            pairs = [
                (p.stamped() if ({p.alias.lower(), ""} & wants_ts) and not p.field("TS") else p, s) for p, s in pairs
            ]
        for condition in conditions:
            if not mentions_now(condition):
                rest.append(condition)
                continue
            owners = _owners(condition, [p for p, _ in pairs])
            if len(owners) != 1 or owners & nullable:
                raise problem("a condition with NOW must read one input that is not on the optional side of a join",
                              condition, code="TM205",
                              hint="put the window on the input, for example S [WINDOW 10 MINUTES]")
            mine.setdefault(owners.pop(), []).append(condition)
        done = []
        for item, sync in pairs:
            scope = Scope([item], item.node, self.unit_us)
            done.append((apply_now(item, mine.get(item.alias, []), scope), sync))
        return done, rest

    def _joined(
        self, pairs: list[tuple[Input, Sync | None]], joins: list[tuple[exp.Join, list[exp.Expression]]],
        conditions: list[exp.Expression], nullable: set[str], select: exp.Select,
    ) -> tuple[Scope, list[exp.Expression]]:
        sealed = [self._sealed(*p) for p in pairs]
        wanted = _wanted(select, sealed)
        sides = [renamed(i, wanted[i.alias]) for i in sealed]
        sides, conditions = self._pushed(sides, conditions, nullable)
        scope = Scope([sides[0]], sides[0].node, self.unit_us, set(sides[0].needs))
        for (clause, using), side in zip(joins, sides[1:], strict=True):
            kind = _join_kind(clause)
            given = [*conjuncts(clause.args.get("on")), *using]
            if kind == "inner":
                # A condition on an optional input waits: a later outer join may still bring its NULLs.
                known = ({i.alias for i in scope.inputs} | {side.alias}) - nullable
                ready = [c for c in conditions if _owners(c, sides) <= known]
                given += ready
                conditions = [c for c in conditions if c not in ready]
            scope = join(scope, side, kind, given)
        return scope, conditions

    def _pushed(self, sides: list[Input], conditions: list[exp.Expression],
                nullable: set[str]) -> tuple[list[Input], list[exp.Expression]]:
        """A condition on one input that is always present filters that input before the join."""
        rest = []
        for condition in conditions:
            owners = _owners(condition, sides)
            if len(owners) == 1 and not owners & nullable:
                alias = owners.pop()
                i = next(i for i, s in enumerate(sides) if s.alias == alias)
                predicate = Scalars(Scope([sides[i]], sides[i].node, self.unit_us)).predicate(condition)
                sides = [*sides[:i], replace(sides[i], node=r.Filter(sides[i].node, predicate)), *sides[i + 1:]]
            else:
                rest.append(condition)
        return sides, rest

    # ---- SELECT --------------------------------------------------------------------------------

    def _select(self, select: exp.Select) -> BoundQuery:
        _refuse_subqueries(select)
        select = select.copy()
        scope, conditions = self._scope(select)
        predicate = conjunction(*(Scalars(scope).predicate(c) for c in conditions))
        if predicate:
            scope.node = r.Filter(scope.node, predicate)
        for clause in ("windows", "qualify", "laterals", "connect", "match", "distribute", "cluster", "sort"):
            if select.args.get(clause):
                raise problem(f"{clause} is not possible in a standing query", select, code="TM202",
                              hint="use it when you read the answer, with an ad hoc SELECT")
        rhythm = merge_rhythms(scope.inputs)
        if is_grouped(select):
            grouped = bind_groups(select, scope)
            node, keys = grouped.node, grouped.keys
            rhythm = grouped.rhythm or rhythm
        else:
            node, keys = self._projection(select, scope)
        distinct = select.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on"):
                raise problem("DISTINCT ON is not possible", select, code="TM202", hint="use GROUP BY with MIN or MAX")
            node, keys = r.SetCombine("distinct", node), keys
        return BoundQuery(node, keys, scope.domain, rhythm, frozenset(scope.needs))

    def _projection(self, select: exp.Select, scope: Scope) -> tuple[Relation, tuple[str, ...] | None]:
        scalars = Scalars(scope)
        items: list[Item] = []
        for expression in select.expressions:
            items += _star_items(expression, scope) or [_named(expression, scalars, len(items))]
        items = _unique(items, select)
        return r.Project(scope.node, tuple(items)), _surviving_keys(scope, items)

    # ---- set operations ------------------------------------------------------------------------

    def _set_operation(self, node: exp.SetOperation) -> BoundQuery:
        left, right = self.query(node.this), self.query(node.expression)
        if node.args.get("by_name"):
            raise problem("BY NAME is not possible", node, code="TM202", hint="put the columns in the same order")
        a, b = self._aligned(left, right, node)
        distinct = node.args.get("distinct") is not False
        keys = None
        if isinstance(node, exp.Union):
            relation: Relation = r.Union((a, b))
            relation = r.SetCombine("distinct", relation) if distinct else relation
        else:
            word = "except" if isinstance(node, exp.Except) else "intersect"
            relation = r.SetCombine(word if distinct else f"{word}_all", a, b)  # type: ignore[arg-type]
            keys = left.keys
        domain = merge_domains([left.domain, right.domain])
        return BoundQuery(relation, keys, domain, _together(left, right), left.needs | right.needs)

    def _aligned(self, left: BoundQuery, right: BoundQuery, node: exp.Expression) -> tuple[Relation, Relation]:
        """Both sides with the names of the left and the common types."""
        if len(left.schema) != len(right.schema):
            raise problem(f"the two sides have {len(left.schema)} and {len(right.schema)} columns", node, code="TM218",
                          hint="select the same number of columns on both sides")
        pairs = list(zip(left.schema, right.schema, strict=True))
        common = [
            a.type if a.type == b.type else
            _common_type(a, b, node) for a, b in pairs
        ]
        names = [c.name for c in left.schema]
        return _recast(left.node, names, common), _recast(right.node, names, common)


def _quoted_texts(select: exp.Select, inputs: list[Input]) -> None:
    """`state = "VT"`, as paper 000 writes it: what is compared and is the name of no column, nor near one, is text."""
    for clause in (select.args.get("where"), *(j.args.get("on") for j in select.args.get("joins") or [])):
        for column in list(clause.find_all(exp.Column)) if clause is not None else []:
            compared = isinstance(column.parent, (exp.EQ, exp.NEQ, exp.In, exp.LT, exp.LTE, exp.GT, exp.GTE))
            if compared and column.this.args.get("quoted") and not column.table and column.name.lower() != "ts" and (
                    not any(i.field(column.name) for i in inputs)) and not near(column.name, inputs):
                column.replace(exp.Literal.string(column.name))


def _counted_inputs(select: exp.Select, aliases: list[str], nullable: set[str]) -> None:
    """`COUNT(B.*)` counts joined rows that have a row of B: all of them, unless B is optional."""
    for call in list(select.find_all(exp.Count)):
        counted = call.this
        if not isinstance(counted, exp.Column) or not isinstance(counted.this, exp.Star):
            continue
        alias = next((a for a in aliases if a.lower() == counted.table.lower()), None)
        if alias is None:
            raise problem(f'there is no input named "{counted.table}" in FROM', counted,
                          hint=f"the inputs here are {', '.join(aliases)}")
        if alias in nullable:
            raise problem(f"COUNT({counted.sql()}) of an optional input is not possible", counted, code="TM206",
                          hint=f"count a column of it that is never NULL, for example COUNT({alias}.key)")
        counted.replace(exp.Star())


def _common_type(a: Column, b: Column, node: exp.Expression) -> str:
    try:
        return types_of([f"CASE WHEN TRUE THEN CAST(NULL AS {a.type}) ELSE CAST(NULL AS {b.type}) END"], ())[0]
    except PlanProblem:
        raise problem(f'columns "{a.name}" and "{b.name}" have no common type', node, code="TM203",
                      detail=f"{a.type} and {b.type}", hint="cast one of them") from None


def _recast(node: Relation, names: list[str], types: list[str]) -> Relation:
    items = []
    for column, name, type_ in zip(node.schema, names, types, strict=True):
        sql = quoted(column.name) if column.type == type_ else f"CAST({quoted(column.name)} AS {type_})"
        items.append(Item(name, sql, type_))
    if [c.name for c in node.schema] == names and [c.type for c in node.schema] == types:
        return node
    return r.Project(node, tuple(items))


def _attributes(item: Input) -> Input:
    """An input without the column that its TS was taken from, unless that is part of its key."""
    if item.event is None or (item.keys and item.event in item.keys):
        return item
    return replace(item, fields=tuple(f for f in item.fields if f.column != item.event))


def _together(left: BoundQuery, right: BoundQuery) -> Rhythm:
    return merge_rhythms([left.as_input("l"), right.as_input("r")])


def _refuse_ordering(node: exp.Expression) -> None:
    for clause in ("order", "limit", "offset"):
        if node.args.get(clause):
            raise problem(f"{clause.upper()} has no meaning in a standing query: its answer is a set that changes",
                          node,
                          code="TM208", hint="order and limit the answer when you read it, with an ad hoc SELECT")


def _refuse_subqueries(select: exp.Select) -> None:
    """Expressions read the row at hand; other relations stand in FROM."""
    clauses = [*select.expressions, *(select.args.get(c) for c in ("where", "group", "having"))]
    clauses += [j.args.get("on") for j in select.args.get("joins") or []]
    for node in (n for c in clauses if c is not None for n in c.walk()):
        if isinstance(node, (exp.Query, exp.Exists)):
            raise problem("a subquery is not possible inside an expression", node, code="TM202",
                          hint="put it into FROM and join with it")
        if isinstance(node, exp.Window):
            raise problem("window functions are not possible in a standing query", node, code="TM202",
                          hint="use GROUP BY, or an ad hoc SELECT over the view")


def _check_aliases(inputs: list[Input], select: exp.Select) -> None:
    seen = set()
    for item in inputs:
        if item.alias.lower() in seen:
            raise problem(f'two inputs are named "{item.alias}"', select, hint="give one of them another alias")
        seen.add(item.alias.lower())


def _owners(node: exp.Expression, inputs: list[Input]) -> set[str]:
    """The inputs whose columns an expression reads."""
    found = set()
    for column in node.find_all(exp.Column):
        for item in inputs:
            stamped = column.name.lower() == "ts" and item.ts
            named = column.table.lower() == item.alias.lower()
            if named or (not column.table and (item.field(column.name) or stamped)):
                found.add(item.alias)
    return found


def _nullable(joins: list[exp.Join], aliases: list[str]) -> set[str]:
    """Inputs that an outer join may replace by NULLs."""
    found: set[str] = set()
    for i, clause in enumerate(joins):
        kind = _join_kind(clause)
        if kind in ("left", "full"):
            found.add(aliases[i + 1])
        if kind in ("right", "full"):
            found |= set(aliases[: i + 1])
    return found


def _join_kind(clause: exp.Join) -> str:
    side, kind = (clause.side or "").lower(), (clause.kind or "").lower()
    if clause.args.get("method") or kind not in ("", "inner", "outer", "cross"):
        raise problem(f"{(clause.args.get('method') or kind).lower()} joins are not possible", clause, code="TM202",
                      hint="use an inner, left, right or full join with ON")
    return side or "inner"


def _wanted(select: exp.Select, inputs: list[Input]) -> dict[str, set[str] | None]:
    """The columns of each input that this SELECT reads; None means all."""
    wanted: dict[str, set[str] | None] = {i.alias: set() for i in inputs}
    by_lower = {i.alias.lower(): i.alias for i in inputs}
    if any(isinstance(e, exp.Star) for e in select.expressions):
        everything = {i.alias: {f.name.lower() for f in i.fields} for i in inputs}
        wanted = {a: set(names) for a, names in everything.items()}
    for column in select.find_all(exp.Column):
        targets = [by_lower[column.table.lower()]] if column.table.lower() in by_lower else list(wanted)
        for alias in targets:
            known = wanted[alias]
            if isinstance(column.this, exp.Star):
                item = next(i for i in inputs if i.alias == alias)
                wanted[alias] = (known or set()) | {f.name.lower() for f in item.fields}
            elif known is not None:
                known.add(column.name.lower())
    for clause in select.args.get("joins") or []:
        for name in clause.args.get("using") or []:
            for known in wanted.values():
                if known is not None:
                    known.add(name.name.lower())
    return wanted


def _star_items(expression: exp.Expression, scope: Scope) -> list[Item] | None:
    star = isinstance(expression, exp.Star)
    qualified = isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
    if not star and not qualified:
        return None
    table = expression.text("table").lower() if qualified else None
    inputs = [i for i in scope.inputs if table is None or i.alias.lower() == table]
    if not inputs:
        raise problem(f'there is no input named "{table}" in FROM', expression)
    inner = expression.this if qualified else expression
    for option in ("except_", "replace", "rename", "except"):
        if inner.args.get(option):
            raise problem("* EXCEPT, REPLACE and RENAME are not possible", expression, code="TM202",
                          hint="name the columns")
    items: list[Item] = []
    for field in (f for i in inputs for f in i.fields):
        meant = scope.merged.get(field.name.lower()) if star else None
        if meant is None:
            items.append(Item(field.name, quoted(field.column), field.type))
        elif all(i.name.lower() != field.name.lower() for i in items):
            bound = Scalars(scope).bind(meant)
            items.append(Item(field.name, bound.sql, bound.type))
    return items


def _named(expression: exp.Expression, scalars: Scalars, index: int) -> Item:
    inner = expression.this if isinstance(expression, exp.Alias) else expression
    bound = scalars.bind(inner)
    name = expression.alias if isinstance(expression, exp.Alias) else _default_name(inner, index, scalars.scope)
    return Item(name, bound.sql, "BIGINT" if bound.type in ('"NULL"', "NULL") else bound.type)


def _default_name(node: exp.Expression, index: int, scope: Scope) -> str:
    if isinstance(node, exp.Column):
        return column_name(node, scope)
    if isinstance(node, exp.Func):
        return (node.name if isinstance(node, exp.Anonymous) else node.key).lower()
    return f"col{index}"


def _unique(items: list[Item], select: exp.Select) -> list[Item]:
    """Every column name once: a repeated one gets a number."""
    seen: dict[str, int] = {}
    result = []
    for item in items:
        if item.name.startswith("__"):
            raise problem(f'column name "{item.name}" is reserved', select, hint="give it another name with AS")
        key = item.name.lower()
        count = seen.get(key, 0)
        seen[key] = count + 1
        result.append(item if count == 0 else Item(f"{item.name}_{count}", item.sql, item.type))
    return result


def _surviving_keys(scope: Scope, items: list[Item]) -> tuple[str, ...] | None:
    """The key of the result: all keys of all inputs, if every one is among its columns or equal to one that is."""
    names: dict[str, str] = {}
    for item in items:
        names.setdefault(item.sql, item.name)
    for column, other in scope.same * len(scope.inputs):
        if quoted(other) in names:
            names.setdefault(quoted(column), names[quoted(other)])
    result: list[str] = []
    for source in scope.inputs:
        if source.keys is None:
            return None
        for key in source.keys:
            if quoted(key) not in names:
                return None
            result.append(names[quoted(key)])
    return tuple(dict.fromkeys(result))


