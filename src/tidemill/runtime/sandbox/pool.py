"""Starts, limits and ends the processes in which ad hoc queries run (`worker`).

Nothing that a query does reaches this process, the view store or the running job: a query that takes too long, or that
was cancelled, is ended by ending its process, whatever it is doing.
"""

from __future__ import annotations

import atexit
import json
import mmap
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from tidemill.errors import EngineProblem, PlanProblem
from tidemill.interrupts import Cancellation, plain_interrupts
from tidemill.runtime.duckdb.wide_integers import narrow_marked
from tidemill.runtime.sandbox.worker import LENGTH, WHOLE
from tidemill.runtime.thresholds import sizes

MOST_IDLE = 2  # processes that wait for the next query
_BATCH = 1 << 16  # rows of a block of Arrow: some MB, so that a limit on bytes stops a table that is too large early
_ALIGNED = 64  # Arrow wants its buffers so
_LOOK_S = 0.1  # how often a waiting query looks whether it was cancelled


@dataclass(frozen=True)
class Limits:
    """What one ad hoc query may use: seconds, bytes of memory, bytes of input, answer and spilled rows."""

    seconds: float = 60.0
    memory: int = 1 << 30
    bytes: int = 8 << 30


class Deadline:
    """When a query has to be done, unless it is cancelled before."""

    def __init__(self, seconds: float, cancellation: Cancellation | None = None) -> None:
        self.seconds = seconds
        self.cancellation = cancellation or Cancellation()
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    def check(self) -> None:
        """Raise when it has passed, or the query was cancelled."""
        self.cancellation.check()
        if self.left <= 0:
            raise EngineProblem(
                "TM517",
                f"the query took longer than {self.seconds:g} seconds",
                hint="SET query_time = '10 minutes', or query(…, timeout=600)",
            )


@dataclass
class Inputs:
    """What a query reads: Arrow streams in one file without a name."""

    folder: str
    most: int
    deadline: Deadline
    parts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        self.file: IO[bytes] = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed with the inputs

    def add(self, name: str, columns: list[tuple[str, str]], rows: pa.RecordBatchReader) -> None:
        """Keep rows under a name; `columns` has their DuckDB types."""
        start = self.file.tell()
        with pa.ipc.new_stream(self.file, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
                self.deadline.check()
                if self.file.tell() > self.most:
                    raise too_large("reads")
        end = self.file.tell()
        self.file.write(b"\0" * (-end % _ALIGNED))
        self.parts.append({"name": name, "columns": columns, "start": start, "end": end})

    def close(self) -> None:
        self.file.close()


class Worker:
    """One process, for one query at a time."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair()
        self._spill = tempfile.mkdtemp(prefix="tidemill-query-")
        program = str(Path(__file__).with_name("worker.py"))
        # -P: nothing in the working directory takes the place of a library. A session of its own: ctrl-C is for us.
        # Arrow's own allocator reserves a gigabyte at a time, which counts as memory although nothing is in it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", program, str(theirs.fileno()), self._spill],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        )
        theirs.close()

    def ask(self, request: dict[str, Any], files: list[int], deadline: Deadline) -> dict[str, Any] | None:
        """What the process replies; None when it died of the query."""
        text = json.dumps(request).encode()
        try:
            socket.send_fds(self._line, [LENGTH.pack(len(text))], files)
            self._line.sendall(text)
            head = self._read(LENGTH.size, deadline)
            return json.loads(self._read(LENGTH.unpack(head)[0], deadline))
        except (EOFError, ConnectionError):
            return None

    def _read(self, length: int, deadline: Deadline) -> bytes:
        found = b""
        while len(found) < length:
            if not select.select([self._line], [], [], min(max(deadline.left, 0), _LOOK_S))[0]:
                deadline.check()
                continue
            piece = self._line.recv(length - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """At once, whatever it does."""
        self._process.kill()
        self._line.close()
        self._process.wait()
        shutil.rmtree(self._spill, ignore_errors=True)


_idle: list[Worker] = []
_lock = threading.Lock()


def prepare() -> None:
    """Start a process now, so that the first query need not wait for it."""
    with _lock:
        if not _idle:
            _idle.append(Worker())


def _waiting() -> Worker | None:
    """A process that waits for a query; those that were killed meanwhile go."""
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.is_alive:
                return worker
            worker.end()
    return None


@contextmanager
def _worker() -> Iterator[Worker]:
    """A process for one query; it is not used again when anything went wrong."""
    worker = _waiting() or Worker()
    try:
        yield worker
    except BaseException:
        worker.end()
        raise
    with _lock:
        if len(_idle) < MOST_IDLE:
            _idle.append(worker)
            return
    worker.end()


@atexit.register
def end_all() -> None:
    """No process waits any more."""
    with _lock:
        while _idle:
            _idle.pop().end()


def answer(sql: str, inputs: Inputs, limits: Limits, deadline: Deadline, zone: str) -> pa.Table:
    """The answer of one SELECT over the inputs in a time zone, within the limits; a duckdb message becomes a
    PlanProblem.
    """
    inputs.file.flush()
    request = {
        "sql": sql,
        "inputs": inputs.parts,
        "memory": limits.memory,
        "bytes": limits.bytes,
        "threads": len(os.sched_getaffinity(0)),
        "zone": zone,
    }
    with tempfile.TemporaryFile(dir=inputs.folder) as file, plain_interrupts():
        with _worker() as worker:
            reply = worker.ask(request, [inputs.file.fileno(), file.fileno()], deadline)
            if reply is None:
                raise _too_much_memory(limits)
        _raise_problem(reply, limits)
        return _open_answer(file, int(reply["bytes"]))


def _raise_problem(reply: dict[str, Any], limits: Limits) -> None:
    problem, message = reply.get("problem"), str(reply.get("message", "")).split("\n")[0]
    if problem == "bytes":
        raise too_large("answers with")
    if problem == "memory":
        raise _too_much_memory(limits)
    if problem == "disk":
        raise EngineProblem("TM519", f"the query found no room on the disk: {message}", hint="make room and ask again")
    if problem is not None:
        raise PlanProblem("TM203", message.partition(": ")[2] or message, hint="DESCRIBE name shows the columns")


def _too_much_memory(limits: Limits) -> EngineProblem:
    return EngineProblem(
        "TM516",
        f"the query needs more memory than {limits.memory >> 20:,} MB",
        hint="ask for less at a time, or SET query_memory = '4 GB'",
    )


def too_large(does: str) -> EngineProblem:
    """The query reads or answers with more bytes than it may."""
    return EngineProblem(
        "TM519",
        f"the query {does} more bytes than query_bytes allows",
        hint="ask for fewer rows or columns, or SET query_bytes = '20 GB'",
    )


def _open_answer(file: IO[bytes], length: int) -> pa.Table:
    if length <= sizes.copied_bytes:
        file.seek(0)
        return narrow_marked(pa.ipc.open_stream(file.read()).read_all(), WHOLE)
    whole = pa.py_buffer(mmap.mmap(file.fileno(), length, prot=mmap.PROT_READ))
    return narrow_marked(pa.ipc.open_stream(whole).read_all(), WHOLE)
