"""Examines every part of a database that no process has open, without changing anything: for `tidemill doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from tidemill.engine.directory.consistency import problems
from tidemill.engine.directory.directory import FORMAT, is_held, read_format
from tidemill.errors import TidemillError
from tidemill.runtime.checkpoint.progress import read_checkpoint
from tidemill.runtime.integrity import arrow_file, duckdb_file, missing, verify
from tidemill.runtime.paths import Paths, load_plan, read_feedback, read_json, read_part
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.sources.files.log import FileLog
from tidemill.runtime.sources.kafka.slices import SliceLog
from tidemill.runtime.sources.port import segments
from tidemill.runtime.sources.port.checksums import read_verified
from tidemill.runtime.sources.postgres import kept_rows
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.undelivered import Undelivered
from tidemill.sql.catalog import Catalog

_NEEDED = ("format.json", "catalog.json", "views.duckdb", "checkpoint")  # to compare the parts


@dataclass(frozen=True)
class Finding:
    """The finding about one part; the hint says what to do."""

    state: Literal["ok", "warn", "fail"]
    part: str
    detail: str
    hint: str = ""


def examine(root: str) -> list[Finding]:
    """One finding for each part, and one about all of them together."""
    paths = Paths(root)
    if not os.path.exists(paths.format) and not os.path.exists(paths.catalog):
        return []
    if is_held(root):
        return [Finding("warn", "parts", "another process has the database open", "close it, then ask again")]
    checks: list[tuple[str, Callable[[Paths], str]]] = [
        ("format.json", _format),
        ("catalog.json", _catalog),
        ("plans", _plans),
        ("feedback", _feedback),
        ("checkpoint", _checkpoint),
        ("state", _state),
        ("views.duckdb", _views),
        ("sealed", _check_answer_files),
        ("sources", _sources),
        ("undelivered", _check_undelivered),
        ("departures", _departures),
    ]
    found = [_finding(name, check, paths) for name, check in checks]
    found += [_replaceable(paths, path) for path in (paths.control, paths.progress)]
    if all(one.state == "ok" for one in found if one.part in _NEEDED):
        found += _check_together(paths)
    return found


def _finding(name: str, check: Callable[[Paths], str], paths: Paths) -> Finding:
    try:
        with duckdb_file(paths.views):  # checks of other parts read it too
            return Finding("ok", name, check(paths))
    except TidemillError as problem:
        return Finding("fail", name, _text(problem), problem.hint or "")


def _text(problem: TidemillError) -> str:
    return f"{problem.code} {problem.message}" + (f": {problem.detail}" if problem.detail else "")


def _replaceable(paths: Paths, path: str) -> Finding:
    name = os.path.basename(path)
    try:
        there = read_part(paths, path) is not None
        return Finding("ok", name, "whole" if there else "not there yet")
    except TidemillError as problem:
        return Finding("warn", name, _text(problem), "nothing is lost: it is written anew when the database is opened")


def _check_together(paths: Paths) -> list[Finding]:
    """Check that the parts belong together, as when the database is opened."""
    if _is_older(paths):
        return [
            Finding(
                "warn",
                "together",
                "an older format, whose parts do not say where they belong",
                "open the database once: it is brought up to this version",
            )
        ]
    found: list[TidemillError] = []
    try:
        with duckdb_file(paths.views), _open(paths) as store:
            found += problems(paths, _read_catalog(paths), store.store, read_checkpoint(paths))
    except TidemillError as problem:
        found.append(problem)
    if not found:
        return [Finding("ok", "together", "all parts are of one database and one batch")]
    return [Finding("fail", "together", _text(problem), problem.hint or "") for problem in found]


class _open:
    """The view store, read only."""

    def __init__(self, paths: Paths) -> None:
        if not os.path.exists(paths.views):
            raise missing(paths.views, "catalog.json says what is in it")
        self.store = ViewStore(paths.views, paths.answer_files, read_only=True)

    def __enter__(self) -> _open:
        return self

    def __exit__(self, *_: Any) -> None:
        self.store.close()


def _format(paths: Paths) -> str:
    found = read_format(paths)
    if found is None:
        raise missing(paths.format, f"but {paths.catalog} is there")
    return f"format {found['format']}, written by Tidemill {found['tidemill']}"


def _read_catalog(paths: Paths) -> Catalog:
    found = read_part(paths, paths.catalog)
    if found is None:
        raise missing(paths.catalog, "format.json says that a database is here")
    return Catalog.from_dict(found)


def _catalog(paths: Paths) -> str:
    return f"{len(_read_catalog(paths).entries)} sources, streams and views"


def _plans(paths: Paths) -> str:
    found = _files(paths.plans, ".json")
    for path in found:
        load_plan(path)
    return f"{len(found)} plans"


def _feedback(paths: Paths) -> str:
    found = _files(paths.feedback, ".json")
    for path in found:
        notes = read_feedback(paths, int(os.path.basename(path).split(".")[0]))
        if isinstance(notes["rows"], dict):
            verify(path.removesuffix(".json") + ".arrow", notes["rows"]["size"], notes["rows"]["sum"])
    return f"{len(found)} batches"


def _checkpoint(paths: Paths) -> str:
    found = read_checkpoint(paths)
    return f"batch {found.committed} is committed" if found.begun else "no batch yet"


def _state(paths: Paths) -> str:
    shards = [os.path.join(paths.state, name) for name in _names(paths.state)]
    found = [path for shard in shards for path in _files(shard, ".arrow")]
    for path in found:
        with arrow_file(path), pa.memory_map(path) as source:
            pa.ipc.open_file(source)
    if os.path.exists(paths.views):
        with _open(paths) as views:
            left = int(views.store.meta("state_files") or 0)
        if len(found) < left:
            raise missing(paths.state, f"it has {len(found)} segments, the last batch left {left}")
    return f"{len(found)} segments"


def _views(paths: Paths) -> str:
    with _open(paths) as views:
        return f"{views.store.read_all()} tables, all of them read"


def _check_answer_files(paths: Paths) -> str:
    if not os.path.exists(paths.views) or not os.path.isdir(paths.answer_files) or _is_older(paths):
        return "nothing is noted of its files"
    with _open(paths) as views:
        noted = views.store.answer_files.list_files(views.store.connection)
    for name, size, wanted in noted:
        if size is not None and wanted is not None:
            verify(os.path.join(paths.answer_files, name), size, wanted)
    return f"{len(noted)} files, all of them read"


def _sources(paths: Paths) -> str:
    names = _names(paths.sources)
    for name in names:
        folder = os.path.join(paths.sources, name)
        read_part(paths, os.path.join(folder, "source.json"))
        FileLog(folder).entries()
        SliceLog(folder).load()
        for path in map(Path, _files(folder, ".arrow")):  # changes of a table
            kept_rows.read(path)
        for path in map(Path, _files(folder, ".log")):  # the spool of a port
            start = int(path.stem.removeprefix("spool-"))
            read_verified(path, start, start, start + path.stat().st_size)
        Inbox(folder, name).check()
        for state in ("head", "committed"):
            segments.read_json(Path(folder) / state)
    for name, position in _positions(paths).items():
        if "file" in position and os.path.isdir(paths.source(name)):
            log = FileLog(paths.source(name))
            log.entries()
            log.check(position["file"], position.get("at", 0))
    return f"{len(names)} folders"


def _check_undelivered(paths: Paths) -> str:
    if not os.path.isdir(paths.undelivered) or not os.path.exists(paths.views):
        return "nothing waits"
    with _open(paths) as views:
        committed = views.store.meta("undelivered")
    if committed is None:
        return "nothing is noted of its files"
    return f"{Undelivered(paths, committed).verify()} files, all of them read"


def _departures(paths: Paths) -> str:
    edges = [os.path.join(paths.departures, name) for name in _names(paths.departures)]
    found = sum(Outbox(folder, os.path.basename(folder)).check() for folder in edges if os.path.isdir(folder))
    return f"{found} messages, all of them read"


def _positions(paths: Paths) -> dict[str, dict[str, Any]]:
    """How far each source was read; a checkpoint that cannot be read is a finding of its own."""
    try:
        offset = read_checkpoint(paths).offset
    except TidemillError:
        return {}
    return {name: entry.position for name, entry in offset.sources.items()} if offset else {}


def _is_older(paths: Paths) -> bool:
    return int(read_json(paths.format)["format"]) < FORMAT


def _files(folder: str, ending: str) -> list[str]:
    return [os.path.join(folder, name) for name in _names(folder) if name.endswith(ending)]


def _names(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith(".")) if os.path.isdir(folder) else []
