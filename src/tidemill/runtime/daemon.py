"""The process from which Spark forks its Python workers, with everything loaded that a worker of ours needs.

A worker that loads it by itself takes about a second, and each of them does. Spark runs one such process for each kind
of worker and names the kind in the first argument; only those that run our readers and shards carry our libraries.
"""

from __future__ import annotations

import gc
import sys
from functools import cache

_WORKER = "pyspark.worker"
_SETTLED_AFTER = (1, 2, 4, 8, 16)
_tasks = 0


def begin_task() -> None:
    """To be called when a task of ours begins: everything is loaded then, and what stays is exempt from collection.

    Spark's workers collect garbage after every task: 0.1 s with these libraries, and nothing of them is garbage. The
    first tasks still load kernels, plans and statements; after some of them these are exempt too.
    """
    global _tasks
    load()
    _tasks += 1
    if _tasks - 1 in _SETTLED_AFTER:
        gc.collect()
        gc.freeze()


@cache
def load() -> None:
    """Import what readers and shards use, once in a process. Nothing of it may need a thread: it would not live on in a
    fork.
    """
    import tidemill.runtime.processor
    import tidemill.runtime.reader
    import tidemill.runtime.source
    import tidemill.runtime.stage  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    from tidemill.runtime import daemon  # under its own name, where workers find that everything is loaded

    if sys.argv[1:2] == [_WORKER]:
        daemon.load()
    manager()
