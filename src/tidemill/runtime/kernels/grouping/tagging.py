"""Which record of a key replaces which, over row numbers only: columns and their equality stay with the caller.

A row number of -1 is no row.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def walk_records(order, key, time, at, seq, gone, shown, step, last, old, new):
    """Steps s = 0, 1, …: at time[last[s]] record last[s] has put row new[s] in the place of row old[s].

    One step for each key and time; of several records there the one with the greatest (at, seq) counts, of equals
    the later in `order`. `order` lists the records by rising time; record i shows row i, or no row where gone[i].
    `shown[k]` is the row of key k before the walk, and afterwards the row behind it. `step[k]` is -1 before; `last`,
    `old` and `new` have room for a step of each record. Returns the number of steps. O(records).
    """
    steps = 0
    for i in order:
        k = key[i]
        s = step[k]
        if s < 0 or time[last[s]] != time[i]:
            s = steps
            steps += 1
            step[k] = s
            old[s] = shown[k]
        elif at[i] < at[last[s]] or (at[i] == at[last[s]] and seq[i] < seq[last[s]]):
            continue
        last[s] = i
        new[s] = shown[k] = -1 if gone[i] else i
    return steps


@njit(cache=True, nogil=True)
def tag_steps(old, new, turned, step, row, diff):
    """The changes −old[s] +new[s] of every step with turned[s]: of step step[j], diff[j] copies of row row[j].

    `step`, `row` and `diff` have room for two changes of each step. Returns the number of changes. O(steps).
    """
    changes = 0
    for s in range(old.shape[0]):
        if not turned[s]:
            continue
        for r, sign in ((old[s], -1), (new[s], 1)):
            if r >= 0:
                step[changes], row[changes], diff[changes] = s, r, sign
                changes += 1
    return changes
