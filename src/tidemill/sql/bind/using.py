"""USING and NATURAL JOIN: the named columns of both sides are one column, which needs no alias in front and shows once
in `*`. NATURAL names all columns that both sides have.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.sql.bind.scope import Input, problem

Merged = dict[str, exp.Expression]


def merge_using(
    select: exp.Select, joins: list[exp.Join], inputs: list[Input]
) -> tuple[Merged, list[list[exp.Expression]]]:
    """What each merged name stands for, and the conditions of each join; mentions in `select` are replaced.

    A USING (k) B: k is A.k · RIGHT JOIN: k is B.k · FULL JOIN: k is coalesce(A.k, B.k).
    """
    merged: Merged = {}
    conditions: list[list[exp.Expression]] = []
    for i, clause in enumerate(joins):
        found: list[exp.Expression] = []
        if str(clause.args.get("method") or "").upper() == "NATURAL":
            _name_common_columns(clause, inputs[: i + 1], inputs[i + 1])
        for name in clause.args.get("using") or []:
            left, right = _left_value(name, clause, inputs[: i + 1], merged), exp.column(name.name, inputs[i + 1].alias)
            found.append(exp.EQ(this=left.copy(), expression=right.copy()))
            side = (clause.side or "").lower()
            both = exp.Coalesce(this=left, expressions=[right])
            merged[name.name.lower()] = {"right": right, "full": both}.get(side, left)
        conditions.append(found)
    if merged:
        _replace(select, merged)
    return merged, conditions


def _name_common_columns(clause: exp.Join, left: list[Input], right: Input) -> None:
    """Turn NATURAL JOIN into JOIN … USING."""
    names = [f.name for f in right.fields if any(i.field(f.name) for i in left)]
    if not names:
        raise problem(
            "the two sides of a NATURAL JOIN have no column in common", clause, hint="write CROSS JOIN, or JOIN … ON"
        )
    clause.set("method", None)
    clause.set("using", [exp.to_identifier(name, quoted=True) for name in names])


def _left_value(name: exp.Expression, clause: exp.Join, inputs: list[Input], merged: Merged) -> exp.Expression:
    if name.name.lower() in merged:
        return merged[name.name.lower()].copy()
    owner = next((i for i in inputs if i.field(name.name)), None)
    if owner is None:
        raise problem(f'there is no column "{name.name}" on the left of USING', clause, hint="write ON a = b")
    return exp.column(name.name, owner.alias)


def _replace(select: exp.Select, merged: Merged) -> None:
    def inner(node: exp.Expr) -> bool:
        return node is not select and isinstance(node, exp.Query)

    for node in list(select.walk(prune=inner)):
        in_star = isinstance(node.parent, exp.Star)  # EXCLUDE (k) names what the star shows
        if isinstance(node, exp.Column) and not node.table and not in_star and node.name.lower() in merged:
            meant = merged[node.name.lower()].copy()
            top = node.parent is select and node.arg_key == "expressions"
            node.replace(exp.alias_(meant, node.name, quoted=True) if top else meant)
