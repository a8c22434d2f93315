"""Errors of one of several statements: those before it stay in force, and the error lists them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tidemill.engine.results import Created
from tidemill.errors import TidemillError

_MOST = 20  # names: an error stays a few lines long


def explain_partial_execution(
    error: TidemillError, results: list[Any], total: int, names: Container[str]
) -> TidemillError:
    """Add to the error of one of `total` statements what those before it have done. `names` are the names in the
    catalog, in small letters: a view whose tables could not be made is not among them.

    >>> made = [Created("source", "S", "source S created"), Created("view", "V", "view V created")]
    >>> print(explain_partial_execution(TidemillError("TM301", "no"), made, 4, {"s", "v"}).detail)
    statement 3 of 4 failed, and those after it were not executed; what stands: source S created, view V created
    >>> print(explain_partial_execution(TidemillError("TM301", "no"), [], 2, ()).detail)
    statement 1 of 2 failed, and those after it were not executed; nothing has changed
    """
    done = [r for r in results if isinstance(r, Created)]
    held = [
        text
        for r in done
        if (text := r.message.partition("; ")[0]) != f"{r.kind} {r.name} created" or r.name.lower() in names
    ]
    shown = ", ".join(held[:_MOST]) + (f" and {len(held) - _MOST} more" if len(held) > _MOST else "")
    number = min(len(results) + 1, total)
    rest = ", and those after it were not executed" if number < total else ""
    note = f"statement {number} of {total} failed{rest}; {'what stands: ' + shown if held else 'nothing has changed'}"
    detail = f"{error.detail}\n{note}" if error.detail else note
    return type(error)(error.code, error.message, detail=detail, hint=error.hint, line=error.line, column=error.column)
