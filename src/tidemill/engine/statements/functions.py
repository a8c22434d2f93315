"""User scalar functions: checked when they are created, then pickled into the catalog."""

from __future__ import annotations

import base64
import inspect
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle

from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.sql.bind.catalogue import scalar_functions
from tidemill.sql.bind.functions import is_function
from tidemill.sql.catalog import Entry
from tidemill.sql.dialect.dialect import Tidemill
from tidemill.sql.lexical.types import column_type


def function_entry(name: str, function: Callable[..., Any], accepts: str | Sequence[str], returns: str) -> Entry:
    """The catalog entry of a function of values of the types `accepts`."""
    if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name) or name.startswith("__"):
        raise PlanProblem("TM221", f'"{name}" cannot be the name of a function', hint="letters, digits and _")
    if is_function(name) or name.lower() in scalar_functions():
        raise CatalogProblem(
            "TM302", f'the name "{name}" is taken by a function of the language', hint="choose another name"
        )
    given = (accepts,) if isinstance(accepts, str) else tuple(accepts)
    types = [_type(name, text) for text in given]
    _check_call(name, function, len(types))
    options = {"accepts": types, "returns": _type(name, returns), "body": _body(name, function)}
    return Entry("function", name, "", options=options)


def _type(name: str, text: str) -> str:
    found = column_type(Tidemill().tokenize(str(text)))
    if found is None:
        raise PlanProblem("TM221", f'{name}: "{text}" is no type', hint="for example DOUBLE or VARCHAR")
    return found


def _check_call(name: str, function: Callable[..., Any], count: int) -> None:
    takes = f"it is called with {count} argument{'s' if count != 1 else ''}, as `accepts` says"
    if not callable(function):
        raise PlanProblem("TM221", f"{name} is no function", detail=takes, hint="def f(x): return …")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in function that does not say what it takes
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise PlanProblem(
            "TM221", f"{name}{signature}: {error}", detail=takes, hint="name a type for each argument in `accepts`"
        ) from None


def _body(name: str, function: Callable[..., Any]) -> str:
    try:
        body = base64.b64encode(cloudpickle.dumps(function)).decode()  # type: ignore[no-untyped-call]
        pickle.loads(base64.b64decode(body))
    except Exception as error:
        raise PlanProblem(
            "TM221",
            f"{name} cannot be pickled",
            detail=f"{type(error).__name__}: {error}",
            hint="use plain functions and values; open files and connections cannot travel",
        ) from None
    return body
