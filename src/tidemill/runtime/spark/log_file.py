"""The log of a database's processes, bounded: what is older than the last part of it goes.

The JVM and Spark's Python processes append to one file that they have inherited. When it has grown too long, its last
part is kept under another name and the file is truncated: processes that append continue at its new end.
"""

from __future__ import annotations

import os
from contextlib import suppress

MOST_BYTES = 16 << 20  # of spark.log; then its end is kept beside it and it begins anew


def bound_log(path: str, most: int = MOST_BYTES) -> bool:
    """Begin a log anew that is longer than that, and keep its end as `path`.1; True where it was. A line that is
    written in this very moment may be lost, but for nothing else does a log ever stop a job.
    """
    with suppress(OSError):
        size = os.path.getsize(path)
        if size > most:
            with open(path, "rb") as log:
                log.seek(size - most)
                log.readline()
                end = log.read()
            handle = os.open(f"{path}.1.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.stat(path).st_mode & 0o666)
            with os.fdopen(handle, "wb") as kept:
                kept.write(end)
            os.replace(f"{path}.1.part", f"{path}.1")
            os.truncate(path, 0)
            return True
    return False
