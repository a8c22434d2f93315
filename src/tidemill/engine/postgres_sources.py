"""REGISTER SOURCE … FROM POSTGRES: the table is looked at, and its slot gets a name."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace

from tidemill.errors import SourceProblem, TidemillError
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.postgres_client import check_connection
from tidemill.runtime.sources.kafka.metadata import TIME
from tidemill.runtime.sources.postgres.slot import Slot

POSTGRES = "postgres"
OPTIONS = ("password", TIME)


def prepare_postgres(spec: SourceSpec) -> SourceSpec:
    """The source with the primary key of its table and a slot of its own; refuses what cannot be followed."""
    check_connection(str(spec.origin["connection"]), spec.options)
    if spec.operation is None:
        raise SourceProblem(
            "TM407",
            "changes of a table say what was done with a row, and no column takes it",
            hint="declare a column for it: op VARCHAR, and operation = 'op'",
        )
    own = {spec.operation.lower(), str(spec.options.get(TIME, "")).lower()}
    names = [column.name for column in spec.columns if column.name.lower() not in own]
    made = replace(spec, origin={**spec.origin, "slot": f"tidemill_{uuid.uuid4().hex[:16]}"})
    key = Slot(made).check(names)
    missing = [name for name in key if name not in names]
    if missing:
        raise SourceProblem(
            "TM422", f'column "{missing[0]}" is part of the primary key and is not declared', hint="declare it"
        )
    return replace(made, origin={**made.origin, "key": list(key)})


def drop_slot(spec: SourceSpec | None) -> None:
    """Remove the slot of a source that is dropped, if it has one; where the database does not answer, it stays."""
    if spec is not None and spec.kind == POSTGRES:
        with suppress(TidemillError):
            Slot(spec).drop()
