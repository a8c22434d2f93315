"""Fragments of rows: between which two edges each event time lies."""

from __future__ import annotations

import numpy as np
from numba import njit

STRETCH = 4096  # times that are compared before a look whether any fell: the loop inside has no branch


@njit(cache=True, nogil=True)
def fragment_runs(times, slides, phases, begins, starts):
    """Neighbouring rows of one fragment as runs: begins[k] is a run's first row, starts[k] its fragment's start;
    returns the number of runs.

    The edges are all e with e ≡ phases[c] (mod slides[c]) for some c; a fragment starts at the last edge at or before
    the time. Needs room for len(times) runs and slides > 0. O(rows + runs · classes).
    """
    runs, start, end = 0, np.int64(1), np.int64(0)
    for i in range(len(times)):
        time = times[i]
        if start <= time < end:
            continue
        start = time - (time - phases[0]) % slides[0]
        end = start + slides[0]
        for c in range(1, len(slides)):
            edge = time - (time - phases[c]) % slides[c]
            start = max(start, edge)
            end = min(end, edge + slides[c])
        begins[runs] = i
        starts[runs] = start
        runs += 1
    return runs


@njit(cache=True, nogil=True)
def ascending(times):
    """True when no time is less than the one before. O(rows), less where that is not so: a stretch at a time."""
    for low in range(0, len(times) - 1, STRETCH):
        before, steps_back = times[low : low + STRETCH + 1], 0
        after = before[1:]
        for i in range(len(after)):
            steps_back += after[i] < before[i]
        if steps_back:
            return False
    return True


@njit(cache=True, nogil=True)
def floor_edges(times, slides, phases, out):
    """out[i] = the last edge at or before times[i]. O(times · classes)."""
    for i in range(len(times)):
        start = times[i] - (times[i] - phases[0]) % slides[0]
        for c in range(1, len(slides)):
            start = max(start, times[i] - (times[i] - phases[c]) % slides[c])
        out[i] = start
