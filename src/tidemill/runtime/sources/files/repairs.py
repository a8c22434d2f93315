"""Files that were repaired by hand after they had been listed."""

from __future__ import annotations

import os
from dataclasses import replace

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import listing
from tidemill.runtime.sources.files.log import Entry, FileLog
from tidemill.runtime.sources.files.names import base_directory


def relist(spec: SourceSpec, directory: str, first: int) -> bool:
    """List the files from number `first` on as they are now; True when one of them has changed.

    Nothing of them may have been processed but a beginning of the first one, and that has to be as it was.
    """
    log = FileLog(directory)
    base = base_directory(os.path.abspath(spec.origin["glob"]))
    entries = log.entries().between(first)
    parts: dict[str, list[Entry]] = {}
    for entry in entries:
        parts.setdefault(entry.path, []).append(entry)
    changed = {entry.n: entry for found in parts.values() for entry in _relist(found, spec, base)}
    if changed:
        log.replace(_renumber([changed.get(entry.n, entry) for entry in entries]))
    return bool(changed)


def _renumber(entries: list[Entry]) -> list[Entry]:
    """The rows of parts are numbered on from the entry before, however long that has become."""
    found = entries[:1]
    for entry in entries[1:]:
        found.append(entry if entry.base is None else replace(entry, base=found[-1].next_base))
    return found


def _relist(parts: list[Entry], spec: SourceSpec, base: str) -> list[Entry]:
    """The entries of one file: the first of them is all that is there now, those behind it are empty."""
    last = parts[-1]
    if parts[0].bad and parts[0].begin:
        return []  # this entry only reports that the file changed after it was read
    try:
        facts = os.stat(last.path)
        if (facts.st_size, facts.st_mtime_ns) == (last.size, last.mtime_ns):
            return []
        seen = listing.describe(last.path, facts, spec, base, live=False)
    except (OSError, listing.NotYet):
        return []  # its reader reports the error
    end = seen["length"]
    return [replace(parts[0], **seen), *(replace(part, **{**seen, "bad": None}, begin=end) for part in parts[1:])]
