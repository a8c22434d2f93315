"""What one operator of a batch may use: memory, by the operating system, and time, by a watching thread.

DuckDB counts only a part of what it allocates, and numpy and Arrow count nothing; the limit of private memory of the
process (RLIMIT_DATA) holds for all of them, and an allocation beyond it is an error that can be caught.
"""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.errors import EngineProblem
from tidemill.runtime.duckdb import duck

_LOOK_S = 0.1  # between two looks at the clock: how much later than its limit a statement may end


class OutOfTime(BaseException):
    """An operator has used its time. No function of a user may take it for an error of a row."""


def too_large() -> EngineProblem:
    """The error of an operator that needs more memory than it may use."""
    return EngineProblem(
        "TM510", "an operator needs more memory than operator_memory allows", hint="SET operator_memory"
    )


def too_long() -> EngineProblem:
    """The error of an operator that has used its time."""
    return EngineProblem("TM511", "an operator took longer than operator_time allows", hint="SET operator_time")


def usual_memory() -> int:
    """As much as the machine has. The limit counts memory that is reserved, not memory that is used: with a lower
    one an operator that uses little could fail.
    """
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def memory_limited(memory: int) -> Iterator[None]:
    """Inside, the process may take `memory` more bytes than it has; 0 is the usual amount."""
    used = _private_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if used is None:
        yield
        return
    wanted = used + (memory or usual_memory())
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@dataclass
class _Watched:
    deadline: float = 0.0


_watched: dict[int, _Watched] = {}
_lock = threading.Lock()
_watcher: list[int] = []  # the process whose watcher runs: threads do not live on in a fork


@contextmanager
def time_limited(seconds: float) -> Iterator[None]:
    """Inside, the thread is interrupted after this many seconds; 0 is no limit.

    What is nested has a time of its own, which does not count for the outer one.
    """
    if not seconds:
        yield
        return
    _start_watcher()
    thread, began = threading.get_ident(), time.monotonic()
    with _lock:
        outer = _watched.get(thread)
        _watched[thread] = _Watched(began + seconds)
    try:
        yield
    finally:
        with _lock:
            if outer is None:
                _watched.pop(thread, None)
            else:
                outer.deadline += time.monotonic() - began
                _watched[thread] = outer


def _start_watcher() -> None:
    with _lock:
        if _watcher != [os.getpid()]:
            _watcher[:] = [os.getpid()]
            threading.Thread(target=_watch, daemon=True, name="operator time").start()


def _watch() -> None:
    while True:
        time.sleep(_LOOK_S)
        now = time.monotonic()
        with _lock:
            for thread, watched in list(_watched.items()):
                if now > watched.deadline:
                    watched.deadline = now + 1.0  # it may take a moment, or begin another statement
                    if not duck.interrupt(thread):
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OutOfTime))


def _private_bytes() -> int | None:
    """Private memory of the process as the limit counts it; None where the system has no such number."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None
