"""How long Arrow keeps memory that was freed before the system gets it back.

A micro-batch makes and frees tables of a hundred megabytes one after the other. Arrow's allocator, mimalloc, gives
freed pages back after 10 milliseconds; the next table then takes new ones from the system, which have to be mapped and
zeroed: half of the time of copying wide rows. Here pages wait for a second, so that a batch uses its own again.

mimalloc reads its settings once, when Arrow is loaded: this has to run before pyarrow is imported. A value that the
user has set in the environment stays; MIMALLOC_PURGE_DELAY=10 is the usual one. Processes that are started inherit it.
"""

from __future__ import annotations

import os

VARIABLE = "MIMALLOC_PURGE_DELAY"
MILLISECONDS = 1_000  # as long as a batch takes; 100 are nearly as good, 10 are not


def keep_freed_memory() -> None:
    """Let this process, and those that it starts, keep freed memory for a second."""
    os.environ.setdefault(VARIABLE, str(MILLISECONDS))
