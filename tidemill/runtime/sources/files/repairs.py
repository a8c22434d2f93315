"""Files that were repaired by hand after they had been listed."""

from __future__ import annotations

import os
from dataclasses import replace

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import listing
from tidemill.runtime.sources.files.log import FileLog


def relist(spec: SourceSpec, directory: str, first: int) -> bool:
    """List the files from number `first` on as they are now; True when one of them has changed.

    Nothing of them may have been processed but a beginning of the first one, and that has to be as it was.
    """
    log = FileLog(directory)
    base = listing.base_directory(os.path.abspath(spec.origin["glob"]))
    changed = []
    for entry in log.entries()[first:]:
        try:
            facts = os.stat(entry.path)
        except OSError:
            continue  # whoever reads it says so
        if (facts.st_size, facts.st_mtime_ns) != (entry.size, entry.mtime_ns):
            changed.append(replace(entry, **listing.describe(entry.path, facts, spec, base, live=False)))
    if changed:
        log.replace(changed)
    return bool(changed)
