"""Conditions of a query on one stream that another site can evaluate before it ships the rows.

A condition is pushed where it is a plain comparison of a column with a number or a text, in the WHERE clause of the
SELECT that reads the stream, and where the window of the stream decides row by row. It stays in the query, so a site
may ship more rows than satisfy it.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.sql.scopes import is_plain

SIGNS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def pushed_conditions(query: exp.Expression, table: exp.Table, types: dict[str, str]) -> list[exp.Expr]:
    """The comparisons that every row of the table which the query can use satisfies; `types` are those of its columns.

    None for a table that the query reads twice: the two may need different rows.
    """
    select = table.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    same = [t for t in query.find_all(exp.Table) if _name_of(t) == _name_of(table)]
    alias, window = table.args.get("alias"), table.args.get("window")
    if select is None or where is None or len(same) > 1 or table.find_ancestor(exp.From, exp.Join) is None:
        return []
    if (
        table.args.get("sync")
        or (window is not None and window.kind == "rows")
        or (alias and alias.args.get("columns"))
    ):
        return []
    known, name = {n.lower(): kind for n, kind in types.items()}, table.alias_or_name.lower()
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    found = [part for part in parts if is_plain(part, known, name)]
    return [part for part in found if part.this.table or not select.args.get("joins")]


def _name_of(table: exp.Table) -> tuple[str, str]:
    return table.db.lower(), table.name.lower()
