"""Change logs outside the database: files, the console, and other systems (`targets`).

Of files, there is one for each micro-batch that changed something.

A file is renamed into place when it is complete and named by its batch, so a replayed batch writes the
same file again and a reader never sees half of one. Where a folder cannot be written or a system does not answer, the
changes wait in the database (`undelivered`), and are delivered in their order when it does: a sink that fails holds
nothing up and loses nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.plan.python_values import json_text, python_rows
from tidemill.plan.value_text import clean
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.duckdb import duck
from tidemill.runtime.paths import Paths
from tidemill.runtime.targets.lake_files import LakeWriter, Spread
from tidemill.runtime.targets.target import SinkSpec, Target, open_target
from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.store import present
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.undelivered import Undelivered, Waiting

# A system that lets a try wait, and then fails, is left alone for longer than the try took: batches would wait with it.
_RESTS = 9
_LONGEST_REST_S = 60.0  # a system that is back is found within a minute
printer: Callable[[str], None] = print


class Sinks:
    """Writes to all sinks of a database; what cannot be delivered is `waiting`."""

    spread: Spread | None = None  # what has workers write the files of large batches; without it the driver does

    def __init__(self, paths: Paths, committed: str | None) -> None:
        self.waiting = Undelivered(paths, committed)
        self.problems: dict[str, str] = {}  # by the name of the sink
        self._targets: dict[str, Target] = {}  # by the id of the sink
        self._outbox = paths.outbox
        self._rests: dict[str, float] = {}  # by the id of the sink: until when it is not tried again

    def write(
        self, view: StoredView, changes: pa.Table | None, batch: int, first: pa.Table | None, new: set[str]
    ) -> None:
        """Send one batch of tagged changes to every sink of the view; those in `new` begin with `first`."""
        tables = [None if t is None else present(view, t, duck.connection()) for t in (first, changes)]
        for sink in view.sinks:
            parts = [t for t in (tables if sink.id in new else tables[1:]) if t is not None]
            log = pa.concat_tables(parts, promote_options="permissive") if parts else None
            if log is None or not log.num_rows:
                continue
            if sink.target == "console":
                self._print(sink, log)
            elif sink.target == "files":
                self._write_file(sink, log, batch)
            else:
                self._write_target(sink, view, log, batch)

    def _write_target(self, sink: Sink, view: StoredView, log: pa.Table, batch: int) -> None:
        key = _key(sink)
        if key in self.waiting.spans or not self._try_target(sink, view, log, batch):
            self.waiting.keep(key, f"changes-{batch:012d}.arrow", batch, ipc_bytes(log))

    def _try_target(self, sink: Sink, view: StoredView, log: pa.Table, batch: int) -> bool:
        began = time.monotonic()
        if began < self._rests.get(sink.id, 0.0):
            return False
        try:
            if sink.id not in self._targets:
                self._targets[sink.id] = open_target(target_spec(sink, view), self._writer())
            self._targets[sink.id].write(log, batch)
        except Exception as error:  # of the libraries of targets; the changes wait, and the status says why
            self.problems[sink.name] = str(error) or type(error).__name__
            self._forget_target(sink)
            took = time.monotonic() - began
            self._rests[sink.id] = began + took + min(_RESTS * took, _LONGEST_REST_S)
            return False
        self.problems.pop(sink.name, None)
        return True

    def _writer(self) -> LakeWriter | None:
        return LakeWriter(self._outbox, self.spread) if self.spread is not None else None

    def _forget_target(self, sink: Sink) -> None:
        """Connect anew next time: only a new connection knows for certain which batch was the last."""
        target = self._targets.pop(sink.id, None)
        if target is not None:
            with suppress(Exception):
                target.close()

    def deliver(self, views: Iterable[StoredView]) -> None:
        """Begin a batch: try again to deliver waiting files; forget those of sinks that no longer exist."""
        self.waiting.begin()
        known = {_key(sink): (sink, view) for view in views for sink in view.sinks}
        for key in sorted(self.waiting.spans):
            if key not in known:
                self.waiting.drop(key)
            else:
                sink, view = known[key]
                self.waiting.deliver(key, partial(self._send, sink, view))

    def _send(self, sink: Sink, view: StoredView, found: Waiting) -> bool:
        if sink.is_external:
            return self._try_target(sink, view, from_ipc(found.content), found.batch)
        return self._try_file(sink, found.name, found.content)

    def count_undelivered(self, sink: Sink) -> int:
        """How many files wait for a sink."""
        return self.waiting.count(_key(sink))

    def _write_file(self, sink: Sink, log: pa.Table, batch: int) -> None:
        form = sink.format
        name = f"changes-{batch:012d}.{'parquet' if form == 'parquet' else 'jsonl'}"
        key, content = _key(sink), _encode(form, log)
        if key in self.waiting.spans or not self._try_file(sink, name, content):
            self.waiting.keep(key, name, batch, content)

    def _try_file(self, sink: Sink, name: str, content: bytes) -> bool:
        try:
            os.makedirs(sink.path, exist_ok=True)
            temporary = os.path.join(sink.path, f".{name}.part")
            with open(temporary, "wb") as out:
                out.write(content)
            os.replace(temporary, os.path.join(sink.path, name))
        except OSError as error:
            self.problems[sink.name] = str(error)
            return False
        self.problems.pop(sink.name, None)
        return True

    def _print(self, sink: Sink, log: pa.Table) -> None:
        try:
            for row in python_rows(log):
                tag, stamp = row.pop("TAG"), row.pop("TS", "")
                old = row.pop("OLD")
                was = f"  was {', '.join(str(v) for v in old.values())}" if old else ""
                # What a stream holds must not control the terminal.
                printer(clean(f"{sink.name} {tag} <{', '.join(str(v) for v in row.values())}> {stamp}{was}"))
            self.problems.pop(sink.name, None)
        except (OSError, ValueError) as error:  # a console that was closed
            self.problems[sink.name] = str(error)


def _encode(form: str, log: pa.Table) -> bytes:
    """The content of a file."""
    if form != "parquet":
        return "".join(json_text(row) + "\n" for row in python_rows(log)).encode()
    out = io.BytesIO()
    pq.write_table(log, out)
    return out.getvalue()


def _key(sink: Sink) -> str:
    """A folder name for a sink, whatever its name and path are."""
    who = sink.id if sink.is_external else sink.path
    return hashlib.sha256(f"{sink.name}\n{who}".encode()).hexdigest()[:16]


def target_spec(sink: Sink, view: StoredView) -> SinkSpec:
    """The sink as its target sees it."""
    return SinkSpec(
        sink.id, sink.name, sink.target, sink.options["mode"], sink.place, sink.options, tuple(view.names), view.keys
    )
