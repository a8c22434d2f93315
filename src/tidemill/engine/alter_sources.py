"""Sources that change: ALTER SOURCE … ADD COLUMN, RESTART SOURCE.

A new column is NULL in records that do not have it. Existing views do not change: a view reads the columns that its
source had when the view was created, so its plan and its state stay the same.

A restarted source is a new source with the same name, read from its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidemill.engine.settings.options import check_options
from tidemill.engine.sources import source_spec
from tidemill.errors import CatalogProblem
from tidemill.plan.sources import SITE, Schema, SourceSpec
from tidemill.plan.statements import RegisterSource
from tidemill.sql.catalog import Entry
from tidemill.sql.parse.statements import parse_one


def add_columns(entry: Entry, columns: Schema, version: int) -> None:
    """Add columns to a source, for views that begin with plan `version` or later."""
    spec = entry.spec
    assert spec is not None
    _check(entry, spec, columns)
    entry.spec = replace(spec, columns=(*spec.columns, *columns), optional=(*spec.optional, *(c.name for c in columns)))
    entry.options.setdefault("added", {}).update({c.name: version for c in columns})


def as_of(entry: Entry, birth: int) -> SourceSpec:
    """A source as a view that began with plan `birth` sees it."""
    assert entry.spec is not None
    added = entry.options.get("added", {})
    return replace(entry.spec, columns=tuple(c for c in entry.spec.columns if added.get(c.name, 0) <= birth))


def rebuild_statement(entry: Entry, options: dict[str, Any], unit_us: int) -> RegisterSource:
    """The statement that registers a source again, with other options; impossible options are refused."""
    _check_own(entry)
    statement = check_options(parse_one(entry.text))
    assert isinstance(statement, RegisterSource) and entry.spec is not None
    given = {**statement.options, **entry.options.get("with", {}), **options}
    made = replace(statement, columns=entry.spec.columns, options=given, if_not_exists=False, or_replace=False)
    source_spec(made, unit_us)
    return made


def inherit(entry: Entry, before: Entry, options: dict[str, Any]) -> None:
    """Copy what a restarted source keeps: options of earlier restarts, and columns that records may lack."""
    assert entry.spec is not None and before.spec is not None
    entry.spec = replace(entry.spec, optional=before.spec.optional)
    entry.options["with"] = {**before.options.get("with", {}), **options}


def _check_own(entry: Entry) -> None:
    """What another site delivers is changed there."""
    if entry.spec is not None and entry.spec.kind == SITE:
        raise CatalogProblem(
            "TM309", f'"{entry.name}" belongs to another site', hint="DROP the views that read it and create them again"
        )


def _check(entry: Entry, spec: SourceSpec, columns: Schema) -> None:
    _check_own(entry)
    known = {c.name.lower() for c in spec.columns}
    for column in columns:
        if column.name.lower() in known:
            raise CatalogProblem(
                "TM309",
                f'source "{entry.name}" has a column "{column.name}" already',
                hint=f"DESCRIBE {entry.name} shows its columns",
            )
    by_place = (
        spec.kind == "generate"
        or spec.options.get("header") is False
        or (spec.kind == "port" and spec.format != "json")
    )
    if by_place:
        raise CatalogProblem(
            "TM309",
            f'source "{entry.name}" cannot get another column',
            detail="its fields have no names, so records with the column and without it look alike",
            hint="register a second source with the column, and let new views read that",
        )
