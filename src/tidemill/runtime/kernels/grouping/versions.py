"""Sums of groups from one change to the next, over changes in the order of time."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def run_in_time(chosen, group, time, diff, adds, held, held_n, held_sums, last, key, at, before, n, sums):
    """Versions v = 0, 1, …: from time at[v] on, group key[v] has n[v] rows and the sums sums[v].

    `chosen` lists changes by rising time: change i adds diff[i] rows and adds[i] to group group[i]. What is stored of a
    group may be in several pieces; together they are its first version, and these come before all others. before[v] is
    the version that v replaces, -1 for none. `last` has -1 for each group before, and its last version afterwards. Sums
    must fit a word. Returns (how many versions are stored, how many there are). O(pieces + changes).
    """
    width, count = adds.shape[1], 0
    for i in range(held.shape[0]):
        v = last[held[i]]
        if v < 0:
            v = count
            count += 1
            last[held[i]] = v
            key[v], at[v], before[v], n[v] = held[i], 0, -1, 0
            for a in range(width):
                sums[v, a] = 0
        n[v] += held_n[i]
        for a in range(width):
            sums[v, a] += held_sums[i, a]
    stored = count
    for i in chosen:
        v = last[group[i]]
        if v < stored or at[v] != time[i]:
            w = count
            count += 1
            last[group[i]] = w
            key[w], at[w], before[w] = group[i], time[i], v
            n[w] = n[v] if v >= 0 else 0
            for a in range(width):
                sums[w, a] = sums[v, a] if v >= 0 else 0
            v = w
        n[v] += diff[i]
        for a in range(width):
            sums[v, a] += adds[i, a]
    return stored, count


@njit(cache=True, nogil=True)
def show_versions(stored, key, at, before, n, sums, part, guard, place, width, group, when, diff, words, null):
    """The changes −old +new of answers that are counts and sums: change c is diff[c] rows of group group[c] at when[c].

    Answer a is sums[v, part[a]], or n[v] where part[a] is -1; NULL where sums[v, guard[a]] is zero (-1: never), and
    then null[a, c], false before, is true. It is the word words[place[a] + width[a] * c]; where its width is 2 the high
    word follows. There is room for two changes of each version. Returns how many changes there are.
    O(versions · answers).
    """
    changes = 0
    for v in range(stored, at.shape[0]):
        b = before[v]
        live, was = n[v] > 0, b >= 0 and n[b] > 0
        if live and was and _same_answers(v, b, n, sums, part, guard):
            continue
        for x, sign in ((b, -1), (v, 1)):
            if was if sign < 0 else live:
                group[changes], when[changes], diff[changes] = key[v], at[v], sign
                for a in range(part.shape[0]):
                    value = n[x] if part[a] < 0 else sums[x, part[a]]
                    w = place[a] + width[a] * changes
                    words[w] = value
                    if width[a] == 2:
                        words[w + 1] = value >> 63
                    if guard[a] >= 0 and sums[x, guard[a]] == 0:
                        null[a, changes] = True
                changes += 1
    return changes


@njit(nogil=True)
def _same_answers(v, b, n, sums, part, guard):
    for a in range(part.shape[0]):
        if guard[a] >= 0 and (sums[v, guard[a]] == 0 or sums[b, guard[a]] == 0):
            if sums[v, guard[a]] != sums[b, guard[a]]:
                return False
        elif part[a] < 0:
            if n[v] != n[b]:
                return False
        elif sums[v, part[a]] != sums[b, part[a]]:
            return False
    return True
