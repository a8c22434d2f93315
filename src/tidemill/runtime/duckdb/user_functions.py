"""Python functions of the user in the connections of this process: declared by the plans that call them."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import duckdb

from tidemill.plan.user_functions import UserFunction

_declared: dict[str, UserFunction] = {}


def declare(functions: Iterable[UserFunction]) -> None:
    """Make these functions known to all connections, from their next statement on."""
    for function in functions:
        _declared.setdefault(function.sql_name, function)


def register_missing(duck: duckdb.DuckDBPyConnection, known: set[str]) -> None:
    """Give a connection the declared functions that it does not have; `known` are those it has."""
    if len(known) == len(_declared):
        return
    for name, function in list(_declared.items()):
        if name not in known:
            duck.create_function(  # type: ignore[call-overload]  # it takes texts as well
                name,
                function.with_arguments(_without_nulls(load(function.body))),
                list(function.accepts),
                function.returns,
                null_handling="special",
            )
            known.add(name)


@lru_cache(maxsize=256)
def load(body: str) -> Callable[..., Any]:
    """The function behind the text in a plan."""
    found: Callable[..., Any] = pickle.loads(base64.b64decode(body))
    return found


def _without_nulls(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as SQL calls it: NULL where an argument is NULL, and where it returns None."""
    return lambda *given: None if any(value is None for value in given) else function(*given)
