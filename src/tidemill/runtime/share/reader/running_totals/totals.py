"""Running totals in the place of hash tables, where many queries share one raw relation and rows come in order.

A table that forgets groups saves memory, and pays for it with every entry that it evicts: each of them becomes part of
the cells of a thousand queries. Where the groups of a share fit into memory, none need be forgotten, and what a query
sees of a row is left until one of its panes ends (`kernels.share.intercede_running`). The first rows of a share only
become entries as tables would evict them: a small share is done by the tables, which send less then.

Rows that do not fit (those out of order, those on which an expression failed) are put aside for the tables, and where
running totals do not pay (too many groups, more cells than rows) all rows go on with the tables.

The fast path `running_totals`: queries get exactly the answers that hash tables give; rows and queries that do not fit
go through the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tidemill.runtime.kernels.share.intercede_rows import MOST, fold_rows
from tidemill.runtime.kernels.share.intercede_running import emit_pane, floors, gather, refresh_values
from tidemill.runtime.kernels.share.lfta_loops import GREATEST, SUM
from tidemill.runtime.share.reader.intercede import Interceded
from tidemill.runtime.share.reader.memory import Limits
from tidemill.runtime.share.reader.running_totals.entries import Entries, Entry, Piece
from tidemill.runtime.share.reader.running_totals.extremes import Extremes, nothing
from tidemill.runtime.share.reader.running_totals.groups import Groups
from tidemill.runtime.share.reader.running_totals.layout import Layout, Leaf
from tidemill.runtime.share.reader.running_totals.row_columns import RowColumns
from tidemill.runtime.share.reader.running_totals.row_order import find_disorder, floor_times
from tidemill.runtime.share.reader.running_totals.verdicts import Term
from tidemill.runtime.thresholds import sizes

_NONE, _EVERY = np.empty(0, np.int64), np.empty(0, np.int8)


class RunningTotals:
    """The running totals of one reader's share."""

    def __init__(
        self,
        layout: Layout,
        kinds: Sequence[int],
        counter: int,
        names: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        """Parts of these kinds (those that add up come first) and names for each row; number `counter` counts rows."""
        self.limits = limits or Limits.of(None, 1, 1)
        self.layout, self.parts, self.counter = layout, len(kinds), counter
        self.sums_of = sum(kind == SUM for kind in kinds)
        self.flips = np.array([-1 if kind == GREATEST else 0 for kind in kinds[self.sums_of :]], np.int64)
        self.extreme_names = list(names[self.sums_of :]) or [""] * len(self.flips)
        self.rows = self.spilled = 0  # rows, and groups of fragments that had some
        self.latest = np.iinfo(np.int64).min
        self.widths: list[int] | None = None
        self.disabled = False  # it is not worth it
        self.log: list[Entry] | None = []  # until there are enough rows
        self.emitted: list[list[Piece]] = [[] for _ in layout.leaves]
        self.made: list[tuple[int, Interceded]] = []  # cells by relation
        self.made_cells = self.since = 0  # all cells that were made; rows when it began anew
        self.kept = 0  # cells that wait to be taken
        self.room, self.used = _room(0, self.parts), 0  # where cells are written, and how many are there
        self.panes = np.empty(layout.queries, np.int64)
        self.start, self.end = 0, np.iinfo(np.int64).min

    def _clear(self, widths: Sequence[int]) -> None:
        """No groups, no sums. Memory is taken where it is written first."""
        layout = self.layout
        capacity = layout.capacity(self.sums_of, len(self.flips), self.limits.running or 0)
        self.groups = Groups(layout, capacity, widths)
        self.sums = np.zeros((capacity, (layout.classes + 1) * self.parts), np.int64)
        self.values = np.zeros((len(layout.values[1]) - 1, capacity, self.sums_of), np.int64)
        self.changed = np.empty(capacity, np.int32)
        self.before = [_NONE] * layout.queries  # totals at the end of each query's last pane
        self.extremes = None
        if len(self.flips):
            self.extremes = Extremes(layout.extremes(self.extreme_names), capacity, sizes.running_stacks)
        # Which groups have rows in a fragment matters as long as it is logged.
        self.met, self.count_met = np.empty(0 if self.log is None else capacity, np.int32), 0
        self.marked = np.zeros(len(self.met), np.bool_)
        self.scratch = np.empty(0, np.int64)

    # ---- in ------------------------------------------------------------------------------------

    def takes(self, attributes: Sequence[np.ndarray], columns: Mapping[str, np.ndarray]) -> bool:
        """True when values are where they are looked for."""
        widths = [a.itemsize for a in attributes]
        return (
            not self.disabled
            and (self.widths is None or self.widths == widths)
            and self.layout.verdicts.cuts.keys() <= columns.keys()
        )

    def disorder(self, times: np.ndarray) -> np.ndarray:
        """Rows that must be put aside so that no fragment comes again that has ended: as few as late ones are, or those
        that are too early, whichever are fewer.
        """
        begun = self.latest if self.widths is None else self.start
        return find_disorder(times, self.latest, begun, self.layout.finest)

    def push(
        self,
        times: np.ndarray,
        attributes: Sequence[np.ndarray],
        columns: Mapping[str, np.ndarray],
        ints: Sequence[np.ndarray | None],
        aside: np.ndarray = _NONE,
    ) -> int:
        """Take rows in, except for those `aside`, among which are all of `disorder`; how many, before it was not worth
        it any more. `attributes` are those of the raw relation, `ints` its parts; None is a column of ones.
        """
        rows = len(times)
        if self.widths is None:
            self.widths = [a.itemsize for a in attributes]
            self._clear(self.widths)
        given = RowColumns.of(self.groups.pairs, attributes, ints)
        classes = self.layout.verdicts.classes(columns, rows)
        if len(aside):
            classes[aside] = self.layout.classes
            times = times.copy()
            times[aside] = max(self.latest, int(times.min()))
            times = np.maximum.accumulate(times)
        done = 0
        while done < rows:
            if int(times[done]) >= self.end:
                self._turn(int(times[done]))
            stop = int(np.searchsorted(times, self.end)) if int(times[-1]) >= self.end else rows
            begun, done = done, self._fold(given, classes, done, stop)
            self.rows += done - begun
            if done < stop:
                self._restart()
                if self.disabled:
                    return done
        self.latest = int(times[-1])
        if self.log is not None and (self.rows >= sizes.running_rows or self.logged > self.limits.cells):
            self._decide()
        return rows

    def _fold(self, given: RowColumns, classes: np.ndarray, start: int, stop: int) -> int:
        """Add rows [start, stop) to the sums of their groups and classes; stops where there is no room for a group."""
        groups = self.groups
        done, groups.count, self.count_met = fold_rows(
            given.addresses,
            given.sizes,
            given.pairs,
            classes,
            start,
            stop,
            self.flips,
            groups.slots,
            groups.keys,
            groups.count,
            self.sums,
            self.met,
            self.count_met,
            self.marked,
        )
        return int(done)

    @property
    def logged(self) -> int:
        """Entries of the first rows."""
        return sum(len(entry.groups) for entry in self.log or ())

    @property
    def bytes(self) -> int:
        """Memory of groups, sums, totals, cells and the log."""
        if self.widths is None:
            return 0
        arrays: list[np.ndarray] = [self.sums, self.values, self.groups.slots, self.groups.keys]
        arrays += [*self.before, *self.room]
        return sum(a.nbytes for a in arrays) + 8 * self.logged * (2 + self.parts)

    def _turn(self, time: int) -> None:
        """The fragment of this time begins: the one before is logged, or panes that ended are emitted."""
        if self.log is not None:
            self._log()
        finest = self.layout.finest
        start, before = int(floor_times(np.array([time]), finest)[0]), self.start
        self.end = int((time - (time - finest[1]) % finest[0] + finest[0]).min())
        if self.log is None:
            self._emit_panes(before, start)
            if self.extremes is not None and self.extremes.full:
                self._restart()
        self.start = start

    # ---- the first rows ------------------------------------------------------------------------

    def _log(self) -> None:
        """The fragment under way has ended."""
        assert self.log is not None
        if self.count_met:
            self.log.append(self._entry())

    def _entry(self) -> Entry:
        """What there is of the fragment under way, which begins anew."""
        met = np.sort(self.met[: self.count_met])
        parts = self.sums[met].reshape(len(met), self.layout.classes + 1, self.parts)[:, :-1]
        group, found = np.nonzero(parts[:, :, self.counter])
        empty = np.zeros(self.parts, np.int64)
        empty[self.sums_of :] = MOST
        self.sums[met], self.marked[met], self.count_met = np.tile(empty, self.layout.classes + 1), False, 0
        return Entry(self.start, met[group], found, parts[group, found])

    def _decide(self) -> None:
        """There are enough rows to see whether running totals pay; if so the log goes into them."""
        log = self.log or []
        entries = sum(len(entry.groups) for entry in log)
        cells = sum(self.groups.leaf(i).count * len(leaf.terms) for i, leaf in enumerate(self.layout.leaves))
        looks = self._panes([entry.start for entry in log]) * self.groups.count
        if (
            entries * sizes.running_rows_an_entry > self.rows
            or cells > sizes.running_cells_a_row * self.rows
            or looks > sizes.running_looks_a_row * self.rows
        ):
            self.disabled = True
            return
        log, self.log = [*log, self._entry()], None
        self.met, self.marked = self.met[:0], self.marked[:0]
        floors(log[0].start, *self.layout.edges, self.panes)
        sums, last = self.sums.reshape(len(self.sums), self.layout.classes + 1, self.parts), log[0].start
        for entry in log:
            self._emit_panes(last, entry.start)
            # What does not add up was cleared at the end of the fragment before.
            sums[entry.groups, entry.classes, : self.sums_of] += entry.parts[:, : self.sums_of]
            sums[entry.groups, entry.classes, self.sums_of :] = entry.parts[:, self.sums_of :]
            last = entry.start

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
        if self.widths is None:
            self._clear([8] * len(self.layout.columns))
        self._log()
        log, verdicts = self.log, self.layout.verdicts
        starts = np.repeat([e.start for e in log], [len(e.groups) for e in log]).astype(np.int64)
        groups, classes = (
            np.concatenate([_NONE, *found]) for found in ([e.groups for e in log], [e.classes for e in log])
        )
        parts = np.concatenate([np.empty((0, self.parts), np.int64), *(e.parts for e in log)])
        parts[:, self.sums_of :] ^= self.flips
        truths = [
            self._truth(verdicts.terms.get(p, ()), groups, classes) for p in range(max(verdicts.terms, default=-1) + 1)
        ]
        return Entries(
            starts,
            list(self.groups.attributes[:, groups]),
            truths,
            [np.ascontiguousarray(column) for column in parts.T],
        )

    def _truth(self, terms: Sequence[Term], groups: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Which entries of these groups and classes satisfy the predicate that has these terms."""
        found = np.zeros(len(groups), bool)
        for value, test in terms:
            holds = np.ones(len(groups), bool) if value == 0 else self.layout.verdicts.wanted[value - 1][classes]
            found |= holds if test < 0 else holds & (self.groups.truths(test)[groups] != 0)
        return found

    # ---- out -----------------------------------------------------------------------------------

    def _emit_panes(self, start: int, time: int | None) -> None:
        """The fragment that began at `start` has ended: the cells of queries whose panes end before `time`, of all
        queries, for the last time, if there is none.
        """
        changed = refresh_values(
            self.sums, self.groups.count, self.parts, self.counter, *self.layout.values, self.values, self.changed
        )
        self.spilled += changed
        if self.extremes is not None:
            since = np.full(len(self.extremes.wanted), self.panes.min())
            self.extremes.push(
                self.changed[:changed],
                self.sums,
                self.parts,
                self.sums_of,
                self.layout.values,
                start,
                since,
                self.groups.count,
            )
        panes = np.empty_like(self.panes)
        if time is not None:
            floors(time, *self.layout.edges, panes)
        due = np.ones(len(panes), bool) if time is None else panes != self.panes
        for i, leaf in enumerate(self.layout.leaves):
            for query in np.flatnonzero(due[leaf.first : leaf.first + len(leaf.terms)]).tolist():
                self._emit_pane(i, leaf, query, goes_on=time is not None)
        if time is not None:
            self.panes = panes

    def _emit_pane(self, i: int, leaf: Leaf, query: int, goes_on: bool) -> None:
        """The cells of one query of a leaf; its totals are kept if it will have more."""
        groups, number = self.groups.leaf(i), leaf.first + query
        if len(self.room[0]) < self.used + groups.count:
            self.room, self.used = _room(max(min(sizes.running_room, self.limits.cells), groups.count), self.parts), 0
        own, parts = (array[..., self.used :] for array in self.room)
        totals = self._totals(groups.count * self.sums_of, goes_on)
        for value, test in leaf.terms[query]:
            gather(
                self.values[value],
                _EVERY if test < 0 else self.groups.truths(test),
                groups.of,
                self.groups.count,
                totals,
            )
        found = emit_pane(self.before[number], totals, self.sums_of, self.counter, own, parts)
        if goes_on:
            self.before[number] = totals
        if not found:
            return
        for e, name in enumerate(self.extreme_names):
            needed = leaf.parts[query]
            least = self._least(i, leaf, query, e)[own[:found]] if needed is None or name in needed else MOST
            parts[self.sums_of + e, :found] = least ^ self.flips[e]
        self.emitted[i].append(Piece(int(self.panes[number]), query, own[:found], parts[:, :found]))
        self.used += found
        self.kept += found

    def _least(self, i: int, leaf: Leaf, query: int, part: int) -> np.ndarray:
        """The least values of a query's groups in its pane that ends."""
        groups, since = self.groups.leaf(i), int(self.panes[leaf.first + query])
        found = nothing(groups.count)
        assert self.extremes is not None
        for value, test in leaf.terms[query]:
            self.extremes.gather(
                value, part, since, None if test < 0 else self.groups.truths(test), groups.of, self.groups.count, found
            )
        return found

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
            self.disabled = self.made_cells - before > self.rows - self.since
            self.since = self.rows
            self._clear(self.widths or ())

    def _finish(self) -> None:
        """All that is known becomes cells."""
        self._emit_panes(self.start, None)
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
        """What was emitted as cells, in the order of their panes' starts."""
        for i, leaf in enumerate(self.layout.leaves):
            if not self.emitted[i]:
                continue
            pieces = sorted(self.emitted[i], key=lambda piece: piece.start)
            self.emitted[i] = []
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
