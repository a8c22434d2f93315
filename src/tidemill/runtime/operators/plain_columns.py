"""Filters and projections that move no column through SQL which they only pass on.

A filter is one column of truth values, a projection the columns that it computes; all others stay where they are in
memory, or are filtered there.

The fast path `plain_columns`: gives the rows of the fused SELECT in `evaluate.py`, in the same order. Where an
expression fails on a row, that SELECT is used, which finds the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.duckdb import duck
from tidemill.runtime.row_references import is_reference

_HIDDEN = ("__time", "__diff")


def run_chain(chain: Sequence[p.Linear], schema: tuple[Column, ...], rows: pa.Table) -> pa.Table | None:
    """The rows after all operators of a chain, the first of which is its last; None where this is no way to do it."""
    if not fast_paths.is_on("plain_columns") or not all(isinstance(op, (p.Filter, p.Project)) for op in chain):
        return None
    if not all(_passes(field.type) for field in rows.schema):
        return None
    return _run_steps(chain, schema, rows)


def keeps_different(chain: Sequence[p.Linear], names: Sequence[str]) -> bool:
    """Whether rows that differ in these columns, before a chain whose first operator is its last, differ after it."""
    for op in reversed(chain):
        if isinstance(op, p.Project):
            passed = {sql: name for name, sql in op.items}
            if any(quoted(name) not in passed for name in names):
                return False
            names = [passed[quoted(name)] for name in names]
        elif not isinstance(op, p.Filter):
            return False
    return True


def _run_steps(chain: Sequence[p.Linear], schema: tuple[Column, ...], rows: pa.Table) -> pa.Table | None:
    try:
        for op in reversed(chain):
            known = [c for c in schema if c.name in rows.column_names]
            if isinstance(op, p.Filter):
                rows = _filter(op, known, rows)
            else:
                assert isinstance(op, p.Project)
                rows, schema = _project(op, known, rows), op.schema
    except duckdb.Error:
        return None
    return rows


def _filter(op: p.Filter, known: list[Column], rows: pa.Table) -> pa.Table:
    source = duck.source("feed", known, *_hidden_columns(rows))
    kept = duck.run(f"SELECT {op.predicate} AS kept FROM {source}", feed=rows).column("kept")
    rows = rows.select([*(c.name for c in known), *_hidden_columns(rows)])
    return rows if pc.all(kept, skip_nulls=False).as_py() else rows.filter(kept)


def _project(op: p.Project, known: list[Column], rows: pa.Table) -> pa.Table:
    plain = {quoted(c.name): c.name for c in known}
    computed = [f"{sql} AS {quoted(name)}" for name, sql in op.items if sql not in plain]
    made = rows
    if computed:
        source = duck.source("feed", known, *_hidden_columns(rows))
        made = duck.run(f"SELECT {', '.join(computed)} FROM {source}", feed=rows)
    columns = [rows.column(plain[sql]) if sql in plain else made.column(name) for name, sql in op.items]
    return pa.table([*columns, *(rows.column(h) for h in _HIDDEN)], names=[*(name for name, _ in op.items), *_HIDDEN])


def _hidden_columns(rows: pa.Table) -> list[str]:
    return [name for name in _HIDDEN if name in rows.column_names]


def _passes(kind: pa.DataType) -> bool:
    """Whether DuckDB gives values of this Arrow type back as the same type."""
    return (
        pa.types.is_integer(kind)
        or kind in (pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.time64("us"), pa.timestamp("us"))
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal128(kind)
        or is_reference(kind)
    )
