"""The one console that everything is printed on: wide when piped, and still there while Spark starts."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

PIPED_WIDTH = 500


def console(stderr: bool = False) -> Console:
    """Output for people on a terminal, untruncated plain text anywhere else.

    On a terminal it writes to a copy of the file descriptor: standard output itself points to the log
    while the processes of Spark are started, and a spinner must go on turning meanwhile.
    """
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return Console(file=stream, width=PIPED_WIDTH, highlight=False, markup=False, soft_wrap=True)
    copy = os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8", buffering=1)
    return Console(file=copy, highlight=False, markup=False)


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt and nothing more.

    Spark installs a handler of its own that cancels every job, and the micro-batch of the moment with it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
