"""Linear operators with rendered scalars, and the columns that these read beside the text."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.plan import physical as p
from tidemill.plan.row_programs import compile_row_program
from tidemill.plan.scalars import ColumnRef, Scalar, quoted
from tidemill.plan.sources import Schema

SelectList = tuple[tuple[str, Scalar], ...]  # names of columns, and their values


def columns_read(*values: Scalar | None) -> tuple[str, ...]:
    """The columns that some scalars read, each once."""
    return tuple(dict.fromkeys(c for value in values if value is not None for c in sorted(value.columns)))


def filter_rows(name: str, schema: Schema, predicate: Scalar) -> p.Filter:
    return p.Filter(name, (), schema, predicate.sql, columns_read(predicate))


def project(name: str, schema: Schema, items: SelectList) -> p.Project:
    listed = tuple(p.Item(column, value.sql) for column, value in items)
    return p.Project(name, (), schema, listed, columns_read(*(value for _, value in items)))


def select(items: SelectList) -> p.Layer:
    """A select list as a layer of a fragment store's query."""
    return p.Layer("select", ", ".join(f"{v.sql} AS {quoted(n)}" for n, v in items), compile_row_program(items))


def copies(names: Iterable[str]) -> SelectList:
    """Columns as they are."""
    return tuple((name, ColumnRef(name)) for name in names)
