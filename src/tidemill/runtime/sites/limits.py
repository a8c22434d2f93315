"""What the planner, another process, is told about edges that leave, by files that it looks for.

While an outbox is full it takes in no more of the sources that feed it; nothing is dropped. And where another site
waits for a time of an edge, it lets that time pass for the sources of the edge, though nothing here waits for it.
"""

from __future__ import annotations

import os

from tidemill.plan.below import Below
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.runtime.paths import Paths

_ENOUGH = 0.75  # of the limit: below this the sources are read again; any value well below 1 keeps it from flickering


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


def note_awaited(paths: Paths, edge: str, until: int | None) -> None:
    """Another site waits until time `until` of an edge is closed; None: it does not wait any more."""
    path = os.path.join(paths.awaited_edges, edge)
    if until is None:
        if os.path.exists(path):
            os.remove(path)
        return
    os.makedirs(paths.awaited_edges, exist_ok=True)
    with open(f"{path}.part", "w") as out:
        out.write(str(until))
    os.replace(f"{path}.part", path)


def awaited_edges(paths: Paths) -> dict[str, int]:
    """The times that are awaited, by the ids of the edges' outputs."""
    found = {}
    try:
        names = os.listdir(paths.awaited_edges)
    except FileNotFoundError:
        return {}
    for name in names:
        if not name.endswith(".part"):
            try:
                with open(os.path.join(paths.awaited_edges, name)) as text:
                    found[name] = int(text.read())
            except (FileNotFoundError, ValueError):  # taken back meanwhile
                continue
    return found


def sources_awaited(paths: Paths, plan: Physical) -> dict[str, int]:
    """The greatest time of each source that another site waits for."""
    times = awaited_edges(paths)
    found: dict[str, int] = {}
    if times:
        below = Below(plan)
        for output in plan.outputs:
            for name in below.sources(output.op) if output.view in times else ():
                found[name] = max(found.get(name, BEGINNING), times[output.view])
    return found
