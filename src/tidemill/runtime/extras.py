"""Packages that only some connectors need: each is part of an extra, and an error names the extra that is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tidemill.errors import EngineProblem


def load(module: str, extra: str, what: str) -> Any:
    """The module, or the error that says which extra has it; `what` is what needs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise EngineProblem(
            "TM540",
            f'{what} needs the Python package of "{module.partition(".")[0]}"',
            detail=str(error),
            hint=f"pip install 'tidemill[{extra}]', here and on every worker",
        ) from error
