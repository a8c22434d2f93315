"""Sinks that begin with a snapshot: their first batch is what the view holds, then the changes of that batch.

Which sinks have begun is stored in the transaction of the batch, so a replay begins them again, and a target that has
the batch already leaves it out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pyarrow as pa

from tidemill.runtime.views.sink import Sink
from tidemill.runtime.views.stored_view import StoredView

META = "begun"


def beginning(sinks: Iterable[Sink], known: dict[str, str]) -> set[str]:
    """The ids of those that are still to begin with a snapshot."""
    wanting = {s.id for s in sinks if s.begins_with_snapshot}
    return wanting - set(json.loads(known.get(META, "[]"))) if wanting else wanting


def begun_sinks(views: Iterable[StoredView], live: Iterable[str], known: dict[str, str]) -> dict[str, str]:
    """What is stored with a batch: all sinks with a snapshot that have begun with it or earlier."""
    ids = [s.id for view in views if view.id in live for s in view.sinks if s.begins_with_snapshot]
    earlier = set(json.loads(known.get(META, "[]")))
    every = {s.id for view in views for s in view.sinks}
    found = sorted((earlier & every) | set(ids))
    return {META: json.dumps(found)} if found or META in known else {}


def snapshots(
    views: Iterable[StoredView], known: dict[str, str], take: Callable[[StoredView], pa.Table]
) -> dict[str, tuple[set[str], pa.Table]]:
    """View id → the sinks that begin, and what the view held before this batch, as insertions."""
    found = {}
    for view in views:
        new = beginning(view.sinks, known) if view.sinks else set()
        if new:
            found[view.id] = new, take(view)
    return found
