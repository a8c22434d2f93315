"""Change logs outside the database: files, the console, and other systems (`targets`).

Of files, there is one for each micro-batch that changed something.

A file is renamed into place when it is complete and named by its batch, so a replayed batch writes the
same file again and a reader never sees half of one. Where a folder cannot be written or a system does not answer, the
changes wait in `undelivered/` of the database, and are delivered in their order when it does: a sink that fails holds
nothing up and loses nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.plan.python_values import json_text, python_rows
from tidemill.plan.value_text import clean
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.duckdb import duck
from tidemill.runtime.targets.target import KINDS, SinkSpec, Target, open_target
from tidemill.runtime.views.store import present
from tidemill.runtime.views.stored_view import StoredView

printer: Callable[[str], None] = print
Sink = dict[str, Any]


class Sinks:
    """Writes to all sinks of a database; `behind` are those with undelivered files."""

    def __init__(self, waiting: str) -> None:
        self.waiting = waiting
        self.problems: dict[str, str] = {}  # by the name of the sink
        self._targets: dict[str, Target] = {}  # by the id of the sink
        self.behind = {name for name in _list_files(waiting) if _list_files(os.path.join(waiting, name))}

    def write(
        self, view: StoredView, changes: pa.Table | None, batch: int, first: pa.Table | None, new: set[str]
    ) -> None:
        """Send one batch of tagged changes to every sink of the view; those in `new` begin with `first`."""
        tables = [None if t is None else present(view, t, duck.connection()) for t in (first, changes)]
        for sink in view.sinks:
            parts = [t for t in (tables if sink.get("id") in new else tables[1:]) if t is not None]
            log = pa.concat_tables(parts, promote_options="permissive") if parts else None
            if log is None or not log.num_rows:
                continue
            if sink["target"] == "console":
                self._print(sink, log)
            elif sink["target"] == "files":
                self._write_file(sink, log, batch)
            else:
                self._write_target(sink, view, log, batch)

    def _write_target(self, sink: Sink, view: StoredView, log: pa.Table, batch: int) -> None:
        key = _key(sink)
        if key not in self.behind and self._try_target(sink, view, log, batch):
            return
        self.behind.add(key)
        folder = os.path.join(self.waiting, key)
        os.makedirs(folder, exist_ok=True)
        name = f"changes-{batch:012d}.arrow"
        with open(os.path.join(folder, f".{name}.part"), "wb") as out:
            out.write(ipc_bytes(log))
            out.flush()
            os.fsync(out.fileno())
        os.replace(os.path.join(folder, f".{name}.part"), os.path.join(folder, name))

    def _try_target(self, sink: Sink, view: StoredView, log: pa.Table, batch: int) -> bool:
        try:
            if sink["id"] not in self._targets:
                self._targets[sink["id"]] = open_target(target_spec(sink, view))
            self._targets[sink["id"]].write(log, batch)
        except Exception as error:  # of the libraries of targets; the changes wait, and the status says why
            self.problems[sink["name"]] = str(error) or type(error).__name__
            self._forget_target(sink)
            return False
        self.problems.pop(sink["name"], None)
        return True

    def _forget_target(self, sink: Sink) -> None:
        """Connect anew next time: only a new connection knows for certain which batch was the last."""
        target = self._targets.pop(sink["id"], None)
        if target is not None:
            with suppress(Exception):
                target.close()

    def deliver(self, views: Iterable[StoredView]) -> None:
        """Try again to deliver waiting files; remove those of sinks that no longer exist."""
        if not self.behind:
            return
        known = {_key(sink): (sink, view) for view in views for sink in view.sinks}
        for key in sorted(self.behind):
            if key not in known:
                shutil.rmtree(os.path.join(self.waiting, key), ignore_errors=True)
                self.behind.discard(key)
            else:
                sink, view = known[key]
                self._catch_up_target(sink, view, key) if sink["target"] in KINDS else self._catch_up(sink, key)

    def undelivered(self, sink: Sink) -> int:
        """How many files wait for a sink."""
        return len(_list_files(os.path.join(self.waiting, _key(sink)))) if _key(sink) in self.behind else 0

    def _write_file(self, sink: Sink, log: pa.Table, batch: int) -> None:
        form = sink["options"].get("format", "parquet")
        name = f"changes-{batch:012d}.{'parquet' if form == 'parquet' else 'jsonl'}"
        key = _key(sink)
        if key not in self.behind:
            try:
                _write(sink["path"], name, form, log)
                self.problems.pop(sink["name"], None)
                return
            except OSError as error:
                self.problems[sink["name"]] = str(error)
        self.behind.add(key)
        _write(os.path.join(self.waiting, key), name, form, log)

    def _catch_up(self, sink: Sink, key: str) -> None:
        folder = os.path.join(self.waiting, key)
        try:
            for name in _list_files(folder):
                os.makedirs(sink["path"], exist_ok=True)
                temporary = os.path.join(sink["path"], f".{name}.part")
                shutil.copyfile(os.path.join(folder, name), temporary)
                os.replace(temporary, os.path.join(sink["path"], name))
                os.remove(os.path.join(folder, name))
        except OSError as error:
            self.problems[sink["name"]] = str(error)
            return
        self.behind.discard(key)
        self.problems.pop(sink["name"], None)

    def _catch_up_target(self, sink: Sink, view: StoredView, key: str) -> None:
        folder = os.path.join(self.waiting, key)
        for name in _list_files(folder):
            with open(os.path.join(folder, name), "rb") as file:
                log = from_ipc(file.read())
            if not self._try_target(sink, view, log, int(name.removeprefix("changes-").removesuffix(".arrow"))):
                return
            os.remove(os.path.join(folder, name))
        self.behind.discard(key)

    def _print(self, sink: Sink, log: pa.Table) -> None:
        try:
            for row in python_rows(log):
                tag, stamp = row.pop("TAG"), row.pop("TS", "")
                old = row.pop("OLD")
                was = f"  was {', '.join(str(v) for v in old.values())}" if old else ""
                # What a stream holds must not control the terminal.
                printer(clean(f"{sink['name']} {tag} <{', '.join(str(v) for v in row.values())}> {stamp}{was}"))
            self.problems.pop(sink["name"], None)
        except (OSError, ValueError) as error:  # a console that was closed
            self.problems[sink["name"]] = str(error)


def _write(folder: str, name: str, form: str, log: pa.Table) -> None:
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.part")
    if form == "parquet":
        pq.write_table(log, temporary)
    else:
        with open(temporary, "w", encoding="utf-8") as out:
            out.writelines(json_text(row) + "\n" for row in python_rows(log))
    os.replace(temporary, os.path.join(folder, name))


def _key(sink: Sink) -> str:
    """A folder name for a sink, whatever its name and path are."""
    who = sink["id"] if sink["target"] in KINDS else sink["path"]
    return hashlib.sha256(f"{sink['name']}\n{who}".encode()).hexdigest()[:16]


def target_spec(sink: Sink, view: StoredView) -> SinkSpec:
    """The sink as its target sees it."""
    options = sink["options"]
    return SinkSpec(
        sink["id"], sink["name"], sink["target"], options["mode"], sink["place"], options, tuple(view.names), view.keys
    )


def _list_files(folder: str) -> list[str]:
    return sorted(n for n in os.listdir(folder) if not n.startswith(".")) if os.path.isdir(folder) else []
