"""Joins of FROM items: equalities become keys, the rest a residual, outer joins a union with padded rows, semi and
anti joins rows of the left side alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item
from tidemill.plan.released import release_chains
from tidemill.plan.scalars import Cast, ColumnRef, Literal, Scalar, conjunction
from tidemill.plan.sources import Column
from tidemill.sql.bind.scalar import Scalars, duration_us, types_of
from tidemill.sql.bind.scope import Field, Input, Rhythm, Scope, problem


def rename_columns(item: Input, wanted: set[str] | None) -> Input:
    """The input's wanted columns under names that no other input has."""
    fields, items = [], []
    for f in item.fields:
        if wanted is None or f.name.lower() in wanted or (item.keys and f.column in item.keys):
            name = f"{item.alias}.{f.name}"
            fields.append(Field(f.name, name, f.type))
            items.append(Item(name, ColumnRef(f.column), f.type))
    ts = None
    if item.ts and (wanted is None or "ts" in wanted):
        ts = f"{item.alias}.{r.TS}"
        items.append(Item(ts, ColumnRef(item.ts), "BIGINT"))
    names = {f.column: f"{item.alias}.{f.name}" for f in item.fields}
    keys = tuple(names[k] for k in item.keys) if item.keys is not None else None
    return replace(
        item,
        node=r.Project(item.node, tuple(items)),
        fields=tuple(fields),
        ts=ts,
        keys=keys,
        event=names.get(item.event or ""),
    )


def join(left: Scope, right: Input, kind: str, conditions: list[exp.Expression]) -> Scope:
    """`left` joined with one more input; `kind` is inner, left, right, full, semi or anti."""
    needs = left.needs | set(right.needs)
    both = Scope([*left.inputs, right], _both(left.node, right.node), left.unit_us, needs, beside=left.beside)
    pairs: list[tuple[Item, Item]] = []
    rest: list[Scalar] = []
    band = _Band()
    for condition in conditions:
        pair = find_equality(condition, left, right, both)
        if pair:
            pairs.append(pair)
            continue
        rest.append(Scalars(both).predicate(condition))
        band.learn(condition, left, right, both)
    lnode, lkeys = with_keys(left.node, [p[0] for p in pairs])
    rnode, rkeys = with_keys(right.node, [p[1] for p in pairs])
    pairs_of = tuple(zip(lkeys, rkeys, strict=True))
    inner = r.Join(lnode, rnode, pairs_of, conjunction(*rest), **band.limits(left, right))
    if kind in ("semi", "anti"):
        node = narrow(_half(inner, kind), left.node.schema)
        return replace(left, node=node, needs=needs, beside=[*left.beside, right])
    node = inner if kind == "inner" else outer_join(inner, kind)
    if node.names != (*left.node.names, *right.node.names):
        node = narrow(node, (*left.node.schema, *right.node.schema))
    same = [*left.same, *_equal_columns(lkeys, rkeys, kind)]
    return replace(left, inputs=both.inputs, node=node, needs=needs, same=same)


def _equal_columns(left: list[str], right: list[str], kind: str) -> list[tuple[str, str]]:
    """Columns of one side that the other side's column stands for, as far as an outer join leaves them equal."""
    found = list(zip(right, left, strict=True)) if kind in ("inner", "left") else []
    return found + (list(zip(left, right, strict=True)) if kind in ("inner", "right") else [])


def _both(left: r.Relation, right: r.Relation) -> r.Relation:
    return r.Join(left, right, ())


def narrow(node: r.Relation, columns: tuple[Column, ...]) -> r.Relation:
    """Some columns of a relation."""
    return node if node.schema == columns else r.Project(node, tuple(map(Item.of, columns)))


def find_equality(condition: exp.Expression, left: Scope, right: Input, both: Scope) -> tuple[Item, Item] | None:
    """The two sides of `a = b` when a reads only the left and b only the right input (or the reverse)."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = [_owner(x, right) for x in (condition.this, condition.expression)]
    if sorted(sides) != ["left", "right"]:
        return None
    a, b = (condition.this, condition.expression) if sides[0] == "left" else (condition.expression, condition.this)
    mine, theirs = Scalars(left).bind(a), Scalars(Scope([right], right.node, left.unit_us)).bind(b)
    if mine.type == theirs.type:
        return Item("", mine.value, mine.type), Item("", theirs.value, theirs.type)
    try:
        common = types_of([f"CASE WHEN TRUE THEN {mine.sql} ELSE {theirs.sql} END"], both.node.schema)[0]
    except PlanProblem as error:
        raise problem(error.message, condition, code=error.code, hint=error.hint) from None
    return Item("", Cast(mine.value, common), common), Item("", Cast(theirs.value, common), common)


def _owner(node: exp.Expression, right: Input) -> str:
    """'left', 'right', 'both' or 'none': which side the columns of an expression come from."""
    found = set()
    for column in node.find_all(exp.Column):
        if column.table:
            found.add("right" if column.table.lower() == right.alias.lower() else "left")
        else:
            own = right.field(column.name) is not None
            found.add("right" if own else "left")
    return "both" if len(found) > 1 else (found.pop() if found else "none")


def with_keys(node: r.Relation, keys: list[Item]) -> tuple[r.Relation, list[str]]:
    """The relation with its join keys as plain columns; computed ones are added."""
    names, added = [], []
    for i, key in enumerate(keys):
        plain = key.value.name if isinstance(key.value, ColumnRef) else None
        if plain is None:
            plain = f"__k{i}.{node.names[0]}"
            added.append(Item(plain, key.value, key.type))
        names.append(plain)
    if not added:
        return node, names
    items = tuple(map(Item.of, node.schema))
    return r.Project(node, (*items, *added)), names


def _half(inner: r.Join, kind: str) -> r.Relation:
    """The rows of the left side that have a match, or that have none; each as often as it was there.

    SemiJoin[k]        Join[k]                       SemiJoin[k, residual]        SetCombine[semi]
      L           →      L                             L                     →      L
      R                  SetCombine[distinct]          R                            Project[L's columns]
                           Project[k]                                                 Join[k, residual]
                             R                                                          L
                                                                                        R
    """
    if inner.residual is None:
        keys = tuple(Item.of(Column(b, inner.right.type_of(b))) for b in dict.fromkeys(b for _, b in inner.on))
        one = Item("__one", Literal("1"), "INTEGER")
        values = r.SetCombine("distinct", r.Project(inner.right, keys or (one,)))
        matched = narrow(r.Join(inner.left, values, inner.on), inner.left.schema)
        return matched if kind == "semi" else r.SetCombine("anti", inner.left, matched)
    return r.SetCombine("semi" if kind == "semi" else "anti", inner.left, narrow(inner, inner.left.schema))


def outer_join(inner: r.Join, kind: str) -> r.Relation:
    """Matched rows, and unmatched rows of the preserved side padded with NULL."""
    return add_unmatched(inner, inner.left, inner.right, kind)


def add_unmatched(rows: r.Relation, left: r.Relation, right: r.Relation, kind: str) -> r.Relation:
    """Rows that have the columns of both sides, and those of the preserved side that are not among them."""
    branches: list[r.Relation] = [rows]
    for side in {"left": [left], "right": [right], "full": [left, right]}[kind]:
        matched = r.Project(rows, tuple(map(Item.of, side.schema)))
        alone = r.SetCombine("anti", side, matched)
        own = set(side.names)
        items = [
            Item.of(c) if c.name in own else Item(c.name, Cast(Literal("NULL"), c.type), c.type) for c in rows.schema
        ]
        branches.append(r.Project(alone, tuple(items)))
    return r.Union(tuple(branches))


class _Band:
    """Bounds on right.TS − left.TS that the join condition implies."""

    def __init__(self) -> None:
        self.low: dict[str, int] = {}  # by column of the left side
        self.high: dict[str, int] = {}

    def learn(self, condition: exp.Expression, left: Scope, right: Input, both: Scope) -> None:
        """Take in `a.TS + c < b.TS + d` in any direction; other conditions give no bound."""
        if not isinstance(condition, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
            return
        sides = [_stamp_and_shift(x, both) for x in (condition.this, condition.expression)]
        if sides[0] is None or sides[1] is None or right.ts is None:
            return
        small, large = sides if isinstance(condition, (exp.LT, exp.LTE)) else sides[::-1]
        assert small is not None and large is not None
        gap = small[1] - large[1]  # large column − small column >= gap
        if large[0] == right.ts and small[0] != right.ts:
            self.low[small[0]] = max(gap, self.low.get(small[0], gap))
        elif small[0] == right.ts and large[0] != right.ts:
            self.high[large[0]] = min(-gap, self.high.get(large[0], -gap))

    def limits(self, left: Scope, right: Input) -> dict[str, Any]:
        """How long a row of each side can still find a partner, when one left column is bounded in both directions and
        it is known when the rows of a stamp have all come.
        """
        column = next((c for c in self.high if c in self.low and release_chains(left.node, c) is not None), None)
        if column is None or right.ts is None or release_chains(right.node, right.ts) is None:
            return {}
        if not (r.append_only(left.node) and r.append_only(right.node)):
            return {}
        return {
            "left_ts": column,
            "right_ts": right.ts,
            "keep_left_us": max(self.high[column], 0),
            "keep_right_us": max(-self.low[column], 0),
        }


def _stamp_and_shift(node: exp.Expression, scope: Scope) -> tuple[str, int] | None:
    """(TS column, shift in microseconds) of TS ± durations."""
    if isinstance(node, exp.Paren):
        return _stamp_and_shift(node.this, scope)
    if isinstance(node, exp.Column):
        stamp = scope.stamp(node)
        return (stamp, 0) if stamp else None
    if isinstance(node, (exp.Add, exp.Sub)):
        base, length = _stamp_and_shift(node.this, scope), duration_us(node.expression, scope.unit_us)
        if base is not None and length is not None:
            return base[0], base[1] + (length if isinstance(node, exp.Add) else -length)
    return None


def merge_rhythms(inputs: list[Input]) -> Rhythm:
    """The points of all inputs together: the same where they agree, else every change."""
    moving = [i.rhythm for i in inputs if not r.never_changes(i.node)]
    return moving[0] if moving and all(x == moving[0] for x in moving) else Rhythm()
