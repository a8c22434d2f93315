"""Disk limits of outboxes: while one is full, the planner takes in no more of the sources that feed it.

Nothing is dropped. A full outbox is marked by a file that the planner, another process, looks for.
"""

from __future__ import annotations

import os

from tidemill.runtime.paths import Paths

_ENOUGH = 0.75  # of the limit: below this the sources are read again


def note_size(paths: Paths, edge: str, size: int, most: int) -> None:
    """Mark an outbox of `size` bytes as full, or as having room again."""
    path = os.path.join(paths.full_outboxes, edge)
    if size > most:
        os.makedirs(paths.full_outboxes, exist_ok=True)
        with open(path, "w"):
            pass
    elif size <= most * _ENOUGH and os.path.exists(path):
        os.remove(path)


def full_edges(paths: Paths) -> set[str]:
    """The edges whose outbox is full, by the ids of their outputs."""
    try:
        return set(os.listdir(paths.full_outboxes))
    except FileNotFoundError:
        return set()
