"""The process from which Spark forks its Python workers, with everything loaded that a worker of ours needs.

A worker that loads it by itself takes about a second, and each of them does. Spark runs one such process for each kind
of worker and names the kind in the first argument; only those that run our readers and shards carry our libraries.
"""

from __future__ import annotations

import gc
import sys
from functools import cache

_WORKER = "pyspark.worker"


@cache
def load() -> None:
    """Import what readers and shards use, once in a process. Nothing of it may need a thread: it would not live on in a
    fork.
    """
    import tidemill.runtime.reader.reader
    import tidemill.runtime.spark.data_source
    import tidemill.runtime.spark.shard_processor
    import tidemill.runtime.stage.stage  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    from tidemill.runtime.spark import worker_daemon  # under its own name, where workers find that everything is loaded

    if sys.argv[1:2] == [_WORKER]:
        worker_daemon.load()
    manager()
