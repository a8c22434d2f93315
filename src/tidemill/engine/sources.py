"""REGISTER statements to source specifications: options get their meaning and are checked here."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pyarrow as pa

from tidemill.engine.kafka_sources import KAFKA, check_kafka, take_kafka_options
from tidemill.engine.postgres_sources import POSTGRES, prepare_postgres
from tidemill.engine.settings.options import microseconds
from tidemill.errors import SourceProblem
from tidemill.plan.sources import KINDS, SHED, SHED_UPDATES, Schema, SourceSpec
from tidemill.plan.statements import RegisterSource, RegisterTable
from tidemill.runtime.sources.columns import is_wall_time
from tidemill.runtime.sources.connector import arrow_schema, event_time_us
from tidemill.runtime.sources.files.names import base_directory, inner_name
from tidemill.runtime.sources.registry import open_connector
from tidemill.sql.lexical.durations import duration_from_text

ON_ERROR = ("dead_letter", "skip", "fail")
USUAL_AHEAD_US = 86_400_000_000  # a day: more than any clock that only has the wrong time zone
_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def source_spec(statement: RegisterSource | RegisterTable, unit_us: int) -> SourceSpec:
    """The specification a REGISTER statement describes."""
    options = dict(statement.options)
    kind = "files" if isinstance(statement, RegisterTable) else statement.kind
    arrow_schema(statement.columns)  # refuses types that cannot travel
    origin = _origin(kind, dict(statement.origin))
    if kind == "port" and "host" in options:
        origin.setdefault("host", str(options.pop("host")))
    take_kafka_options(kind, options, origin)
    for name in ("connection_timeout", "line_timeout"):
        if name in options:
            options[name] = microseconds(options[name], unit_us)
    made = SourceSpec(
        name=statement.name,
        kind=kind,
        columns=statement.columns,
        origin=origin,
        on_error=_take_on_error(options),  # type: ignore[arg-type]  # checked against the known words
        format=_format(kind, options.pop("format", None), origin),
        timestamp=_take_column(options, "timestamp", statement.columns),
        lateness_us=microseconds(options.pop("lateness", 0), unit_us),
        idle_us=microseconds(options.pop("idle_timeout"), unit_us) if "idle_timeout" in options else None,
        ahead_us=_ahead_us(kind, options.pop("ahead", None), statement, unit_us),
        batch_rows=options.pop("batch_rows", None),
        operation=_take_column(options, "operation", statement.columns),
        options={**options, "unit_us": unit_us},
        static=isinstance(statement, RegisterTable),
    )
    _check_spec(made, statement)
    return prepare_postgres(made) if kind == POSTGRES else made


def _take_on_error(options: dict[str, Any]) -> str:
    on_error = str(options.pop("on_error", "dead_letter"))
    if on_error not in ON_ERROR:
        raise SourceProblem("TM407", f'on_error: "{on_error}" is not possible', hint=f"one of {', '.join(ON_ERROR)}")
    return on_error


def _take_column(options: dict[str, Any], option: str, columns: Schema) -> str | None:
    """The column that an option names, as it was declared."""
    value = options.pop(option, None)
    if value is None:
        return None
    names = {c.name.lower(): c.name for c in columns}
    if str(value).lower() not in names:
        raise SourceProblem(
            "TM407", f'{option}: there is no column "{value}"', hint=f"the columns are {', '.join(names.values())}"
        )
    return names[str(value).lower()]


def _check_spec(spec: SourceSpec, statement: RegisterSource | RegisterTable) -> None:
    """Refuse a source that could never be read as it is described."""
    _check_time(spec)
    for option in ("ahead", "late"):
        if spec.timestamp is None and option in statement.options:
            raise SourceProblem(
                "TM407",
                f"{option} is about event times, and the source has none",
                hint="name the column of the event time: timestamp = '…'",
            )
    if SHED in spec.options and SHED_UPDATES not in spec.options:
        raise SourceProblem(
            "TM407",
            "shed says when updates are dropped, and nothing says how many may pass",
            hint="for example  shed_updates = 10  for each key and clock unit",
        )
    if KINDS[spec.kind].settings:
        open_connector(spec, "")  # refuses settings of which no row can be made
    if spec.kind == KAFKA:
        check_kafka(spec)
    if spec.kind == "files":
        _check_folder(spec.origin["glob"])


def _check_folder(pattern: str) -> None:
    """Refuse a folder that does not exist: it is more often a wrong path than one to be made later, and the source
    would wait for its files without a word. Folders after the first wildcard may come and go.
    """
    folder = base_directory(pattern)
    if not os.path.isdir(folder):
        raise SourceProblem(
            "TM630",
            f'there is no folder "{folder}" to read files from',
            hint="correct the path, or make the folder first: it may be empty",
        )


def _ahead_us(kind: str, given: Any, statement: RegisterSource | RegisterTable, unit_us: int) -> int | None:
    """How far an event time may be ahead of the clock. Ports receive present events, so they have a default limit."""
    if given is not None:
        return None if str(given).strip().lower() == "any" else microseconds(given, unit_us)
    named = str(statement.options.get("timestamp", "")).lower()
    timed = any(c.name.lower() == named and is_wall_time(c.type) for c in statement.columns)
    return USUAL_AHEAD_US if kind == "port" and timed else None


def _check_time(spec: SourceSpec) -> None:
    """Refuse a timestamp column whose type is no time, before a batch fails on it."""
    for column in spec.columns:
        if column.name == spec.timestamp:
            try:
                event_time_us(pa.chunked_array([], arrow_schema((column,)).field(0).type), column.type, 1)
            except SourceProblem as error:
                raise SourceProblem(error.code, f"timestamp: {error.message}", hint=error.hint) from None


def _origin(kind: str, origin: dict[str, Any]) -> dict[str, Any]:
    now = time.time_ns() // 1000
    if kind == "files":
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", str(origin["glob"]))
        if scheme and scheme[1].lower() != "file":
            raise SourceProblem(
                "TM407",
                f'files are read from folders of this machine, not from "{scheme[1]}://"',
                hint="mount it, or copy the files into a folder as they come",
            )
        origin["glob"] = os.path.abspath(str(origin["glob"]).removeprefix("file://"))
    if kind == "generate":
        origin["began"] = now
        if "start" in origin:
            origin["start"] = _start(origin["start"], now)
    return origin


def _start(value: Any, now: int) -> int:
    """Event time of the first generated row: microseconds, 'now', or 'now + 30 seconds'."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    value = str(value)
    found = re.fullmatch(r"\s*now\s*(?:([+-])\s*(.+))?", value, re.IGNORECASE)
    if found is None:
        raise SourceProblem(
            "TM407", f'start: "{value}" is not a time', hint="start = 'now', 'now + 30 seconds' or microseconds"
        )
    if not found[1]:
        return now
    try:
        length = duration_from_text(found[2]).us or 0
    except ValueError as error:
        raise SourceProblem("TM407", f"start: {error}", hint="for example start = 'now + 30 seconds'") from None
    return now + length if found[1] == "+" else now - length


def _format(kind: str, given: Any, origin: dict[str, Any]) -> str | None:
    known = KINDS[kind].formats
    if given is not None:
        name = {"jsonl": "json", "json lines": "json"}.get(str(given).lower(), str(given).lower())
        if name not in known:
            raise SourceProblem(
                "TM407", f'format "{given}" is not possible here', hint=f"one of {', '.join(known) or 'none'}"
            )
        return name
    if kind == KAFKA:
        return "json"
    if kind == "files":
        return _ENDINGS.get(os.path.splitext(inner_name(origin["glob"]))[1].lower())
    return None
