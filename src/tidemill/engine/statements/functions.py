"""User scalar functions: checked when they are created, then pickled into the catalog."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle

from tidemill.engine.statements.given_functions import check_is_function, check_type, count_arguments, find_mismatch
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.sql.bind.catalogue import scalar_functions
from tidemill.sql.bind.functions import is_function
from tidemill.sql.catalog import Entry


def function_entry(name: str, function: Callable[..., Any], accepts: str | Sequence[str], returns: str) -> Entry:
    """The catalog entry of a function of values of the types `accepts`."""
    if not re.fullmatch(r"[A-Za-z_]\w{0,99}", name) or name.startswith("__"):
        raise PlanProblem("TM221", f'"{name}" cannot be the name of a function', hint="letters, digits and _")
    if is_function(name) or name.lower() in scalar_functions():
        raise CatalogProblem(
            "TM302", f'the name "{name}" is taken by a function of the language', hint="choose another name"
        )
    given = (accepts,) if isinstance(accepts, str) else tuple(accepts)
    types = [check_type(f"{name}: ", text) for text in given]
    _check_call(name, function, len(types))
    options = {"accepts": types, "returns": check_type(f"{name}: ", returns), "body": _body(name, function)}
    return Entry("function", name, "", options=options)


def _check_call(name: str, function: Callable[..., Any], count: int) -> None:
    takes = f"it is called with {count_arguments(count)}, as `accepts` says"
    check_is_function(name, function, takes, "def f(x): return …")
    mismatch = find_mismatch(function, count)
    if mismatch is not None:
        hint = "name a type for each argument in `accepts`"
        raise PlanProblem("TM221", f"{name}{mismatch}", detail=takes, hint=hint)


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
