"""Ctrl-C as Python means it, while a session of Spark is open; and cancelling a query from another thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tidemill.errors import EngineProblem


class Cancellation:
    """Lets another thread end a query: what waits looks at `check`, what is busy is interrupted by a function."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._functions: list[Callable[[], None]] = []
        self.is_set = False

    def set(self) -> None:
        """End the query."""
        with self._lock:
            self.is_set = True
            for function in self._functions:
                function()

    @contextmanager
    def interrupts(self, function: Callable[[], None]) -> Iterator[None]:
        """Inside, `set` calls the function; at once when it was called already."""
        with self._lock:
            self._functions.append(function)
            if self.is_set:
                function()
        try:
            yield
        finally:
            with self._lock:
                self._functions.remove(function)

    def check(self) -> None:
        """Raise when the query was cancelled."""
        if self.is_set:
            raise EngineProblem("TM522", "the query was cancelled")


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Inside, ctrl-C is a KeyboardInterrupt and nothing more.

    Spark installs a handler of its own that cancels every job, and the micro-batch of the moment with it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        with suppress(TypeError):  # a handler that Python did not install
            signal.signal(signal.SIGINT, before)
