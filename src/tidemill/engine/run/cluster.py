"""A session on a cluster, for as long as a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def hold_cluster(master: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """A Spark session whose driver is this process; it is stopped at the end: the cluster has its cores back. None
    without a master: the database makes a session on this machine.
    """
    if master is None:
        yield None
        return
    # Imported here: it loads Spark, which is slow.
    from tidemill.runtime.spark.session import cluster_session

    session = cluster_session(master, settings)
    try:
        yield session
    finally:
        session.stop()
