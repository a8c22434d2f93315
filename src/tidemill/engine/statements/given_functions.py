"""What is checked of each Python function that a user gives, for scalar functions and for aggregates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tidemill.errors import PlanProblem
from tidemill.sql.dialect.dialect import Tidemill
from tidemill.sql.lexical.types import column_type


def check_type(what: str, text: str) -> str:
    """A type as the catalog has it."""
    found = column_type(Tidemill().tokenize(str(text)))
    if found is None:
        raise PlanProblem("TM221", f'{what}"{text}" is no type', hint="for example DOUBLE or VARCHAR")
    return found


def check_is_function(what: str, function: Callable[..., Any], detail: str, hint: str) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise PlanProblem("TM221", f"{what} is no function", detail=detail, hint=hint)


def find_mismatch(function: Callable[..., Any], count: int) -> str | None:
    """Why a function cannot be called with `count` arguments; None where it can, or does not say what it takes, as some
    built-in functions.

    >>> find_mismatch(lambda a, b: a, 1)
    "(a, b): missing a required argument: 'b'"
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        return f"{signature}: {error}"
    return None


def count_arguments(count: int) -> str:
    """A number of arguments in words.

    >>> count_arguments(1), count_arguments(0)
    ('1 argument', '0 arguments')
    """
    return f"{count} argument{'s' if count != 1 else ''}"
