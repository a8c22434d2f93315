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

from tidemill.runtime.intercede import Interceded
from tidemill.runtime.kernels.edges import ascending, floor_edges
from tidemill.runtime.kernels.intercede_rows import ONES, fold_rows
from tidemill.runtime.kernels.intercede_running import floors, reap, settle
from tidemill.runtime.running_groups import Groups
from tidemill.runtime.running_layout import Layout, Leaf
from tidemill.runtime.thresholds import sizes

_NONE = np.empty(0, np.int64)


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


class Piece(NamedTuple):
    """The cells of one pane of one query: groups of its leaf, and parts[part, cell]."""

    start: int
    query: int
    groups: np.ndarray
    parts: np.ndarray


class Running:
    """The running totals of one reader's share."""

    def __init__(self, layout: Layout, parts: int, counter: int) -> None:
        """`parts` sums for each row, of which number `counter` counts rows."""
        self.layout, self.parts, self.counter = layout, parts, counter
        self.rows = self.spilled = 0  # rows, and groups of fragments that had some
        self.latest = np.iinfo(np.int64).min
        self.sizes: list[int] | None = None
        self.weary = False  # it is not worth it
        self.log: list[Entry] | None = []  # until there are enough rows
        self.reaped: list[list[Piece]] = [[] for _ in layout.leaves]
        self.made: list[tuple[int, Interceded]] = []  # cells by relation
        self.made_cells = self.since = 0  # all cells that were made; rows when it began anew
        self.kept = 0  # cells that wait to be taken
        self.room, self.used = _room(0, parts), 0  # where cells are written, and how many are there
        self.panes = np.empty(layout.queries, np.int64)
        self.start, self.end = 0, np.iinfo(np.int64).min

    def _clear(self, widths: Sequence[int]) -> None:
        """No groups, no sums. Memory is taken where it is written first."""
        layout, parts = self.layout, self.parts
        capacity = layout.capacity(parts)
        self.groups = Groups(layout, capacity, widths)
        self.sums = np.zeros((capacity, layout.classes * parts), np.int64)
        self.values = np.zeros((len(layout.values[1]) - 1, capacity, parts), np.int64)
        self.before = [_NONE] * layout.queries  # totals at the end of each query's last pane
        # Which groups have rows in a fragment matters as long as it is logged.
        self.met, self.count_met = np.empty(0 if self.log is None else capacity, np.int32), 0
        self.marked = np.zeros(len(self.met), np.bool_)
        self.scratch = np.empty(0, np.int64)

    # ---- in ------------------------------------------------------------------------------------

    def takes(self, times: np.ndarray, attributes: Sequence[np.ndarray], columns: Mapping[str, np.ndarray]) -> bool:
        """True when these rows come after those before, and their values are where they are looked for."""
        widths = [a.itemsize for a in attributes]
        return (
            not self.weary and (self.sizes is None or self.sizes == widths)
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
            self._clear(self.sizes)
        pairs = self.groups.pairs
        order = [a for pair in pairs.tolist() for a in pair if a >= 0]
        given = [_readable(c) for c in (*(attributes[a] for a in order), *ints)]
        addresses = np.array([0 if c is None else c.__array_interface__["data"][0] for c in given], np.int64)
        widths = np.array([ONES if c is None else c.itemsize for c in given], np.int64)
        place = np.cumsum([0, *((pairs >= 0).sum(axis=1))])[:-1]
        pairs = np.stack([place, np.where(pairs[:, 1] >= 0, place + 1, -1)], axis=1)
        classes = self.layout.verdicts.classes(columns, rows)
        done = 0
        while done < rows:
            if int(times[done]) >= self.end:
                self._turn(int(times[done]))
            stop = int(np.searchsorted(times, self.end)) if int(times[-1]) >= self.end else rows
            begun, groups = done, self.groups
            done, groups.count, self.count_met = fold_rows(
                addresses, widths, pairs, classes, done, stop, groups.slots, groups.keys, groups.count, self.sums,
                self.met, self.count_met, self.marked)
            self.rows += done - begun
            if done < stop:
                self._restart()
                if self.weary:
                    return done
        self.latest = int(times[-1])
        if self.log is not None and self.rows >= sizes.running_rows:
            self._decide()
        return rows

    def _turn(self, time: int) -> None:
        """The fragment of this time begins: the one before is logged, or panes that ended are reaped."""
        if self.log is not None:
            self._log()
        finest = self.layout.finest
        start = np.empty(1, np.int64)
        floor_edges(np.array([time]), *finest, start)
        self.start = int(start[0])
        self.end = int((time - (time - finest[1]) % finest[0] + finest[0]).min())
        if self.log is None:
            self._reap(self.start)

    # ---- the first rows ------------------------------------------------------------------------

    def _log(self) -> None:
        """The fragment under way has ended."""
        assert self.log is not None
        if self.count_met:
            self.log.append(self._entry())

    def _entry(self) -> Entry:
        """What there is of the fragment under way, which begins anew."""
        met = np.sort(self.met[:self.count_met])
        parts = self.sums[met].reshape(len(met), self.layout.classes, self.parts)
        group, found = np.nonzero(parts[:, :, self.counter])
        self.sums[met], self.marked[met], self.count_met = 0, False, 0
        return Entry(self.start, met[group], found, parts[group, found])

    def _decide(self) -> None:
        """There are enough rows to see whether running totals pay; if so the log goes into them."""
        log = self.log or []
        entries = sum(len(entry.groups) for entry in log)
        cells = sum(self.groups.leaf(i).count * len(leaf.values) for i, leaf in enumerate(self.layout.leaves))
        looks = self._panes([entry.start for entry in log]) * self.groups.count
        if (entries * sizes.running_rows_an_entry > self.rows or cells > sizes.running_cells_a_row * self.rows
                or looks > sizes.running_looks_a_row * self.rows):
            self.weary = True
            return
        log, self.log = [*log, self._entry()], None
        self.met, self.marked = self.met[:0], self.marked[:0]
        floors(log[0].start, *self.layout.edges, self.panes)
        sums = self.sums.reshape(len(self.sums), self.layout.classes, self.parts)
        for entry in log:
            self._reap(entry.start)
            sums[entry.groups, entry.classes] += entry.parts

    def _panes(self, starts: list[int]) -> int:
        """How many panes of all queries end between these starts of fragments."""
        found = np.empty((len(starts), self.layout.queries), np.int64)
        for start, edges in zip(starts, found, strict=True):
            floors(start, *self.layout.edges, edges)
        return int((found[1:] != found[:-1]).sum())

    def entries(self) -> Entries | None:
        """What tables would have evicted, until there were enough rows; None where it became cells."""
        if self.log is None:
            return None
        if self.sizes is None:
            self._clear([8] * len(self.layout.columns))
        self._log()
        log, verdicts = self.log, self.layout.verdicts
        starts = np.repeat([e.start for e in log], [len(e.groups) for e in log]).astype(np.int64)
        groups, classes = (np.concatenate([_NONE, *found]) for found in ([e.groups for e in log],
                                                                         [e.classes for e in log]))
        parts = np.concatenate([np.empty((0, self.parts), np.int64), *(e.parts for e in log)])
        truths = {p: verdicts.wanted[n][classes] for p, n in verdicts.rows.items()}
        truths |= {p: self.groups.truths(n)[groups] != 0 for p, n in verdicts.groups.items()}
        return Entries(starts, list(self.groups.attributes[:, groups]), [truths[p] for p in range(len(truths))],
                       [np.ascontiguousarray(column) for column in parts.T])

    # ---- out -----------------------------------------------------------------------------------

    def _reap(self, time: int | None) -> None:
        """The cells of queries whose panes end before this time; of all queries, for the last time, if there is none.
        """
        self.spilled += settle(self.sums, self.groups.count, self.counter, *self.layout.values, self.values)
        panes = np.empty_like(self.panes)
        if time is not None:
            floors(time, *self.layout.edges, panes)
        due = np.ones(len(panes), bool) if time is None else panes != self.panes
        for i, leaf in enumerate(self.layout.leaves):
            for query in np.flatnonzero(due[leaf.first:leaf.first + len(leaf.values)]).tolist():
                self._reap_one(i, leaf, query, goes_on=time is not None)
        if time is not None:
            self.panes = panes

    def _reap_one(self, i: int, leaf: Leaf, query: int, goes_on: bool) -> None:
        """The cells of one query of a leaf; its totals are kept if it will have more."""
        groups, test, number = self.groups.leaf(i), leaf.tests[query], leaf.first + query
        if len(self.room[0]) < self.used + groups.count:
            self.room, self.used = _room(max(sizes.running_room, groups.count), self.parts), 0
        own, parts = (array[..., self.used:] for array in self.room)
        totals = self._totals(groups.count * self.parts, goes_on)
        found = reap(self.values[leaf.values[query]], _NONE if test < 0 else self.groups.truths(test), groups.of,
                     self.groups.count, self.counter, self.before[number], totals, own, parts)
        if goes_on:
            self.before[number] = totals
        if found:
            self.reaped[i].append(Piece(int(self.panes[number]), query, own[:found], parts[:, :found]))
            self.used += found
            self.kept += found

    def _totals(self, size: int, kept: bool) -> np.ndarray:
        """Zeros. Totals that are not kept are all in the same place: memory that is new costs more than to clear it."""
        if kept:
            return np.zeros(size, np.int64)
        if len(self.scratch) < size:
            self.scratch = np.empty(size, np.int64)
        found = self.scratch[:size]
        found[:] = 0
        return found

    def _restart(self) -> None:
        """There is no room for another group: all that is known leaves, if running totals pay at all."""
        if self.log is not None:
            self._decide()
        if self.log is None:
            before = self.made_cells
            self._finish()
            self.weary = self.made_cells - before > self.rows - self.since
            self.since = self.rows
            self._clear(self.sizes or ())

    def _finish(self) -> None:
        """All that is known becomes cells."""
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

    def _gather(self) -> None:
        """What was reaped as cells, in the order of their panes' starts."""
        for i, leaf in enumerate(self.layout.leaves):
            if not self.reaped[i]:
                continue
            pieces = sorted(self.reaped[i], key=lambda piece: piece.start)
            self.reaped[i] = []
            panes = np.array([p.query for p in pieces]), np.array([p.start for p in pieces])
            pane = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(p.groups) for p in pieces])
            groups = np.concatenate([p.groups for p in pieces])
            ints = np.concatenate([p.parts for p in pieces], axis=1)
            attrs = self.groups.leaf(i).attributes(groups)
            self.made.append((leaf.relation, Interceded(panes, pane, attrs, ints, np.empty((0, len(groups))))))
            self.made_cells += len(pane)


def _room(cells: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """For the groups and the parts of cells."""
    return np.empty(cells, np.int32), np.empty((parts, cells), np.int64)


def _readable(column: np.ndarray | None) -> np.ndarray | None:
    """A column as the loops read it: int32 as it is, everything else as int64."""
    if column is None:
        return None
    return np.ascontiguousarray(column, None if column.dtype == np.int32 else np.int64)
