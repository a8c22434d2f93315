"""Least values of panes that end at different times: a stack for each group and value.

Fragments come in the order of their times. A stack has (start of a fragment, least value in it) from the latest
fragment down to earlier ones, without those that a later and not greater value makes useless: so values fall on the way
down, and the least value since a time is the last one on the way that is not earlier.

    latest ──► (50 s, 9) ──► (40 s, 7) ──► (10 s, 2)        since 45 s: 9    since 20 s: 7    since 0 s: 2

Greatest values are least ones of ~value. Nodes of all stacks are in one pool; node 0 ends every stack.

`push_least` takes its 14 arguments one by one: as a NamedTuple of arrays they take 7 µs instead of 2 µs to unpack at
each call, more than the call itself often takes.
"""

from __future__ import annotations

import numpy as np
from numba import int8, int32, int64, types

from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.intercede_rows import MOST

FREE, USED, TAKEN = 0, 1, 2  # of `pool`: first free node, nodes that were ever taken, nodes that are in stacks
at = np.uintp

_INTS = int64[::1]
_CODES = int32[::1]
_ROWS = int64[:, ::1]


@compiled(
    types.void(
        _CODES, int64, _ROWS, int64, int64, _ROWS, _INTS, _ROWS, int64, int32[:, ::1], _INTS, _INTS, _CODES, _INTS
    )
)
def push_least(
    changed, n_changed, sums, parts, n_sums, stretches, bounds, wanted, time, heads, times, least, below, pool
):
    """Put the least values of the fragment that began at `time` on the stacks of the groups that changed; clear them.

    wanted[k] = (value, number among the parts that do not add up) of stack heads[k, group]; a value has stretches of
    classes as in `refresh_values`. Needs room for a node for each stack.
    O(groups that changed · stacks · classes), amortised.
    """
    classes = sums.shape[1] // parts - 1
    for i in range(n_changed):
        g = changed[i]
        own = sums[g]
        for k in range(wanted.shape[0]):
            value, part = wanted[k, 0], n_sums + wanted[k, 1]
            found = np.int64(MOST)
            for s in range(bounds[value], bounds[value + 1]):
                for c in range(stretches[s, 0], stretches[s, 1]):
                    found = min(found, own[c * parts + part])
            if found == MOST:
                continue
            top = heads[k, g]
            while top and least[top] >= found:
                rest = below[top]
                below[top], pool[FREE] = pool[FREE], top
                pool[TAKEN] -= 1
                top = rest
            node = pool[FREE]
            if node:
                pool[FREE] = below[node]
            else:
                node = pool[USED]
                pool[USED] += 1
            pool[TAKEN] += 1
            times[node], least[node], below[node] = time, found, top
            heads[k, g] = node
        for c in range(classes + 1):
            for p in range(n_sums, parts):
                own[c * parts + p] = MOST


@compiled(types.void(_CODES, _INTS, _INTS, _CODES, int64, int8[::1], _CODES, int64, _INTS))
def gather_least(heads, times, least, below, since, truths, coarser, count, out):
    """out[coarser[g]] = the least of itself and what stack heads[g] has since a time, for the groups g < `count` that
    pass truths[g], all of them where there are no truths. O(groups + nodes since then).
    """
    for g in range(count):
        node = heads[at(g)]
        if not node or times[at(node)] < since or (truths.shape[0] and not truths[at(g)]):
            continue
        found = least[at(node)]
        node = below[at(node)]
        while node and times[at(node)] >= since:
            found = least[at(node)]
            node = below[at(node)]
        if found < out[at(coarser[at(g)])]:
            out[at(coarser[at(g)])] = found


@compiled(types.void(int32[:, ::1], int64, _INTS, _INTS, _CODES, _INTS))
def cut_stacks(heads, count, since, times, below, pool):
    """Free the nodes of stacks heads[k] that are earlier than since[k]. O(nodes)."""
    for k in range(heads.shape[0]):
        for g in range(count):
            last, node = np.int32(0), heads[k, g]
            while node and times[node] >= since[k]:
                last, node = node, below[node]
            if last:
                below[last] = 0
            else:
                heads[k, g] = 0
            while node:
                rest = below[node]
                below[node], pool[FREE] = pool[FREE], node
                pool[TAKEN] -= 1
                node = rest
