"""What the first query would otherwise wait for: libraries, and DuckDB's connections.

Connectors and their kernels take a quarter of a second to import, and so does pandas, for which DuckDB looks when a
table is registered for the first time.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache

from tidemill.runtime.kernels.compiling.cache import compiled_groups


@cache
def load() -> None:
    """Import what connectors use to read, once in a process. What cannot be loaded fails where it is used."""
    load_connectors()
    with suppress(Exception):
        from tidemill.runtime.sources.text import plain  # noqa: F401
    ready()


def load_connectors() -> None:
    """Import what connectors use to say what is there: no compiled kernels, no DuckDB."""
    with suppress(Exception):
        import tidemill.runtime.sources.files
        import tidemill.runtime.sources.generate.connector
        import tidemill.runtime.sources.port.connector  # noqa: F401


def load_kernels() -> None:
    """Load every kernel that was compiled here before. What is not, or cannot be, is compiled where it is used."""
    with suppress(Exception):
        groups = compiled_groups()
        if groups:
            from tidemill.runtime.kernels.compiling.warm import warm

            warm(groups, wanted=threading.main_thread().is_alive)


def ready() -> None:
    """Let DuckDB answer in this thread, where nothing else waits: every thread has connections of its own."""
    with suppress(Exception):
        _answer_once(threading.get_ident())


@cache
def _answer_once(thread: int) -> None:
    import pyarrow as pa

    from tidemill.plan.sources import Column
    from tidemill.runtime.duckdb import duck
    from tidemill.runtime.sources.columns import convert

    rows = pa.table({"a": pa.array([1], pa.int64())})
    convert(rows.columns, [Column("a", "INTEGER")])
    duck.run("SELECT a + 1 AS a FROM feed", feed=rows)
