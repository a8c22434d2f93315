"""Which table names of a query stand for something outside of it, by the scopes of its WITH clauses."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidemill.sql.dialect.nodes import children

Names = frozenset[str]


def outside_tables(query: exp.Expression) -> list[exp.Table]:
    """The tables that no WITH clause in reach defines.

    A name in WITH is known to the entries after it and to the query below, not to its own definition, unless that is
    a recursion: WITH RECURSIVE and a UNION.

    >>> from sqlglot import parse_one
    >>> [t.name for t in outside_tables(parse_one('WITH a AS (SELECT * FROM a) SELECT * FROM a, b'))]
    ['a', 'b']
    """
    return list(_outside(query, frozenset()))


def _outside(node: exp.Expr, known: Names) -> Iterator[exp.Table]:
    given = node.args.get("with_")
    if given is not None:
        for entry in given.expressions:
            name = entry.alias.lower()
            repeats = given.args.get("recursive") and isinstance(entry.this.unnest(), exp.Union)
            yield from _outside(entry, known | {name} if repeats else known)
            known |= {name}
    if isinstance(node, exp.Table) and not (
        isinstance(node.this, exp.Identifier) and not node.args.get("db") and node.name.lower() in known
    ):
        yield node
    for child in children(node):
        if child is not given:
            yield from _outside(child, known)


def read_columns(query: exp.Expression, table: exp.Table, columns: list[str]) -> list[str]:
    """Of a table's columns those that the query may read: all whose name occurs in it anywhere.

    All of them where a star, a natural join, a list of column aliases or the table as a row may mean any; a column
    that is called as the table is goes before the row.
    """
    names, alias = set(), (table.alias or table.name).lower()
    is_row = alias not in {column.lower() for column in columns}
    for node in query.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return columns
        if isinstance(node, exp.Join) and node.args.get("method") == "NATURAL":
            return columns
        if is_row and isinstance(node, exp.Column) and not node.table and node.name.lower() == alias:
            return columns
        if isinstance(node, exp.Identifier) and not isinstance(node.parent, exp.Table):
            names.add(node.name.lower())
    given = table.args.get("alias")
    if given is not None and given.args.get("columns"):
        return columns
    return [c for c in columns if c.lower() in names]


def plain_conditions(query: exp.Expression, table: exp.Table, types: dict[str, str]) -> list[exp.Expr]:
    """Conditions of WHERE that say everything about which rows of the table a query can use.

    Only where the query reads this one table, once: comparisons of its columns with a number or a text, whose type is
    that of the column, so that they can be evaluated anywhere and never fail. `types` has the columns' DuckDB types.
    """
    where, alias = query.args.get("where"), table.args.get("alias")
    if (
        not isinstance(query, exp.Select)
        or where is None
        or len(list(query.find_all(exp.Table))) > 1
        or table.find_ancestor(exp.Query) is not query
        or (alias is not None and alias.args.get("columns"))
    ):
        return []
    known = {name.lower(): kind for name, kind in types.items()}
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    return [part for part in parts if is_plain(part, known, (table.alias or table.name).lower())]


def is_plain(part: exp.Expr, types: dict[str, str], alias: str) -> bool:
    """Whether a condition compares a column of a table with a number or a text of its type. `types` has the types of
    the columns by their names in lower case.
    """
    if type(part) not in (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE):
        return False
    column, literal = part.args["this"], part.args["expression"]
    if not isinstance(column, exp.Column) or not isinstance(literal, exp.Literal) or column.args.get("db"):
        return False
    if column.table and column.table.lower() != alias:
        return False
    kind = types.get(column.name.lower(), "")
    return kind == "VARCHAR" if literal.is_string else kind in _NUMBERS


_NUMBERS = {
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
}
