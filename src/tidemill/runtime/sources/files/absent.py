"""Files written before a column was added to their source: the column is NULL in their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema


def drop_absent(names: Iterable[str], spec: SourceSpec) -> SourceSpec:
    """The source without the optional columns that a file with these fields lacks; at least one column is left."""
    there = {n.lower() for n in names}
    gone = {name for name in spec.optional if name.lower() not in there}
    if not gone:
        return spec
    kept = tuple(c for c in spec.columns if c.name not in gone)
    rest = tuple(c for c in spec.unread if c.name not in gone)
    return replace(spec, columns=kept or rest[:1], unread=rest if kept else rest[1:])


def add_absent(rows: pa.Table, spec: SourceSpec) -> pa.Table:
    """The rows with all columns of the source, in their order."""
    schema = arrow_schema(spec.columns)
    if rows.column_names == schema.names:
        return rows
    there = set(rows.column_names)
    return pa.table(
        [rows.column(f.name) if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema], schema=schema
    )
