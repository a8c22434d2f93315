"""Ctrl-C as Python means it, while a session of Spark is open."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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
