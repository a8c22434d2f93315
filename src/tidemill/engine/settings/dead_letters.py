"""How many dead letters are kept: settings of a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.engine.settings.queries import rows, size
from tidemill.errors import PlanProblem
from tidemill.runtime.views.dead_letter_table import Bounds
from tidemill.sql.catalog import Catalog


def _rows(name: str, value: str) -> int:
    found = rows(name, value) if value.lower() != "off" else 0
    if not found:
        raise PlanProblem(
            "TM217", f'{name} cannot be "{value}"', hint=f"a number of rows, for example SET {name} = 1000"
        )
    return found


LETTERS: dict[str, Callable[[str, str], Any]] = {"dead_letter_rows": _rows, "dead_letter_bytes": size}


def bounds_of(catalog: Catalog) -> Bounds:
    """The bounds in force."""
    usual = Bounds()
    return Bounds(
        catalog.settings.get("dead_letter_rows", usual.rows), catalog.settings.get("dead_letter_bytes", usual.bytes)
    )
