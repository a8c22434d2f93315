"""Running totals in the place of hash tables, where many queries share one raw relation and rows come in order.

A table that forgets groups saves memory, and pays for it with every entry that it evicts: each of them becomes part of
the cells of a thousand queries. Where the groups of a share fit into memory, none need be forgotten, and what a query
sees of a row is left until one of its panes ends (`kernels.intercede_running`). The first rows of a share only become
entries as tables would evict them: a small share is done by the tables, which send less then.

Whatever does not fit (rows out of order, too many groups, more cells than rows) goes on with the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidemill.runtime import predicates
from tidemill.runtime.intercede import Interceded
from tidemill.runtime.kernels.edges import ascending, floor_edges
from tidemill.runtime.kernels.intercede_running import (
    NARROW,
    ONES,
    floors,
    fold_rows,
    number_records,
    reap,
    spill,
)
from tidemill.runtime.running_layout import Layout, Leaf

_ENOUGH = 1 << 20  # rows of a share from which on it is worth to know every group
_SELDOM = 2  # so many rows for each entry, at least
_CELLS = 4  # so many cells for each row that was seen when it is decided, at most
_FIRST = 1 << 10  # groups of a leaf for which there is room at first


class Entry(NamedTuple):
    """Entries of one fragment as a table would evict them: groups, classes, and parts[entry, part]."""

    start: int
    groups: np.ndarray
    classes: np.ndarray
    parts: np.ndarray


class Entries(NamedTuple):
    """Entries of several fragments as rows: starts, attributes, truth of each predicate, parts."""

    starts: np.ndarray
    attributes: list[np.ndarray]
    truths: list[np.ndarray]
    parts: list[np.ndarray]


class Running:
    """The running totals of one reader's share."""

    def __init__(self, layout: Layout, parts: int, counter: int) -> None:
        """`parts` sums for each row, of which number `counter` counts rows."""
        self.layout, self.parts, self.counter = layout, parts, counter
        self.rows = self.spilled = self.looked = 0
        self.latest = np.iinfo(np.int64).min
        self.sizes: list[int] | None = None
        self.weary = False  # it is not worth it
        self.log: list[Entry] | None = []  # until there are enough rows
        self.reaped: list[list[tuple[int, int, np.ndarray, np.ndarray]]] = [[] for _ in layout.leaves]
        self.made: list[tuple[int, Interceded]] = []  # cells by relation
        self.made_cells = self.since = 0  # all cells that were made; rows when it began anew
        self.kept = 0  # cells that wait to be taken
        self.panes = np.empty(layout.queries, np.int64)
        self.start, self.end = 0, np.iinfo(np.int64).min
        self.room = np.empty(0, np.int32), np.empty((0, parts), np.int64)
        self._clear()

    def _clear(self) -> None:
        """No groups, no totals. Memory is taken where it is written first."""
        layout, parts = self.layout, self.parts
        self.capacity = capacity = layout.capacity(parts)
        classes = layout.verdicts.wanted.shape[1]
        slots = 1 << (2 * capacity - 1).bit_length()
        self.slots = np.full(slots, -1, np.int32)
        self.keys: np.ndarray | None = None
        self.groups = self.known = 0  # groups, and those that the leaves know
        self.sums = np.zeros((capacity, classes * parts), np.int64)
        self.met, self.count_met = np.empty(capacity, np.int32), 0
        self.marked = np.zeros(capacity, np.bool_)
        self.truths = np.zeros((capacity, len(layout.verdicts.programs)), np.int64)
        self.coarser = np.zeros((len(layout.leaves), capacity), np.int32)
        widths = np.array([leaf.width * parts for leaf in layout.leaves], np.int64)
        self.widths, self.firsts = widths, np.concatenate(([0], np.cumsum(widths * capacity)))[:-1]
        self.totals = np.zeros(int(widths.sum()) * capacity, np.int64)
        # Totals at the end of a query's last pane are kept from its first one on; row 0 is for queries without any.
        self.before = [np.zeros((1, _FIRST * parts), np.int64) for _ in layout.leaves]
        self.kept_in = np.zeros(layout.queries, np.int64)
        self.rows_used = [1] * len(layout.leaves)
        flat = [s for leaf in layout.leaves for s in leaf.stretches]
        self.stretches = np.array(flat, np.int64).reshape(-1, 3) * parts
        self.bounds = np.concatenate(([0], np.cumsum([len(leaf.stretches) for leaf in layout.leaves])))
        self.members = [np.empty(capacity, np.int32) for _ in layout.leaves]
        self.leaf_slots = [np.full(slots, -1, np.int32) for _ in layout.leaves]
        self.leaf_keys = [np.empty((capacity, len(leaf.picks)), np.int64) for leaf in layout.leaves]
        self.leaf_groups = [0] * len(layout.leaves)

    # ---- in ------------------------------------------------------------------------------------

    def takes(self, times: np.ndarray, attributes: Sequence[np.ndarray], columns: Mapping[str, np.ndarray]) -> bool:
        """True when these rows come after those before, and their values are where they are looked for."""
        sizes = [a.itemsize for a in attributes]
        return (
            not self.weary and (self.sizes is None or self.sizes == sizes)
            and self.layout.verdicts.cuts.keys() <= columns.keys()
            and int(times[0]) >= self.latest and ascending(times)
        )

    def push(self, times: np.ndarray, attributes: Sequence[np.ndarray], columns: Mapping[str, np.ndarray],
             ints: Sequence[np.ndarray | None]) -> int:
        """Take rows in; how many, before it was not worth it any more. `attributes` are those of the raw relation,
        `ints` its parts; None is a column of ones.
        """
        rows = len(times)
        if self.sizes is None:
            self.sizes = [a.itemsize for a in attributes]
            self.pairs = _pairs(self.sizes)
        order = [a for pair in self.pairs.tolist() for a in pair if a >= 0]
        given = [_readable(c) for c in (*(attributes[a] for a in order), *ints)]
        addresses = np.array([0 if c is None else c.__array_interface__["data"][0] for c in given], np.int64)
        sizes = np.array([ONES if c is None else c.itemsize for c in given], np.int64)
        place = np.cumsum([0, *((self.pairs >= 0).sum(axis=1))])[:-1]
        pairs = np.stack([place, np.where(self.pairs[:, 1] >= 0, place + 1, -1)], axis=1)
        classes = self.layout.verdicts.classes(columns, rows)
        if self.keys is None:
            self.keys = np.empty((self.capacity, len(pairs)), np.int64)
        done = 0
        while done < rows:
            if int(times[done]) >= self.end:
                self._turn(int(times[done]))
            stop = int(np.searchsorted(times, self.end)) if int(times[-1]) >= self.end else rows
            begun = done
            done, self.groups, self.count_met = fold_rows(
                addresses, sizes, pairs, classes, done, stop, self.slots, self.keys, self.groups, self.sums, self.met,
                self.count_met, self.marked)
            self.rows += done - begun
            if done < stop:
                self._restart()
                if self.weary:
                    return done
                self.keys = np.empty((self.capacity, len(pairs)), np.int64)
        self.latest = int(times[-1])
        if self.log is not None and self.rows >= _ENOUGH:
            self._decide()
        return rows

    def _turn(self, time: int) -> None:
        """The fragment of this time begins: what was before is spilled, and panes that ended are reaped."""
        if self.count_met:
            self._close()
        finest = self.layout.finest
        start = np.empty(1, np.int64)
        floor_edges(np.array([time]), *finest, start)
        self.start = int(start[0])
        self.end = int((time - (time - finest[1]) % finest[0] + finest[0]).min())
        if self.log is None:
            self._reap(self.start)

    def _close(self) -> None:
        """The fragment under way has ended."""
        if self.log is None:
            self._spill()
            return
        met = np.sort(self.met[:self.count_met])
        parts = self.sums[met].reshape(len(met), -1, self.parts)
        group, found = np.nonzero(parts[:, :, self.counter])
        self.log.append(Entry(self.start, met[group], found, parts[group, found]))
        self.sums[met], self.marked[met], self.count_met = 0, False, 0

    def _spill(self) -> None:
        self._know()
        self.spilled += self.count_met
        spill(self.met, self.count_met, self.marked, self.sums, self.layout.verdicts.wanted, self.truths, self.coarser,
              self.firsts, self.widths, self.bounds, self.stretches, self.parts, self.totals)
        self.count_met = 0

    def _know(self) -> None:
        """Groups that are new get their truths, and their groups in every leaf."""
        if self.known == self.groups:
            return
        fresh = slice(self.known, self.groups)
        values = self._attributes(fresh)
        columns = dict(zip(self.layout.columns, values, strict=True))
        for k, program in enumerate(self.layout.verdicts.programs):
            self.truths[fresh, k] = -predicates.evaluate(program, columns).astype(np.int64)
        for i, leaf in enumerate(self.layout.leaves):
            records = np.ascontiguousarray(values[leaf.picks])
            before, numbers = self.leaf_groups[i], np.empty(records.shape[1], np.int32)
            _, count = number_records(records, self.leaf_slots[i], self.leaf_keys[i], before, numbers)
            # The last of several is as good as the first: they agree in all that the leaf looks at.
            self.members[i][numbers] = np.arange(fresh.start, fresh.stop, dtype=np.int32)
            self.coarser[i, fresh], self.leaf_groups[i] = numbers, count
        self.known = self.groups

    def _attributes(self, groups: slice | np.ndarray) -> np.ndarray:
        """The attributes of groups, int64[attributes, groups]."""
        assert self.keys is not None
        words = self.keys[groups].T
        found = np.empty((len(self.layout.columns), words.shape[1]), np.int64)
        for word, (a, b) in zip(words, self.pairs.tolist(), strict=True):
            found[a] = word if b < 0 else word >> 32
            if b >= 0:
                found[b] = word.astype(np.int32)
        return found

    # ---- out -----------------------------------------------------------------------------------

    def _reap(self, time: int | None) -> None:
        """The cells of queries whose panes end before this time; of all queries if there is none."""
        panes = np.empty_like(self.panes)
        if time is not None:
            floors(time, *self.layout.edges, panes)
        due = np.ones(len(panes), bool) if time is None else panes != self.panes
        for i, leaf in enumerate(self.layout.leaves):
            mine = np.flatnonzero(due[leaf.first:leaf.first + len(leaf.places)])
            if len(mine):
                self._reap_leaf(i, leaf, mine, goes_on=time is not None)
        if time is not None:
            self.panes = panes

    def _reap_leaf(self, i: int, leaf: Leaf, mine: np.ndarray, goes_on: bool) -> None:
        """The cells of some queries of a leaf; their totals are kept if they will have more."""
        count = self.leaf_groups[i]
        self._make_room(i, leaf.first + mine if goes_on else mine[:0])
        self.looked += len(mine) * count
        if len(self.room[0]) < (most := len(mine) * count):
            self.room = np.empty(2 * most, np.int32), np.empty((2 * most, self.parts), np.int64)
        groups, parts = self.room
        ends = np.zeros(len(mine), np.int64)
        found = reap(self.kept_in[leaf.first + mine], goes_on, leaf.places[mine] * self.parts, leaf.tests[mine],
                     self.firsts[i], self.widths[i], self.members[i], self.truths, count, self.totals, self.before[i],
                     self.counter, groups, parts, ends)
        if not found:
            return
        groups, parts, low = groups[:found].copy(), parts[:found].copy(), 0
        for query, end in zip(mine.tolist(), ends.tolist(), strict=True):
            if end > low:
                start = int(self.panes[leaf.first + query])
                self.reaped[i].append((start, query, groups[low:end], parts[low:end]))
            low = end
        self.kept += found

    def _make_room(self, i: int, queries: np.ndarray) -> None:
        """For the totals of these queries, and of all groups that a leaf has now."""
        fresh = queries[self.kept_in[queries] == 0]
        self.kept_in[fresh] = self.rows_used[i] + np.arange(len(fresh))
        self.rows_used[i] += len(fresh)
        rows, width = self.before[i].shape
        if self.rows_used[i] > rows or self.leaf_groups[i] * self.parts > width:
            rows = max(rows, 2 * self.rows_used[i]) if self.rows_used[i] > rows else rows
            width = max(width, self.leaf_groups[i] * self.parts * 5 // 4)
            larger = np.zeros((rows, width), np.int64)
            larger[:len(self.before[i]), :self.before[i].shape[1]] = self.before[i]
            self.before[i] = larger

    def _decide(self) -> None:
        """There are enough rows to see whether running totals pay; if so the log goes into them."""
        log = self.log or []
        entries = sum(len(entry.groups) for entry in log)
        self._know()
        cells = sum(self.leaf_groups[i] * len(leaf.places) for i, leaf in enumerate(self.layout.leaves))
        if entries * _SELDOM > self.rows or cells > _CELLS * self.rows:
            self.weary = True
            return
        now = self.met[:self.count_met].copy(), self.sums[self.met[:self.count_met]], self.start
        self.sums[now[0]], self.marked[now[0]] = 0, False
        self.log = None
        floors(log[0].start if log else self.start, *self.layout.edges, self.panes)
        for entry in log:
            self._reap(entry.start)
            met = np.unique(entry.groups)
            self.met[:len(met)], self.count_met = met, len(met)
            self.sums.reshape(len(self.sums), -1, self.parts)[entry.groups, entry.classes] = entry.parts
            self._spill()
        self._reap(now[2])
        self.met[:len(now[0])], self.count_met = now[0], len(now[0])
        self.sums[now[0]], self.marked[now[0]] = now[1], True

    def _restart(self) -> None:
        """There is no room for another group: all that is known leaves, if running totals pay at all."""
        if self.log is not None:
            self._decide()
        if self.log is None:
            before = self.made_cells
            self._finish()
            self.weary = self.made_cells - before > self.rows - self.since
            self.since = self.rows
            self._clear()

    def _finish(self) -> None:
        """All that is known becomes cells."""
        self._spill()
        self._reap(None)
        self._gather()

    def take(self) -> list[tuple[int, Interceded]]:
        """The cells of panes that have ended since the last time, by relation."""
        self._gather()
        made, self.made, self.kept = self.made, [], 0
        return made

    def finish(self) -> list[tuple[int, Interceded]]:
        """The same of all panes: the share ends here. Nothing while entries are few: `entries` has them."""
        if self.log is not None:
            return []
        self._finish()
        return self.take()

    def entries(self) -> Entries | None:
        """What tables would have evicted, until there were enough rows; None where it became cells."""
        if self.log is None:
            return None
        self._close()
        self._know()
        log, verdicts = self.log, self.layout.verdicts
        starts = np.repeat([e.start for e in log], [len(e.groups) for e in log]).astype(np.int64)
        groups, classes = (np.concatenate([np.empty(0, np.int64), *found]).astype(np.int64)
                           for found in ([e.groups for e in log], [e.classes for e in log]))
        parts = np.concatenate([np.empty((0, self.parts), np.int64), *(e.parts for e in log)])
        truths = {p: verdicts.wanted[n][classes] for p, n in verdicts.rows.items()}
        truths |= {p: self.truths[groups, n] != 0 for p, n in verdicts.groups.items()}
        attributes = self._attributes(groups) if self.keys is not None else np.empty((len(self.layout.columns), 0))
        return Entries(starts, list(attributes), [truths[p] for p in range(len(truths))],
                       [np.ascontiguousarray(column) for column in parts.T])

    def _gather(self) -> None:
        """What was reaped as cells, in the order of their panes' starts."""
        for i, leaf in enumerate(self.layout.leaves):
            if not self.reaped[i]:
                continue
            pieces = sorted(self.reaped[i], key=lambda piece: piece[0])
            self.reaped[i] = []
            starts, queries = (np.array([p[k] for p in pieces], np.int64) for k in (0, 1))
            pane = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(p[2]) for p in pieces])
            groups = np.concatenate([p[2] for p in pieces])
            attrs = self.leaf_keys[i][:self.leaf_groups[i]].T[:, groups]
            ints = np.ascontiguousarray(np.concatenate([p[3] for p in pieces]).T)
            cells = Interceded((queries, starts), pane, attrs, ints, np.empty((0, len(groups))))
            self.made.append((leaf.relation, cells))
            self.made_cells += len(pane)


def _pairs(sizes: Sequence[int]) -> np.ndarray:
    """The one or two columns of each word of a key: narrow ones share a word.

    >>> _pairs([4, 8, 4, 4]).tolist()
    [[0, 2], [3, -1], [1, -1]]
    """
    narrow = [i for i, size in enumerate(sizes) if size == NARROW]
    words = [(narrow[i], narrow[i + 1] if i + 1 < len(narrow) else -1) for i in range(0, len(narrow), 2)]
    return np.array(words + [(i, -1) for i, size in enumerate(sizes) if size != NARROW], np.int64).reshape(-1, 2)


def _readable(column: np.ndarray | None) -> np.ndarray | None:
    """A column as the loops read it: int32 as it is, everything else as int64."""
    if column is None:
        return None
    return np.ascontiguousarray(column, None if column.dtype == np.int32 else np.int64)
