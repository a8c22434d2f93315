"""The process in which ad hoc queries run: Arrow in, one SELECT, Arrow out. `pool` starts it.

It holds no database, no secret and no open file but the two it is given for a query: the inputs, one Arrow stream
behind the other, and an empty one for the answer. DuckDB has no access to files, network, extensions or Python
variables, its configuration is locked, and its memory is limited twice: by DuckDB for what it counts, by the
operating system for the rest (one call of lpad may ask for gigabytes that DuckDB does not count).
A timeout kills the process: a single call cannot always be interrupted.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any

import duckdb
import pyarrow as pa

LENGTH = struct.Struct("<I")
WHOLE = {b"tidemill": b"whole number"}  # the mark of a column of HUGEINT in an answer
SLACK = 512 << 20  # what threads, code and results on their way take beside the memory that DuckDB counts
_BATCH = 1 << 16  # rows of a block of the answer: some MB, so that its limit on bytes is noticed early


class TooLarge(Exception):
    """The answer is larger than the query may have."""


def main() -> None:
    """Answer requests until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(), sys.argv[2]), daemon=True).start()
    line = socket.socket(fileno=int(sys.argv[1]))
    instance = Instance(sys.argv[2])
    while (received := _receive(line)) is not None:
        request, (given, answer) = received
        try:
            reply = _answer(instance, request, given, answer)
        finally:
            os.close(given)
            os.close(answer)
        text = json.dumps(reply).encode()
        line.sendall(LENGTH.pack(len(text)) + text)


def _answer(instance: Instance, request: dict[str, Any], given: int, answer: int) -> dict[str, Any]:
    duck = None
    try:
        duck = instance.within(request["memory"], request["bytes"], request["threads"], request["zone"])
        for part in request["inputs"]:
            _offer(duck, part, given)
        return {"bytes": _write(duck, request["sql"], answer, request["bytes"])}
    except TooLarge:
        return {"problem": "bytes"}
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        return {"problem": "memory"}
    except duckdb.Error as error:
        return {"problem": "memory" if "bad allocation" in str(error) else "query", "message": str(error)}
    except OSError as error:
        return {"problem": "disk", "message": str(error.strerror)}
    finally:
        if duck is not None:
            duck.close()


class Instance:
    """The hardened DuckDB of this process; inputs and their views belong to the cursor of one query."""

    def __init__(self, spill: str) -> None:
        self._spill = spill.replace("'", "''")
        self._limits: tuple[int | str, ...] = ()
        self._memory = resource.getrlimit(resource.RLIMIT_DATA)
        self._duck = duckdb.connect(":memory:")

    def within(self, memory: int, spilled: int, threads: int, zone: str) -> duckdb.DuckDBPyConnection:
        """A cursor of an instance with these limits, bytes of memory and of spilled rows and threads, in a zone."""
        limits = (memory, spilled, threads, zone)
        if limits != self._limits:
            resource.setrlimit(resource.RLIMIT_DATA, self._memory)
            self._duck.close()
            self._duck = duckdb.connect(":memory:")
            self._harden(memory, spilled, threads, zone)
            self._limits = limits
        return self._duck.cursor()

    def _harden(self, memory: int, spilled: int, threads: int, zone: str) -> None:
        # GLOBAL: a cursor begins with the settings of the instance, not with those of the connection it was made of.
        for setting in (
            f"GLOBAL TimeZone = '{zone}'",
            f"threads = {threads}",
            f"memory_limit = '{memory}B'",
            f"temp_directory = '{self._spill}'",
            f"max_temp_directory_size = '{spilled}B'",
            "python_enable_replacements = false",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "allow_community_extensions = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._duck.execute(f"SET {setting}")
        most = _private_bytes() + memory + SLACK
        hard = self._memory[1]
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _private_bytes() -> int:
    """Private memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _offer(duck: duckdb.DuckDBPyConnection, part: dict[str, Any], given: int) -> None:
    """An input under its name, with the types that it had before Arrow."""
    whole = memoryview(mmap.mmap(given, 0, prot=mmap.PROT_READ))
    stream = pa.ipc.open_stream(pa.py_buffer(whole[part["start"] : part["end"]]))
    duck.register(f"{part['name']} rows", stream.read_all())
    columns = ", ".join(f"CAST({_quote(n)} AS {t}) AS {_quote(n)}" for n, t in part["columns"])
    duck.execute(f"CREATE TEMP VIEW {_quote(part['name'])} AS SELECT {columns} FROM {_quote(part['name'] + ' rows')}")


def _write(duck: duckdb.DuckDBPyConnection, sql: str, answer: int, most: int) -> int:
    [statement] = duck.extract_statements(sql)
    if statement.type != duckdb.StatementType.SELECT:
        raise duckdb.InvalidInputException("only a SELECT can be answered")
    found = duck.sql(sql)
    types, rows = found.types, found.to_arrow_reader(_BATCH)
    with os.fdopen(os.dup(answer), "wb") as file, pa.ipc.new_stream(file, _mark_hugeints(rows.schema, types)) as writer:
        for batch in rows:
            writer.write_batch(batch)
            if file.tell() > most:
                raise TooLarge
    return os.fstat(answer).st_size


def _mark_hugeints(schema: pa.Schema, types: list[Any]) -> pa.Schema:
    """The schema of an answer, with a mark at what DuckDB calls HUGEINT: in Arrow it looks like a DECIMAL(38, 0)."""
    return pa.schema([f.with_metadata(WHOLE) if str(t) == "HUGEINT" else f for f, t in zip(schema, types, strict=True)])


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _receive(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request with its files; None when the other end is gone."""
    files = array.array("i")
    head, ancillary, _, _ = line.recvmsg(LENGTH.size, socket.CMSG_SPACE(2 * files.itemsize))
    if len(head) < LENGTH.size:
        return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    (length,), text = LENGTH.unpack(head), bytearray()
    while len(text) < length:
        piece = line.recv(length - len(text))
        if not piece:
            return None
        text += piece
    return json.loads(text), files.tolist()


def _end_with(parent: int, spill: str) -> None:
    """End the query when the process that asked is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    shutil.rmtree(spill, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
