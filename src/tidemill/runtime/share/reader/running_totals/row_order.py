"""Finds rows that are too far out of order for running totals."""

from __future__ import annotations

import numpy as np

from tidemill.runtime.kernels.share.edges import ascending, floor_edges
from tidemill.runtime.kernels.share.intercede import Edges
from tidemill.runtime.thresholds import sizes


def find_disorder(times: np.ndarray, latest: int, begun: int, edges: Edges) -> np.ndarray:
    """Rows to put aside so that no fragment comes again that has ended: the late ones or the early ones, whichever are
    fewer. `latest` is the greatest time so far, `begun` the start of the fragment under way.
    """
    if int(times[0]) >= latest and ascending(times):
        return np.empty(0, np.int64)
    late = _find_behind(times, np.maximum(np.maximum.accumulate(times), latest), edges)
    if len(late) * sizes.running_rows_in_order < len(times):
        return late
    old = times < begun
    after = np.minimum.accumulate(np.where(old, np.iinfo(np.int64).max, times)[::-1])[::-1]
    early = np.union1d(np.flatnonzero(old), _find_behind(after, times, edges))
    return early if len(early) < len(late) else late


def floor_times(times: np.ndarray, edges: Edges) -> np.ndarray:
    """Where the fragments of these times begin."""
    found = np.empty(len(times), np.int64)
    floor_edges(times, *edges, found)
    return found


def _find_behind(lower: np.ndarray, upper: np.ndarray, edges: Edges) -> np.ndarray:
    """Rows whose `lower` time lies in an earlier fragment than their `upper` time."""
    rows = np.flatnonzero(lower < upper)
    return rows[floor_times(lower[rows], edges) < floor_times(upper[rows], edges)]
