"""Row programs: select lists that only rename, widen and complete columns.

The rows of most answers are made so. A stage computes such a list on arrays; every other list is computed by DuckDB.
A program is nested tuples, which are lists in a plan file: for each column its name and its value,

    ["column", name]   ["cast", value, type]   ["counted", count, value]   ["timestamp", value]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Scalar, Timestamp, WhereCounted

Value = tuple[Any, ...]
RowProgram = tuple[tuple[str, Value], ...]
CASTS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE"})


def compile_row_program(items: Iterable[tuple[str, Scalar]]) -> RowProgram | None:
    """The select list as a program, or None where an item needs more than that.

    >>> compile_row_program([("n", Cast(Hidden("__n"), "BIGINT"))])
    (('n', ('cast', ('column', '__n'), 'BIGINT')),)
    >>> compile_row_program([("d", Cast(ColumnRef("a"), "DATE"))]) is None
    True
    """
    found = [(name, _compile(value)) for name, value in items]
    known = [(name, value) for name, value in found if value is not None]
    return tuple(known) if len(known) == len(found) else None


def _compile(value: Scalar) -> Value | None:
    if isinstance(value, ColumnRef):
        return "column", value.name
    if isinstance(value, Hidden):
        return "column", value.text
    if isinstance(value, Cast):
        inner = _compile(value.value) if value.type in CASTS else None
        return None if inner is None else ("cast", inner, value.type)
    if isinstance(value, WhereCounted):
        count, inner = _compile(value.count), _compile(value.value)
        return None if inner is None or count is None or count[0] != "column" else ("counted", count, inner)
    if isinstance(value, Timestamp):
        inner = _compile(value.us)
        return None if inner is None else ("timestamp", inner)
    return None


def freeze(program: Any) -> Any:
    """A program as a plan file has it, with tuples in the place of lists."""
    return tuple(map(freeze, program)) if isinstance(program, (list, tuple)) else program
