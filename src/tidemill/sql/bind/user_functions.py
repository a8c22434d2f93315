"""Calls of users' scalar functions in a query: marked, and typed by a stub that is never run."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
from sqlglot import exp

from tidemill.plan.user_functions import UserFunction
from tidemill.sql.dialect.nodes import all_nodes, copy_tree

_MARK = "user_function"
_known: dict[str, UserFunction] = {}


def mark_user_functions(
    query: exp.Expression, find: Callable[[str], UserFunction | None]
) -> tuple[exp.Expression, frozenset[str]]:
    """A query in which calls of users' functions have the names of the plan, and the names that were written; the one
    given stays as it is.
    """
    if not any(isinstance(n, exp.Anonymous) and find(n.name) for n in all_nodes(query)):
        return query, frozenset()
    query, names = copy_tree(query), set()
    for node in query.find_all(exp.Anonymous):
        found = find(node.name)
        if found is not None:
            _known[found.sql_name] = found
            node.set("this", found.sql_name)
            node.meta[_MARK] = found.name
            names.add(found.name)
    return query, frozenset(names)


def is_user_function(node: exp.Expr) -> bool:
    """Whether a node calls a function of the user."""
    return isinstance(node, exp.Anonymous) and _MARK in node.meta


def register_stubs(duck: duckdb.DuckDBPyConnection, known: set[str]) -> None:
    """Give a connection that only types expressions the functions that it does not have; `known` are those it has."""
    if len(known) == len(_known):
        return
    for name, function in list(_known.items()):
        if name not in known:
            duck.create_function(
                name, function.with_arguments(_stub()), list(function.accepts), function.returns, side_effects=True
            )
            known.add(name)


def _stub() -> Callable[..., object]:
    def stub(*given: object) -> object:
        raise NotImplementedError("this connection runs no functions of users")

    return stub
