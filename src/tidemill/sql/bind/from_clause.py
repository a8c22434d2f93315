"""The FROM clause: all its items joined, with the conditions of WHERE that belong below the join.

Conditions of WHERE with subqueries wait until all is joined; those of ON are applied where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.sql.bind.aliases import expand_aliases
from tidemill.sql.bind.asof_joins import KINDS, join_at, kind_at, nearest_row
from tidemill.sql.bind.field_paths import resolve_field_paths
from tidemill.sql.bind.from_items import FromItems, Pair
from tidemill.sql.bind.group_windows import rewrite_group_windows
from tidemill.sql.bind.joins import add_unmatched, join, narrow, rename_columns
from tidemill.sql.bind.kept_joins import add_bands
from tidemill.sql.bind.scalar import Scalars
from tidemill.sql.bind.scope import Input, Scope, is_near, problem
from tidemill.sql.bind.sessions import complete_sessions
from tidemill.sql.bind.stars import star_of
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.forms import has_subquery, own_clauses, own_nodes
from tidemill.sql.bind.subqueries.lateral import Laterals
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.table_windows import slide_hops
from tidemill.sql.bind.unnest import apply_unnests, is_unnest, take_unnests
from tidemill.sql.bind.using import merge_using
from tidemill.sql.bind.values import one_row
from tidemill.sql.bind.windows import apply_now, conjuncts, mentions_now
from tidemill.sql.dialect.nodes import all_nodes

HALF = ("semi", "anti")


def bind_from(
    select: exp.Select, items: FromItems, subqueries: Subqueries
) -> tuple[Scope, list[exp.Expression], list[exp.Expression]]:
    """All inputs joined, the conditions of WHERE that are left for a filter, and those with subqueries."""
    source = _first_item(select)
    joins = [*(source.args.get("joins") or []), *(select.args.get("joins") or [])]
    listed = [source, *(j.this for j in joins)]
    rewrite_group_windows(select, listed, items.unit_us)
    complete_sessions(select, listed)
    slide_hops(select, listed)
    laterals = Laterals(subqueries, {})
    pairs = laterals.bind_items([one for one in listed if one is source or not is_unnest(one)], items)
    _check_aliases([p[0] for p in pairs], select)
    kept = [j for j in joins if not is_unnest(j.this)]
    joins, inputs, elements = take_unnests(
        select, joins, [p[0] for p in pairs], lambda i: _never_apart(kept, pairs, laterals, i), items.unit_us
    )
    pairs = [(item, sync) for item, (_, sync) in zip(inputs, pairs, strict=True)]
    resolve_field_paths(select, [p[0] for p in pairs])
    expand_aliases(select, [p[0] for p in pairs])
    _read_quoted_texts(select, [p[0] for p in pairs])
    items.forgets |= add_bands(joins, [p[0] for p in pairs], items.keep_us)
    merged, using = merge_using(select, joins, [p[0] for p in pairs])
    every = list(conjuncts(select.args.get("where")))
    conditions: list[exp.Expression] = []
    nested: list[exp.Expression] = []
    for condition in every:
        (nested if has_subquery(condition) else conditions).append(condition)
    nullable = _nullable(joins, [p[0].alias for p in pairs])
    _rewrite_counted_inputs(select, [p[0].alias for p in pairs], nullable)
    pairs, conditions = _time_conditions(pairs, conditions, nullable, laterals, select, items.unit_us)
    synchronized = apply_unnests([items.synchronize(*p) for p in pairs], elements)
    if len(synchronized) == 1 and not has_subquery(*own_clauses(select)):
        return Scope(synchronized, synchronized[0].node, items.unit_us, set(synchronized[0].needs)), conditions, []
    joined = _Joins(select, subqueries, laterals, nullable, items.unit_us)
    scope, rest = joined.join_inputs(synchronized, list(zip(joins, using, strict=True)), conditions)
    scope.merged = merged
    return scope, rest, nested


def _first_item(select: exp.Select) -> exp.Expression:
    """The first item of FROM."""
    clause = select.args.get("from_")
    if clause is None:
        return one_row(select)
    source: exp.Expression = clause.this
    if source.args.get("version") is not None:
        raise problem(
            "FOR SYSTEM_TIME AS OF is possible on the right of a join only",
            source,
            code="TM202",
            hint="for example  FROM S JOIN K FOR SYSTEM_TIME AS OF S.TS ON S.k = K.k",
        )
    return source


def _never_apart(joins: list[exp.Join], pairs: list[Pair], laterals: Laterals, index: int) -> str | None:
    """Why a list of an input cannot be taken apart before the joins; None where it can."""
    aliases = [p[0].alias for p in pairs]
    if aliases[index] in _nullable(joins, aliases):
        return f'"{aliases[index]}" on the optional side of a join'
    if index and _join_kind(joins[index - 1]) in (*KINDS, *HALF):
        return f'"{aliases[index]}" in this join'
    if aliases[index] in laterals.found:
        return f'"{aliases[index]}", which reads other items of FROM,'
    return None


def _time_conditions(
    pairs: list[Pair],
    conditions: list[exp.Expression],
    nullable: set[str],
    laterals: Laterals,
    select: exp.Select,
    unit_us: int,
) -> tuple[list[Pair], list[exp.Expression]]:
    """Conditions with NOW go to the input whose columns they read, below its synchronizer."""
    mine: dict[str, list[exp.Expression]] = {}
    rest = []
    wants_ts = {c.table.lower() for c in all_nodes(select) if isinstance(c, exp.Column) and c.name.lower() == "ts"}
    if wants_ts:
        stamped = [{p.alias.lower(), ""} & wants_ts and not p.field("TS") for p, _ in pairs]
        stamped = [wants and p.alias not in laterals.found for wants, (p, _) in zip(stamped, pairs, strict=True)]
        pairs = [(p.with_stamp() if wants else p, s) for wants, (p, s) in zip(stamped, pairs, strict=True)]
    for condition in conditions:
        if not mentions_now(condition):
            rest.append(condition)
            continue
        owners = _owners(condition, [p for p, _ in pairs])
        if len(owners) != 1 or owners & nullable:
            raise problem(
                "a condition with NOW must read one input that is not on the optional side of a join",
                condition,
                code="TM205",
                hint="put the window on the input, for example S [WINDOW 10 MINUTES]",
            )
        mine.setdefault(owners.pop(), []).append(condition)
    done = []
    for item, sync in pairs:
        scope = Scope([item], item.node, unit_us)
        done.append((apply_now(item, mine.get(item.alias, []), scope), sync))
    return done, rest


@dataclass(frozen=True)
class _Joins:
    """Joins the inputs of one SELECT from the left."""

    select: exp.Select
    subqueries: Subqueries
    laterals: Laterals
    nullable: set[str]
    unit_us: int

    def join_inputs(
        self,
        synchronized: list[Input],
        joins: list[tuple[exp.Join, list[exp.Expression]]],
        conditions: list[exp.Expression],
    ) -> tuple[Scope, list[exp.Expression]]:
        """The joined inputs, and the conditions that are left; `joins` has those of USING beside each join."""
        sides = self._rename(synchronized, joins)
        hidden = {s.alias for (clause, _), s in zip(joins, sides[1:], strict=True) if _join_kind(clause) in HALF}
        seen = [s for s in sides if s.alias not in hidden]
        # The newest row of ASOF is that of all rows: a condition on it must not choose another one.
        newest = {s.alias for (clause, _), s in zip(joins, sides[1:], strict=True) if _join_kind(clause) == "asof"}
        whole = self.nullable | newest | set(self.laterals.found)
        seen, conditions = _push_conditions(seen, conditions, whole, self.unit_us)
        filtered = {s.alias: s for s in seen}
        sides = [filtered.get(s.alias, s) for s in sides]
        scope = Scope([sides[0]], sides[0].node, self.unit_us, set(sides[0].needs))
        for (clause, using), side in zip(joins, sides[1:], strict=True):
            kind = _join_kind(clause)
            given = [*conjuncts(clause.args.get("on")), *using]
            if kind.startswith("asof") and using:
                given[-1] = exp.GTE(this=using[-1].this, expression=using[-1].expression)
            if kind == "inner":
                # A condition on an optional input waits: a later outer join may still bring its NULLs.
                known = ({i.alias for i in scope.inputs} | {side.alias}) - self.nullable
                ready = [c for c in conditions if _owners(c, seen) <= known]
                given += ready
                conditions = [c for c in conditions if c not in ready]
            join_one = self._join_past if kind in KINDS else self._join
            scope = join_one(scope, side, kind, given, clause)
        return scope, conditions

    def _join_past(self, scope: Scope, side: Input, kind: str, given: list[exp.Expression], clause: exp.Join) -> Scope:
        """A join with the past; ASOF by anything else than event times is one with the nearest row."""
        try:
            return join_at(scope, side, clause, given, kind)
        except PlanProblem as error:
            nearest = nearest_row(clause.this, given, scope, side) if kind.startswith("asof") else None
            if error.code != "TM202" or nearest is None:
                raise
            self.laterals.found[side.alias] = nearest
            return self.laterals.apply(scope, side.alias, "left" if kind.endswith("left") else "inner", [])

    def _rename(self, synchronized: list[Input], joins: list[tuple[exp.Join, list[exp.Expression]]]) -> list[Input]:
        """The inputs with the columns that are read, under names that no other input has."""
        wanted = _columns_read(self.select, synchronized)
        if any(_join_kind(clause) in KINDS for clause, _ in joins):
            # A join with the past needs the times of its inputs, by whatever name the query has them.
            wanted = {a: None if names is None else names | {"ts"} for a, names in wanted.items()}
        sides = [rename_columns(i, wanted[i.alias]) for i in synchronized]
        if has_subquery(*own_clauses(self.select)):
            # What is joined with a subquery has a column, also where the query shows none.
            first = [{f.name.lower() for f in i.fields[:1]} for i in synchronized]
            sides = [
                s if s.node.names else rename_columns(i, f) for s, i, f in zip(sides, synchronized, first, strict=True)
            ]
        return sides

    def _join(self, scope: Scope, side: Input, kind: str, given: list[exp.Expression], _clause: exp.Join) -> Scope:
        """Join one more input; conditions with subqueries of inner joins filter the joined rows."""
        plain, nested = [c for c in given if not has_subquery(c)], [c for c in given if has_subquery(c)]
        lateral = side.alias in self.laterals.found
        if lateral and not (kind == "inner" and nested):
            return self.laterals.apply(scope, side.alias, kind, given)
        if kind == "inner":
            scope = self.laterals.apply(scope, side.alias, kind, plain) if lateral else join(scope, side, kind, plain)
            for condition in nested:
                self.subqueries.filter(condition, Outer(scope))
            return scope
        if nested and self.subqueries.read_both(nested, Outer(scope), Outer(Scope([side], side.node, self.unit_us))):
            return self._join_pairs(scope, side, kind, plain, nested)
        if nested:
            right = Scope([side], side.node, self.unit_us, set(side.needs), numbers=scope.numbers)
            plain += [self.subqueries.rewrite_between(c, Outer(scope), Outer(right)) for c in nested]
            side = replace(side, node=right.node, needs=frozenset(right.needs))
            scope.beside += right.beside
        return join(scope, side, kind, plain)

    def _join_pairs(
        self, scope: Scope, side: Input, kind: str, plain: list[exp.Expression], nested: list[exp.Expression]
    ) -> Scope:
        """A join that is not inner, by subqueries over both of its sides: those that match, then those that do not."""
        left = scope.node
        pairs = join(scope, side, "inner", plain)
        for condition in nested:
            self.subqueries.filter(condition, Outer(pairs))
        matched = narrow(pairs.node, (*left.schema, *side.node.schema))
        if kind in HALF:
            node: r.Relation = r.SetCombine("semi" if kind == "semi" else "anti", left, narrow(matched, left.schema))
            return replace(pairs, inputs=scope.inputs, node=node, beside=[*pairs.beside, side])
        return replace(pairs, node=add_unmatched(matched, left, side.node, kind), same=scope.same)


def _push_conditions(
    sides: list[Input], conditions: list[exp.Expression], nullable: set[str], unit_us: int
) -> tuple[list[Input], list[exp.Expression]]:
    """A condition on one input that is always present filters that input before the join."""
    rest = []
    for condition in conditions:
        owners = _owners(condition, sides)
        if len(owners) == 1 and not owners & nullable:
            alias = owners.pop()
            i = next(i for i, s in enumerate(sides) if s.alias == alias)
            predicate = Scalars(Scope([sides[i]], sides[i].node, unit_us)).predicate(condition)
            sides = [*sides[:i], replace(sides[i], node=r.Filter(sides[i].node, predicate)), *sides[i + 1 :]]
        else:
            rest.append(condition)
    return sides, rest


def _read_quoted_texts(select: exp.Select, inputs: list[Input]) -> None:
    """`state = "VT"`, as paper 000 writes it: what is compared and is the name of no column, nor near one, is text."""
    for clause in (select.args.get("where"), *(j.args.get("on") for j in select.args.get("joins") or [])):
        for column in [n for n in own_nodes(clause) if isinstance(n, exp.Column)]:
            compared = isinstance(column.parent, (exp.EQ, exp.NEQ, exp.In, exp.LT, exp.LTE, exp.GT, exp.GTE))
            if (
                compared
                and column.this.args.get("quoted")
                and not column.table
                and column.name.lower() != "ts"
                and (not any(i.field(column.name) for i in inputs))
                and not is_near(column.name, inputs)
            ):
                column.replace(exp.Literal.string(column.name))


def _rewrite_counted_inputs(select: exp.Select, aliases: list[str], nullable: set[str]) -> None:
    """`COUNT(B.*)` counts joined rows that have a row of B: all of them, unless B is optional."""
    for call in own_nodes(*own_clauses(select)):
        counted = call.this if isinstance(call, exp.Count) else None
        if not isinstance(counted, exp.Column) or not isinstance(counted.this, exp.Star):
            continue
        alias = next((a for a in aliases if a.lower() == counted.table.lower()), None)
        if alias is None:
            raise problem(
                f'there is no input named "{counted.table}" in FROM',
                counted,
                hint=f"the inputs here are {', '.join(aliases)}",
            )
        if alias in nullable:
            raise problem(
                f"COUNT({counted.sql()}) of an optional input is not possible",
                counted,
                code="TM206",
                hint=f"count a column of it that is never NULL, for example COUNT({alias}.key)",
            )
        counted.replace(exp.Star())


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
            with_stamp = column.name.lower() == "ts" and item.ts
            named = column.table.lower() == item.alias.lower()
            if named or (not column.table and (item.field(column.name) or with_stamp)):
                found.add(item.alias)
    return found


def _nullable(joins: list[exp.Join], aliases: list[str]) -> set[str]:
    """Inputs that an outer join may replace by NULLs."""
    found: set[str] = set()
    for i, clause in enumerate(joins):
        kind = _join_kind(clause)
        if kind in ("left", "full", "asof left", "at left"):
            found.add(aliases[i + 1])
        if kind in ("right", "full"):
            found |= set(aliases[: i + 1])
    return found


def _join_kind(clause: exp.Join) -> str:
    past = kind_at(clause)
    if past is not None:
        return past
    side, kind = (clause.side or "").lower(), (clause.kind or "").lower()
    if kind in HALF and side in ("", "left") and not clause.args.get("method"):
        return kind
    if clause.args.get("method") or kind not in ("", "inner", "outer", "cross"):
        raise problem(
            f"{(clause.args.get('method') or kind).lower()} joins are not possible",
            clause,
            code="TM202",
            hint="use an inner, left, right, full, semi or anti join with ON",
        )
    return side or "inner"


def _columns_read(select: exp.Select, inputs: list[Input]) -> dict[str, set[str] | None]:
    """The columns of each input that this SELECT reads; None means all."""
    wanted: dict[str, set[str] | None] = {i.alias: set() for i in inputs}
    by_lower = {i.alias.lower(): i.alias for i in inputs}
    if any(isinstance(star_of(e), exp.Star) for e in select.expressions):
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
