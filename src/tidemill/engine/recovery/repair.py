"""Repairs after failures: stopped views begin again, failed batches are changed or skipped.

A micro-batch that Spark has logged is run again until it succeeds. Until the outlet has committed it nothing of it
counts, so it may be run in another way: with a plan that no longer has what was dropped, with a file that was repaired,
or without the records of one source. Once the outlet has committed it, it is replayed exactly as it was.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.engine.views.virtual import find_stored
from tidemill.errors import CatalogProblem, EngineProblem
from tidemill.runtime.checkpoint.offsets import Offset, decode_offset
from tidemill.runtime.checkpoint.progress import first_batch, first_offset
from tidemill.runtime.paths import Paths
from tidemill.runtime.sources.files.repairs import relist
from tidemill.runtime.views.stopped_views import StoppedNote

if TYPE_CHECKING:
    from tidemill.engine.workload import Workload
    from tidemill.sql.catalog import Catalog, Entry


@dataclass(frozen=True)
class Pinned:
    """A micro-batch that Spark has logged and not committed: its number, and the offsets before and after it."""

    batch: int
    start: Offset | None
    end: Offset


def pinned_batch(paths: Paths) -> Pinned | None:
    """The batch that Spark will run again, if there is one."""
    offsets, commits = _numbers(paths, "offsets"), _numbers(paths, "commits")
    if not offsets or offsets[-1] in commits:
        return None
    first = first_offset(paths)
    begin = decode_offset(first) if first is not None else None
    before = _offset(paths, offsets[-2]) if len(offsets) > 1 else begin
    end = _offset(paths, offsets[-1])
    return None if end is None else Pinned(first_batch(paths) + offsets[-1], before, end)


def unlog(paths: Paths, batch: int) -> None:
    """Let Spark plan a batch again, as if it had never been logged."""
    number = batch - first_batch(paths)
    for name in (str(number), f".{number}.crc"):
        path = os.path.join(paths.checkpoint, "offsets", name)
        if os.path.exists(path):
            os.remove(path)


def relist_changed_files(paths: Paths, catalog: Catalog, found: Pinned) -> bool:
    """List files of the batch again that were changed by hand; True when there are some, and the batch must be planned
    again.
    """
    return any([_relist_if_changed(paths, entry, found) for entry in catalog.of("source", "table")])


def describe_rerun(told: dict[str, Any] | None, found: Pinned, version: int, *skip: str) -> dict[str, Any] | None:
    """How a batch that the outlet has not committed is run again: with the newest plan, and without the records of the
    sources in `skip`. None where that is what was logged.
    """
    before = (told or {}).get("again")
    skipped = sorted({*skip, *(before["skip"] if before and decode_offset(before["end"]) == found.end else ())})
    if not skipped and found.end.plan == version:
        return None
    return {"end": found.end.encode(), "plan": version, "skip": skipped}


def _relist_if_changed(paths: Paths, entry: Entry, found: Pinned) -> bool:
    """True when a file of the batch was changed by hand; only for sources where a bad record stops the job."""
    spec = entry.spec
    if spec is None or spec.kind != "files" or spec.on_error != "fail" or spec.name not in found.end.sources:
        return False
    before = found.start.sources.get(spec.name) if found.start else None
    return relist(spec, paths.source(spec.name), int(before.position["file"]) if before else 0)


def check_skippable(entry: Entry, found: Pinned | None, committed: int) -> Pinned:
    """The pinned batch, if it can be skipped: it has failed, and has records of the source."""
    name = entry.spec.name if entry.spec else ""
    now = found.end.sources.get(name) if found is not None else None
    before = found.start.sources.get(name) if found is not None and found.start else None
    if (
        found is None
        or found.batch <= committed
        or now is None
        or (before is not None and before.position == now.position)
    ):
        raise EngineProblem(
            "TM512",
            f'there is no failed batch with records of source "{entry.name}"',
            hint="a batch can be skipped after the job has failed, and before it is started again",
        )
    return found


def stopped_problem(name: str, note: StoppedNote) -> EngineProblem:
    """The error of a reader that waits for a stopped view."""
    return EngineProblem(
        "TM508",
        f'view "{name}" has stopped',
        detail=note["reason"],
        hint=f"RESTART VIEW {name} begins anew; its last contents can still be read",
    )


def find_views_to_restart(catalog: Catalog, workload: Workload, name: str) -> list[Entry]:
    """What begins again with a stopped view, in the order of creation: the stopped views that it reads, itself,
    and everything that reads one of them.
    """
    entry = find_stored(catalog, name, "RESTART")
    if workload.views[entry.name.lower()].entry.id not in workload.stopped:
        raise CatalogProblem(
            "TM509", f'view "{entry.name}" has not stopped', hint="CREATE OR REPLACE VIEW makes a running view anew"
        )
    wanted, todo = {entry.name}, [entry]
    while todo:
        for need in todo.pop().needs:
            below = workload.views.get(need.lower())
            if below is not None and below.entry.id in workload.stopped and below.entry.name not in wanted:
                wanted.add(below.entry.name)
                todo.append(below.entry)
    wanted |= {d.name for each in list(wanted) for d in catalog.dependents(each)}
    return [e for e in catalog.entries.values() if e.name in wanted]


def _numbers(paths: Paths, log: str) -> list[int]:
    """The batch numbers in a log, as Spark counts them."""
    folder = os.path.join(paths.checkpoint, log)
    return sorted(int(n) for n in os.listdir(folder) if n.isdigit()) if os.path.isdir(folder) else []


def _offset(paths: Paths, number: int) -> Offset | None:
    """The offset of our source in a file of Spark's log: its last line."""
    with open(os.path.join(paths.checkpoint, "offsets", str(number)), encoding="utf-8") as file:
        lines = file.read().splitlines()
    return decode_offset(json.loads(lines[-1])) if len(lines) > 2 else None
