"""Joins with the past: ASOF JOIN, and FOR SYSTEM_TIME AS OF the time of a row.

    A ASOF JOIN B ON A.k = B.k AND A.TS >= B.TS       the newest row of B with that key at the time of A's row
    A JOIN B FOR SYSTEM_TIME AS OF A.TS ON A.k = B.k  the rows of B, a keyed stream, view or table, as of that time

Both are decided when the time of A's row is closed, and never change: A is a stream that takes no rows back. The first
one is the second one over the newest row of each key of B.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.scalars import conjunction
from tidemill.plan.sort_keys import SortKey
from tidemill.sql.bind.joins import find_equality, narrow, with_keys
from tidemill.sql.bind.scalar import Scalars
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.bind.windows import MIRROR
from tidemill.sql.dialect.nodes import copy_tree

KINDS = ("asof", "asof left", "at", "at left")


def kind_at(clause: exp.Join) -> str | None:
    """The kind of a join with the past; None for any other join."""
    method, version = str(clause.args.get("method") or "").upper(), clause.this.args.get("version")
    if method != "ASOF" and version is None:
        return None
    side, kind = (clause.side or "").lower(), (clause.kind or "").lower()
    if version is not None and (version.name, version.args["kind"]) != ("TIMESTAMP", "AS OF"):
        raise problem(
            f"FOR {version.name} {version.args['kind']} is not possible",
            version,
            code="TM202",
            hint="write FOR SYSTEM_TIME AS OF S.TS",
        )
    if side not in ("", "left") or kind not in ("", "inner", "outer") or (method and version is not None):
        raise problem(
            "this join with the past is not possible",
            clause,
            code="TM202",
            hint="write ASOF JOIN, ASOF LEFT JOIN, JOIN … FOR SYSTEM_TIME AS OF or LEFT JOIN … FOR SYSTEM_TIME AS OF",
        )
    found = "asof" if method == "ASOF" else "at"
    return f"{found} left" if side else found


def join_at(left: Scope, right: Input, clause: exp.Join, conditions: list[exp.Expression], kind: str) -> Scope:
    """`left` joined with one more input as it was at the time of each row."""
    both = Scope([*left.inputs, right], r.Join(left.node, right.node, ()), left.unit_us, beside=left.beside)
    pairs, rest, times = [], [], []
    for condition in conditions:
        pair = find_equality(condition, left, right, both)
        if pair is not None:
            pairs.append(pair)
        elif kind.startswith("asof"):
            times.append(condition)
        else:
            rest.append(Scalars(both).predicate(condition))
    lnode, lkeys = with_keys(left.node, [p[0] for p in pairs])
    rnode, rkeys = with_keys(right.node, [p[1] for p in pairs])
    before = False
    if kind.startswith("asof"):
        stamp, newest, before = _read_condition(times, left, right, both, clause)
        rnode = r.Ranked(rnode, tuple(rkeys), (SortKey(newest, descending=True),), "row_number", last=1)
    else:
        stamp = _stamp_of(clause.this.args["version"].expression, left) or ""
    _check_left(left, stamp, clause)
    node: r.Relation = r.JoinAt(
        lnode, rnode, tuple(zip(lkeys, rkeys, strict=True)), stamp, conjunction(*rest), kind.endswith("left"), before
    )
    node = narrow(node, (*left.node.schema, *right.node.schema))
    return replace(left, inputs=both.inputs, node=node, needs=left.needs | set(right.needs))


def nearest_row(
    item: exp.Expression, conditions: list[exp.Expression], left: Scope, right: Input
) -> exp.Subquery | None:
    """ASOF by values that are no event times, as a lateral subquery: what is nearest is maintained like any answer.

    A ASOF JOIN B ON A.k = B.k AND A.x >= B.y
    →   A, LATERAL (SELECT * FROM B WHERE A.k = B.k AND A.x >= B.y ORDER BY B.y DESC LIMIT 1) AS B

    None where there is not one comparison with the right side, or it is one of event times.
    """
    compared = [
        c for c in conditions if isinstance(c, (exp.GT, exp.GTE, exp.LT, exp.LTE)) and any(c.find_all(exp.Column))
    ]
    if len(compared) != 1:
        return None
    kind: type[exp.Expr] = type(compared[0])
    theirs, others = compared[0].expression, compared[0].this
    if not _is_of(theirs, right):
        kind, theirs, others = MIRROR[kind], others, theirs
    if not _is_of(theirs, right) or _is_of(others, right):
        return None
    if _stamp_of(others, left) and _stamp_of(theirs, Scope([right], right.node, left.unit_us)):
        return None
    newest = exp.Ordered(this=copy_tree(theirs), desc=kind in (exp.GT, exp.GTE), nulls_first=False)
    query = exp.select("*").from_(copy_tree(item)).where(*map(copy_tree, conditions), copy=False)
    query.set("order", exp.Order(expressions=[newest]))
    alias = exp.TableAlias(this=exp.to_identifier(right.alias, quoted=True))
    return exp.Subquery(this=query.limit(1, copy=False), alias=alias)


def _is_of(node: exp.Expr, right: Input) -> bool:
    """Whether all columns of an expression are those of one input."""
    columns = list(node.find_all(exp.Column))
    named = (c.table.lower() == right.alias.lower() if c.table else right.field(c.name) for c in columns)
    return bool(columns) and all(named)


def _read_condition(
    conditions: list[exp.Expression], left: Scope, right: Input, both: Scope, clause: exp.Join
) -> tuple[str, str, bool]:
    """(time of the left side, time of the right side, whether they must differ) of A.TS >= B.TS."""
    if len(conditions) != 1 or not isinstance(conditions[0], (exp.GT, exp.GTE, exp.LT, exp.LTE)):
        raise problem(
            "ASOF JOIN needs one comparison of times besides equalities",
            conditions[1] if len(conditions) > 1 else clause,
            code="TM202",
            hint="for example  ON A.k = B.k AND A.TS >= B.TS;  other conditions go to WHERE",
        )
    condition = conditions[0]
    kind: type[exp.Expr] = type(condition)
    sides = (condition.this, condition.expression)
    here = Scope([right], right.node, left.unit_us)
    if _stamp_of(sides[0], left) is None:
        kind, sides = MIRROR[kind], sides[::-1]
    ours, theirs = _stamp_of(sides[0], left), _stamp_of(sides[1], here)
    if ours is None or theirs is None or kind not in (exp.GT, exp.GTE):
        raise problem(
            "ASOF JOIN looks back from the event time of its left side",
            condition,
            code="TM202",
            hint="compare the times of both streams, the left one greater:  A.TS >= B.TS",
        )
    if not r.append_only(right.node) or not r.comes_at_stamp(right.node, theirs):
        raise problem(
            f'ASOF JOIN needs a stream on its right that takes no rows back, "{right.alias}" does',
            clause,
            code="TM202",
            hint=f"a keyed stream is joined as it was then:  JOIN {right.alias} FOR SYSTEM_TIME AS OF A.TS ON A.k = …",
        )
    return ours, theirs, kind is exp.GT


def _stamp_of(node: exp.Expression | None, scope: Scope) -> str | None:
    """The column with the microseconds of an event time that is written by its name, or as TS."""
    if not isinstance(node, exp.Column):
        return None
    own = [i for i in scope.inputs if not node.table or i.alias.lower() == node.table.lower()]
    for item in own:
        field = item.field(node.name)
        if (field is None and node.name.lower() == "ts") or (isinstance(field, Field) and field.column == item.event):
            return item.ts
    return None


def _check_left(left: Scope, stamp: str, clause: exp.Join) -> None:
    if stamp and r.append_only(left.node) and r.comes_at_stamp(left.node, stamp):
        return
    raise problem(
        "the left side of a join with the past must be a stream that takes no rows back, by its event time",
        clause,
        code="TM202",
        hint="join the stream first, by its TS or its event-time column:  S JOIN K FOR SYSTEM_TIME AS OF S.TS ON …",
    )
