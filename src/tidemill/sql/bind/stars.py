"""`*` and `t.*` in SELECT, all columns or those whose names match a pattern, as DuckDB means it.

* LIKE 'a%'   * NOT LIKE 'a%'   * ILIKE 'a%'   t.* GLOB 'a*'   * SIMILAR TO 'a.*'   * LIKE 'a!_%' ESCAPE '!'
* EXCLUDE (a, b)   * REPLACE (a + 1 AS a)   * RENAME (a AS c)
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from tidemill.plan.relations import Item
from tidemill.plan.scalars import ColumnRef
from tidemill.sql.bind.scalar import Scalars, cast_null_column, typer
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.dialect.nodes import copy_tree

DOMAIN = "__outer"  # the alias of the outer rows that a subquery reads
_PATTERNS = (exp.Like, exp.ILike, exp.Glob, exp.SimilarTo, exp.RegexpLike, exp.RegexpFullMatch)


def star_of(expression: exp.Expression) -> exp.Expression | None:
    """The `*` or `t.*` that an item of SELECT is, or matches with a pattern; None for any other item."""
    node = expression
    while isinstance(node, (*_PATTERNS, exp.Escape, exp.Not)):
        node = node.this
    plain = isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
    return node if plain else None


def star_items(expression: exp.Expression, scope: Scope) -> list[Item] | None:
    """The columns that an item of SELECT stands for; None when there is no star in it."""
    star = star_of(expression)
    if star is None:
        return None
    table = star.text("table").lower() if isinstance(star, exp.Column) else None
    inner = star.this if isinstance(star, exp.Column) else star
    inputs = [i for i in scope.inputs if i.alias != DOMAIN and (table is None or i.alias.lower() == table)]
    if not inputs:
        raise problem(
            f'there is no input named "{table}" in FROM',
            expression,
            hint=f"the inputs here are {', '.join(i.alias for i in scope.inputs)}",
        )
    items = _columns(inputs, scope, merging=table is None)
    if star is not expression or inner.args.get("ilike"):
        items = _matching(items, expression, star)
    return _alter(items, inner, scope, expression)


def _columns(inputs: list[Input], scope: Scope, merging: bool) -> list[Item]:
    items: list[Item] = []
    for field in (f for i in inputs for f in i.fields):
        meant = scope.merged.get(field.name.lower()) if merging else None
        if meant is None:
            items.append(Item(field.name, ColumnRef(field.column), field.type))
        elif all(i.name.lower() != field.name.lower() for i in items):
            bound = Scalars(scope).bind(meant)
            items.append(Item(field.name, bound.value, bound.type))
    return items


def _alter(items: list[Item], star: exp.Expression, scope: Scope, place: exp.Expression) -> list[Item]:
    """The columns without those of EXCLUDE, with the values of REPLACE and under the names of RENAME."""
    for column in star.args.get("except_") or []:
        left_out = _find_meant(column, items, scope)
        items = [item for item in items if item not in left_out]
    for alias in star.args.get("replace") or []:
        meant = _find_meant(exp.column(alias.alias), items, scope)
        bound = cast_null_column(Scalars(scope).bind(alias.this))
        items = [Item(i.name, bound.value, bound.type) if i in meant else i for i in items]
    renamed = [(_find_meant(alias.this, items, scope), alias.alias) for alias in star.args.get("rename") or []]
    for meant, name in renamed:
        items = [Item(name, i.value, i.type) if i in meant else i for i in items]
    if not items:
        raise problem("EXCLUDE leaves no column", place, code="TM202", hint="keep at least one column")
    return items


def _find_meant(column: exp.Expression, items: list[Item], scope: Scope) -> list[Item]:
    """The items that a name in EXCLUDE, REPLACE or RENAME means; t.a means the column of one input."""
    if isinstance(column, exp.Column) and column.table:
        found = scope.resolve(column)
        meant = [i for i in items if isinstance(found, Field) and i.value == ColumnRef(found.column)]
    else:
        meant = [i for i in items if i.name.lower() == column.name.lower()]
    if not meant:
        raise problem(
            f'there is no column "{column.name}" in this *',
            column,
            hint=f"columns here: {', '.join(i.name for i in items[:12])}",
        )
    return meant


def _matching(items: list[Item], expression: exp.Expression, star: exp.Expression) -> list[Item]:
    """The columns whose names match; DuckDB matches all names in one query."""
    short = star.this if isinstance(star, exp.Column) else star
    of_star = {id(n) for n in star.walk()}
    patterns = [n for n in expression.find_all(exp.Expression) if id(n) not in of_star]
    if short.args.get("ilike"):
        test: exp.Expression = exp.ILike(this=exp.column("name"), expression=short.args["ilike"].copy())
    else:
        test = copy_tree(expression)
        found = star_of(test)
        assert found is not None
        found.replace(exp.column("name"))
    if any(isinstance(n, exp.Column) for n in patterns) or not _constant(test):
        raise problem(
            "the pattern of a * must be a text", expression, code="TM202", hint="for example  SELECT * LIKE 'a%'"
        )
    names = ", ".join(f"({i}, {exp.Literal.string(item.name).sql(dialect='duckdb')})" for i, item in enumerate(items))
    sql = f"SELECT i FROM (VALUES {names}) AS columns(i, name) WHERE {test.sql(dialect='duckdb')} ORDER BY i"
    try:
        kept = [items[i] for (i,) in typer().execute(sql).fetchall()]
    except duckdb.Error as error:
        message = str(error).split("\n")[0]
        raise problem(
            f"the pattern is not valid: {message.partition(': ')[2] or message}",
            expression,
            code="TM202",
            hint="for example  SELECT * LIKE 'a%'  or  SELECT * SIMILAR TO 'a.*'",
        ) from None
    if not kept:
        raise problem(
            "no column has a name that matches the pattern",
            expression,
            hint=f"columns here: {', '.join(i.name for i in items[:12])}",
        )
    return kept


def _constant(test: exp.Expression) -> bool:
    """True when a test compares the name with plain texts and nothing else."""
    plain = (*_PATTERNS, exp.Escape, exp.Not, exp.Literal, exp.Column, exp.Identifier)
    texts = list(test.find_all(exp.Literal))
    return all(isinstance(n, plain) for n in test.walk()) and all(n.is_string for n in texts) and bool(texts)
