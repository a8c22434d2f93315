"""The console of all commands: wide when piped, and usable while Spark starts."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPED_WIDTH = 500


def console(stderr: bool = False) -> Console:
    """Output for people on a terminal, untruncated plain text anywhere else.

    On a terminal it writes to a copy of the file descriptor: standard output itself is redirected to the log while the
    processes of Spark start, and the spinner must stay visible.
    """
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return Console(file=stream, width=PIPED_WIDTH, highlight=False, markup=False, soft_wrap=True)
    copy = os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8", buffering=1)
    return Console(file=copy, highlight=False, markup=False)
