"""User aggregates: their parts are checked when they are created, then pickled into the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tidemill.engine.statements.given_functions import check_is_function, check_type, count_arguments, find_mismatch
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.runtime.user_aggregates.functions import (
    AggregateFunctions,
    dump_functions,
    error_line,
    load_functions,
    pack,
)
from tidemill.sql.bind.functions import is_function
from tidemill.sql.catalog import Entry

_ARGUMENTS = {"add": 2, "combine": 2, "invert": 2, "finish": 1}
_GIVEN = ("zero", *_ARGUMENTS, "accepts", "returns")
_HINT = "zero, add(a, value), combine(a, b); and finish(a), invert(a, b) where needed"


def entry_of(name: str, definition: Any = None, **given: Any) -> Entry:
    """The catalog entry of an aggregate given as functions, or as an object or class with these attributes."""
    if not re.fullmatch(r"[A-Za-z_]\w{0,127}", name) or name.startswith("__"):
        raise PlanProblem("TM221", f'"{name}" cannot be the name of an aggregate', hint="letters, digits and _")
    if is_function(name):
        raise CatalogProblem(
            "TM302", f'the name "{name}" is taken by a function of the language', hint="choose another name"
        )
    known = _attributes(definition) | given
    unknown = sorted(set(known) - set(_GIVEN))
    if unknown:
        raise PlanProblem("TM221", f'{name}: "{unknown[0]}" is no part of an aggregate', hint=_HINT)
    for part in ("zero", "add", "combine"):
        if part not in known:
            raise PlanProblem("TM221", f"{name}: {part} is missing", hint=_HINT)
    types = {side: check_type(f"{name}: {side} = ", known.pop(side, "DOUBLE")) for side in ("accepts", "returns")}
    fold = AggregateFunctions(**known)
    for part, count in _ARGUMENTS.items():
        function = getattr(fold, part)
        if function is not None:
            _check_call(name, part, function, count)
    return Entry("aggregate", name, "", options={**types, "body": _body(name, fold)})


def _attributes(definition: Any) -> dict[str, Any]:
    made = definition() if isinstance(definition, type) else definition
    return {part: getattr(made, part) for part in _GIVEN if hasattr(made, part)} if made is not None else {}


def _check_call(name: str, part: str, function: Callable[..., Any], count: int) -> None:
    arguments = count_arguments(count)
    check_is_function(f"{name}: {part}", function, f"{part} is called with {arguments}", _HINT)
    mismatch = find_mismatch(function, count)
    if mismatch is not None:
        raise PlanProblem("TM221", f"{name}: {part} does not take {arguments}", detail=f"{part}{mismatch}", hint=_HINT)


def _body(name: str, fold: AggregateFunctions) -> str:
    """The pickled functions; both they and their accumulators must survive pickling."""
    try:
        body = dump_functions(fold)
        pack(load_functions(body).fresh())
    except Exception as error:
        raise PlanProblem(
            "TM221",
            f"{name} cannot be pickled, or its zero fails",
            detail=error_line(error),
            hint="use plain functions and values; open files and connections cannot travel",
        ) from None
    return body
