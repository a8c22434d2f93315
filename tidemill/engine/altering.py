"""ALTER SOURCE … ADD COLUMN: views that stand go on as they are, and those created from now on see the column.

The column is NULL in records that do not have it. A view reads the columns that its source had when the view began, so
that its plan and its state stay what they were.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.errors import CatalogProblem
from tidemill.plan.sources import Schema, SourceSpec
from tidemill.sql.catalog import Entry

_JSON = (".json", ".jsonl", ".ndjson")


def add_columns(entry: Entry, columns: Schema, version: int) -> None:
    """More columns of a source, for whatever begins with plan `version` or later."""
    spec = entry.spec
    assert spec is not None
    _check(entry, spec, columns)
    entry.spec = replace(spec, columns=(*spec.columns, *columns),
                         optional=(*spec.optional, *(c.name for c in columns)))
    entry.options.setdefault("added", {}).update({c.name: version for c in columns})


def as_of(entry: Entry, birth: int) -> SourceSpec:
    """A source as what began with plan `birth` knows it."""
    assert entry.spec is not None
    added = entry.options.get("added", {})
    return replace(entry.spec, columns=tuple(c for c in entry.spec.columns if added.get(c.name, 0) <= birth))


def _check(entry: Entry, spec: SourceSpec, columns: Schema) -> None:
    known = {c.name.lower() for c in spec.columns}
    for column in columns:
        if column.name.lower() in known:
            raise CatalogProblem("TM309", f'source "{entry.name}" has a column "{column.name}" already',
                                 hint=f"DESCRIBE {entry.name} shows its columns")
    if spec.format != "json" and not str(spec.origin.get("glob", "")).endswith(_JSON):
        raise CatalogProblem(
            "TM309", f'source "{entry.name}" cannot get another column',
            detail="only records in JSON may have a field or not",
            hint="register a second source with the column, and let new views read that")
