"""Names that SELECT gives, used again in the same SELECT: `SELECT v + 1 AS a, a * 2 AS b FROM s WHERE a > 3`.

A column of FROM comes before such a name, as in DuckDB. The name stands for its expression, which is put in its place.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.sql.bind.scope import Input, problem
from tidemill.sql.bind.subqueries.forms import own_nodes
from tidemill.sql.dialect.nodes import all_nodes, copy_tree

MOST_NODES = 10_000  # of a SELECT with all names replaced: each may double it


def expand_aliases(select: exp.Select, inputs: list[Input]) -> None:
    """Put expressions in the place of names that earlier items of SELECT give; WHERE and HAVING see all of them."""
    taken = {"ts"} | {f.name.lower() for i in inputs for f in i.fields}
    known: dict[str, exp.Expression] = {}
    for item in select.expressions:
        _replace_names(item, known, select)
        if isinstance(item, exp.Alias) and item.alias.lower() not in taken:
            known.setdefault(item.alias.lower(), item.this)
    for clause in ("where", "having"):
        if select.args.get(clause) is not None:
            _replace_names(select.args[clause], known, select)


def _replace_names(root: exp.Expression, known: dict[str, exp.Expression], select: exp.Select) -> None:
    columns = [n for n in own_nodes(root) if isinstance(n, exp.Column) and not n.table]
    for column in columns:
        meant = known.get(column.name.lower())
        if meant is None or column.find_ancestor(exp.Lambda) is not None:
            continue
        column.replace(exp.Paren(this=copy_tree(meant)))
        if sum(1 for _ in all_nodes(select)) > MOST_NODES:
            raise problem(
                "the query is too complicated: names of its own SELECT stand for long expressions",
                column,
                code="TM104",
                hint="compute them in a subquery in FROM, or in WITH",
            )
