"""When a task of ours begins in a worker of Spark."""

from __future__ import annotations

import gc

_SETTLED_AFTER = (1, 2, 4, 8, 16)  # tasks of a worker: ever less is new in each
_tasks = 0


def begin_task() -> None:
    """To be called when a task of ours begins: what stays is exempt from collection.

    Spark's workers collect garbage after every task: 0.1 s with these libraries, and nothing of them is garbage. The
    first tasks still load kernels, plans and statements; after some of them these are exempt too.
    """
    global _tasks
    _tasks += 1
    if _tasks - 1 in _SETTLED_AFTER:
        gc.collect()
        gc.freeze()
