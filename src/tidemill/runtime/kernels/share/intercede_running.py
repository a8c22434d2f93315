"""Cells of many queries from running totals: a row is added once, a query is looked at when one of its panes ends.

Rows come in the order of their times. Every group of the finest relation has a number and a running sum for each
*class* of rows (rows of one class satisfy the same predicates). When a pane of a query ends, the sums of its predicate
are added up for its own, coarser groups; what that is more than at the end of the pane before are its cells. Least and
greatest values do not subtract: `kernels.share.intercede_extremes` has them.

    row ──► sums[group, class] ──► values[predicate, group] ──► totals[coarser group] − totals when the last pane ended
            each row               groups that changed          groups, for each query of which a pane ends

Law: the same cells as `kernels.share.intercede` makes of the rows; all arithmetic is modulo 2^64.
"""

from __future__ import annotations

import numpy as np
from numba import int8, int32, int64, njit, types

from tidemill.runtime.kernels.compiling.lazy import compiled

at = np.uintp  # an unsigned index saves the test for a negative one

_INTS = int64[::1]
_CODES = int32[::1]
_ROWS = int64[:, ::1]
_TRUTHS = int8[::1]


@compiled(int64(_ROWS, int64, int64, int64, _ROWS, _INTS, int64[:, :, ::1], _CODES))
def refresh_values(sums, count, parts, counter, stretches, bounds, values, changed):
    """Bring the values of the first `count` groups up to date; how many groups have changed since the last time, whose
    numbers are then in `changed`.

    sums[g] has `parts` numbers for each class, and for one more class that is not read. values[v, g] are those that
    add up, over all the classes of value v: the stretches [bounds[v], bounds[v + 1]) of `stretches`, (first class,
    class behind the last). Value 0 are all classes; its number `counter` counts rows and so tells whether there are new
    ones.
    O(groups · classes + groups that changed · stretches).
    """
    own_parts = values.shape[2]
    classes = sums.shape[1] // max(parts, 1) - 1
    before = np.zeros((classes + 1) * own_parts, np.int64)  # the sums of all classes before each one
    found = 0
    for g in range(count):
        own, rows = sums[g], np.int64(0)
        for c in range(classes):
            rows += own[c * parts + counter]
        if rows == values[0, g, counter]:
            continue
        for c in range(classes):
            for p in range(own_parts):
                before[(c + 1) * own_parts + p] = before[c * own_parts + p] + own[c * parts + p]
        changed[found] = g
        found += 1
        for v in range(values.shape[0]):
            for p in range(own_parts):
                total = np.int64(0)
                for s in range(bounds[v], bounds[v + 1]):
                    total += before[stretches[s, 1] * own_parts + p] - before[stretches[s, 0] * own_parts + p]
                values[v, g, p] = total
    return found


@compiled(types.void(int64, _INTS, _INTS, _INTS, _INTS))
def floors(time, slides, phases, bounds, out):
    """out[q] = the last edge of query q at or before the time; its classes are [bounds[q], bounds[q + 1])."""
    for q in range(out.shape[0]):
        edge = time - (time - phases[bounds[q]]) % slides[bounds[q]]
        for c in range(bounds[q] + 1, bounds[q + 1]):
            edge = max(edge, time - (time - phases[c]) % slides[c])
        out[q] = edge


def _gather_loop(fixed: int):
    """The totals of coarser groups with `fixed` parts (-1: any number)."""

    @njit(nogil=True)
    def gather(values, coarser, count, totals):
        parts = values.shape[1] if fixed < 0 else fixed
        for g in range(count):
            place = at(coarser[at(g)]) * at(parts)
            for p in range(parts):
                totals[place + at(p)] += values[at(g), at(p)]

    @njit(nogil=True)
    def gather_some(values, truths, coarser, count, totals):
        parts = values.shape[1] if fixed < 0 else fixed
        for g in range(count):
            place, truth = at(coarser[at(g)]) * at(parts), truths[at(g)]
            for p in range(parts):
                totals[place + at(p)] += values[at(g), at(p)] & np.int64(truth)

    return gather, gather_some


(_gather_any, _gather_some_any), (_gather_1, _gather_some_1), (_gather_2, _gather_some_2) = (
    _gather_loop(fixed) for fixed in (-1, 1, 2)
)


@compiled(types.void(_ROWS, _TRUTHS, _CODES, int64, _INTS))
def gather(values, truths, coarser, count, totals):
    """totals[coarser[g]] += values[g] of the groups g < `count` that pass truths[g] (0 or -1), of all of them where
    there are no truths. O(groups).
    """
    parts = values.shape[1]
    if truths.shape[0] == 0:
        if parts == 1:
            _gather_1(values, coarser, count, totals)
        elif parts == 2:
            _gather_2(values, coarser, count, totals)
        else:
            _gather_any(values, coarser, count, totals)
    elif parts == 1:
        _gather_some_1(values, truths, coarser, count, totals)
    elif parts == 2:
        _gather_some_2(values, truths, coarser, count, totals)
    else:
        _gather_some_any(values, truths, coarser, count, totals)


@compiled(int64(_INTS, _INTS, int64, int64, _CODES, int64[:, :]))
def emit_pane(before, totals, parts, counter, out_group, out):
    """The cells of a query of which a pane ends: (group, parts) of its groups that have rows in it; how many.

    `totals` are those of now, `before` those when its last pane ended, of the groups that there were then. Part
    `counter` counts rows; part p of cell j is out[p, j]. O(groups).
    """
    old = before.shape[0] // max(parts, 1)
    found = 0
    for g in range(totals.shape[0] // max(parts, 1)):
        place = g * parts
        then = before[place + counter] if g < old else np.int64(0)
        if totals[place + counter] == then:
            continue
        out_group[found] = g
        for p in range(parts):
            out[p, found] = totals[place + p] - (before[place + p] if g < old else np.int64(0))
        found += 1
    return found
