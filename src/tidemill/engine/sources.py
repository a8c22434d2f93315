"""REGISTER statements to source specifications: options get their meaning and are checked here."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pyarrow as pa

from tidemill.engine.options import microseconds
from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.plan.statements import RegisterSource, RegisterTable
from tidemill.runtime.sources.columns import is_wall_time
from tidemill.runtime.sources.connector import arrow_schema, event_time_us
from tidemill.runtime.sources.generate import Generate
from tidemill.runtime.sources.places import base_directory, inner_name
from tidemill.sql.lexical_duration import duration_from_text

ON_ERROR = ("dead_letter", "skip", "fail")
FORMATS = {"files": ("parquet", "csv", "json", "arrow"), "port": ("csv", "json"), "generate": ()}
USUAL_AHEAD_US = 86_400_000_000
_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
            ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def source_spec(statement: RegisterSource | RegisterTable, unit_us: int) -> SourceSpec:
    """The specification a REGISTER statement describes."""
    options = dict(statement.options)
    kind = "files" if isinstance(statement, RegisterTable) else statement.kind
    arrow_schema(statement.columns)  # refuses types that cannot travel
    names = {c.name.lower(): c.name for c in statement.columns}

    def column(option: str) -> str | None:
        value = options.pop(option, None)
        if value is None:
            return None
        if str(value).lower() not in names:
            raise SourceProblem("TM407", f'{option}: there is no column "{value}"',
                                hint=f"the columns are {', '.join(names.values())}")
        return names[str(value).lower()]

    on_error = str(options.pop("on_error", "dead_letter"))
    if on_error not in ON_ERROR:
        raise SourceProblem("TM407", f'on_error: "{on_error}" is not possible', hint=f"one of {', '.join(ON_ERROR)}")
    origin = _origin(kind, dict(statement.origin))
    if kind == "port" and "host" in options:
        origin.setdefault("host", str(options.pop("host")))
    for name in ("connection_timeout", "line_timeout"):
        if name in options:
            options[name] = microseconds(options[name], unit_us)
    made = SourceSpec(
        name=statement.name, kind=kind, columns=statement.columns, origin=origin,
        format=_format(kind, options.pop("format", None), origin),
        timestamp=column("timestamp"), lateness_us=microseconds(options.pop("lateness", 0), unit_us),
        idle_us=microseconds(options.pop("idle_timeout"), unit_us) if "idle_timeout" in options else None,
        ahead_us=_ahead_us(kind, options.pop("ahead", None), statement, unit_us),
        batch_rows=options.pop("batch_rows", None),
        on_error=on_error, operation=column("operation"),  # type: ignore[arg-type]
        options={**options, "unit_us": unit_us}, static=isinstance(statement, RegisterTable),
    )
    _check_time(made)
    for option in ("ahead", "late"):
        if made.timestamp is None and option in statement.options:
            raise SourceProblem("TM407", f"{option} is about event times, and the source has none",
                                hint="name the column of the event time: timestamp = '…'")
    if kind == "generate":
        Generate(made, "")  # refuses what no row can be made of
    if kind == "files":
        _check_folder(origin["glob"])
    return made


def _check_folder(pattern: str) -> None:
    """A folder that is not there is a wrong path more often than one that will come: files of it would be waited for
    in silence. Folders behind the first wildcard may come and go.
    """
    folder = base_directory(pattern)
    if not os.path.isdir(folder):
        raise SourceProblem("TM630", f'there is no folder "{folder}" to read files from',
                            hint="correct the path, or make the folder first: it may be empty")


def _ahead_us(kind: str, given: Any, statement: RegisterSource | RegisterTable, unit_us: int) -> int | None:
    """How far ahead of its time an event may be. What a port receives was not in the future a moment ago."""
    if given is not None:
        return None if str(given).strip().lower() == "any" else microseconds(given, unit_us)
    named = str(statement.options.get("timestamp", "")).lower()
    timed = any(c.name.lower() == named and is_wall_time(c.type) for c in statement.columns)
    return USUAL_AHEAD_US if kind == "port" and timed else None


def _check_time(spec: SourceSpec) -> None:
    """Refuse a timestamp column that no time can be made of, before a batch stumbles over it."""
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
            raise SourceProblem("TM407", f'files are read from folders of this machine, not from "{scheme[1]}://"',
                                hint="mount it, or copy the files into a folder as they come")
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
        raise SourceProblem("TM407", f'start: "{value}" is not a time',
                            hint="start = 'now', 'now + 30 seconds' or microseconds")
    if not found[1]:
        return now
    try:
        length = duration_from_text(found[2]).us or 0
    except ValueError as error:
        raise SourceProblem("TM407", f"start: {error}", hint="for example start = 'now + 30 seconds'") from None
    return now + length if found[1] == "+" else now - length


def _format(kind: str, given: Any, origin: dict[str, Any]) -> str | None:
    known = FORMATS[kind]
    if given is not None:
        name = {"jsonl": "json", "json lines": "json"}.get(str(given).lower(), str(given).lower())
        if name not in known:
            raise SourceProblem("TM407", f'format "{given}" is not possible here',
                                hint=f"one of {', '.join(known) or 'none'}")
        return name
    if kind == "files":
        return _ENDINGS.get(os.path.splitext(inner_name(origin["glob"]))[1].lower())
    return None
