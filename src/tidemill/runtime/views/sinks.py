"""Change logs outside the database: one file for each micro-batch that changed something, or the console.

A file is renamed into place when it is complete and named by its batch, so a replayed batch writes the
same file again and a reader never sees half of one. Where a folder cannot be written, the files wait in `undelivered/`
of the database, and are delivered in their order when it can: a sink that fails holds nothing up and loses nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.plan.python_values import json_text, python_rows
from tidemill.plan.value_text import clean
from tidemill.runtime.duckdb import duck
from tidemill.runtime.views.store import present
from tidemill.runtime.views.stored_view import StoredView

printer: Callable[[str], None] = print
Sink = dict[str, Any]


class Sinks:
    """Writes to all sinks of a database; `behind` are those with undelivered files."""

    def __init__(self, waiting: str) -> None:
        self.waiting = waiting
        self.problems: dict[str, str] = {}  # by the name of the sink
        self.behind = {name for name in _list_files(waiting) if _list_files(os.path.join(waiting, name))}

    def write(self, view: StoredView, changes: pa.Table, batch: int) -> None:
        """Send one batch of tagged changes to every sink of the view."""
        log = present(view, changes, duck.connection())
        for sink in view.sinks:
            if sink["target"] == "console":
                self._print(sink, log)
            else:
                self._write_file(sink, log, batch)

    def deliver(self, views: Iterable[StoredView]) -> None:
        """Try again to deliver waiting files; remove those of sinks that no longer exist."""
        if not self.behind:
            return
        known = {_key(sink): sink for view in views for sink in view.sinks}
        for key in sorted(self.behind):
            if key not in known:
                shutil.rmtree(os.path.join(self.waiting, key), ignore_errors=True)
                self.behind.discard(key)
            else:
                self._catch_up(known[key], key)

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
    return hashlib.sha256(f"{sink['name']}\n{sink['path']}".encode()).hexdigest()[:16]


def _list_files(folder: str) -> list[str]:
    return sorted(n for n in os.listdir(folder) if not n.startswith(".")) if os.path.isdir(folder) else []
