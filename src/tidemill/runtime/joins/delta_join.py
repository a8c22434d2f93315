"""The delta join: changes of one input are joined with the other inputs, each in the version of the change's time.

The exact law (telescoping): with A_i(t) input i including its changes at t and A_i(t-) without them, the output change
at t is Σ_k A_1(t) ⋈ … ⋈ A_{k-1}(t) ⋈ ΔA_k(t) ⋈ A_{k+1}(t-) ⋈ … ⋈ A_m(t-). A `DeltaJoin` is one term k of this sum.
Pairs are row numbers until the last step; columns are gathered only for what comes out.

Every time has two instants: at the first one rows are deleted, at the second one rows are inserted. The sum is the same
for any order of the changes of one time; in this order no pair is made of a window and the one that replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemill.runtime.dataflow.annotations import Annotations
from tidemill.runtime.dataflow.value_codes import JoinValues, among, distinct, match_all, number, number_rows
from tidemill.runtime.joins.aggregation_sets import FORMS, AggregationSets
from tidemill.runtime.joins.routes import ProbeStep
from tidemill.runtime.kernels.joins.delta_join import Probes, Versions, count_pairs, find_pairs, walk
from tidemill.runtime.kernels.joins.delta_join_rows import order_rows, run_versions
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes


@dataclass
class ProbeTally:
    """How many probes went into one input's sets, and how many rows they matched."""

    probes: int = 0
    matches: int = 0
    late_matches: int = 0
    early_matches: float = 0.0


@dataclass
class SetRows:
    """Rows of one input as a delta join reads them: key columns, count, parts; for versions, the row they belong to.

    `time` is the instant: 0 for what is stored, else twice the rank of the time (from 1), plus 1 if the count does not
    fall. `key` numbers the different K_i, `worth` is how many rows of the window a row stands for.
    """

    keys: pa.Table
    n: np.ndarray
    parts: Annotations
    time: np.ndarray
    row: np.ndarray
    key: np.ndarray
    worth: np.ndarray
    rows: int
    mixed: bool  # some are in late form
    codes: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def most(self) -> int:
        """The greatest |n|."""
        return int(np.abs(self.n).max()) if len(self.n) else 0


def set_rows(
    sets: AggregationSets, tables: dict[str, list[tuple[pa.Table, np.ndarray]]], running: bool, unread: frozenset[str]
) -> SetRows:
    """The rows of (table, time rank of each row) pairs of both forms, equal rows and times added up.

    With `running` they are versions: sums over all times up to their own. The `unread` keys are ignored.
    """
    early, late = ([t for t in tables.get(form, []) if t[0].num_rows] for form in FORMS)
    names = [c.name for c in sets.keys if c.name not in unread]
    whole = [*early, *late]
    keys = pa.concat_tables([t.select(names) for t, _ in whole])
    time = np.concatenate([ranks for _, ranks in whole])
    n = np.concatenate([t.column("__n").to_numpy() for t, _ in whole]).astype(np.int64)
    parts = sets.annotations([t for t, _ in early], [t for t, _ in late])
    key, first = number_rows([keys.column(c) for c in names], len(n))
    row, count = key, len(first)
    in_sets = sum(t.num_rows for t, _ in early)
    if late:
        args = pa.concat_tables([t.select([c.name for c in sets.args]) for t, _ in late])
        own, _ = number_rows([args.column(c.name) for c in sets.args], args.num_rows)
        which = np.concatenate([np.zeros(in_sets, np.int64), own + 1])
        row, first = number(key * (int(which.max()) + 1) + which)
        count = len(first)
    found, step = SetRows(keys, n, parts, time, row, key, n, count, bool(late)), n
    if count < len(n):
        found, step = _add_up(found, running)
    found.time = np.where(found.time > 0, 2 * found.time + (step >= 0), 0)
    found.worth = np.abs(found.n)
    if late:
        # Rows are numbered as they appear, sets first.
        found.worth[found.row >= (int(row[:in_sets].max()) + 1 if in_sets else 0)] = 1
    return found


def _add_up(rows: SetRows, running: bool) -> tuple[SetRows, np.ndarray]:
    """One entry for each row and time, and by how much the count changes there; `running` adds the times before."""
    times = int(rows.time.max()) + 1
    if running:
        major, majors = rows.row, rows.rows
    else:
        major, first = number(rows.row * times + rows.time)
        majors = len(first)
        if majors == len(rows):
            return rows, rows.n
    order = order_rows(major, rows.time, majors, times, np.empty(majors + 1, np.int64))
    kept, step = np.empty(len(rows), np.bool_), np.empty(len(rows), np.int64)
    parts = rows.parts
    run_versions(order, major, rows.time, rows.n, parts.words, parts.floats, parts.lows, kept, step)
    if kept.all():
        return rows, step
    # A table without columns has no rows to filter.
    keys = rows.keys.filter(pa.array(kept)) if rows.keys.num_columns else rows.keys
    return SetRows(
        keys,
        rows.n[kept],
        parts.take(kept),
        rows.time[kept],
        rows.row[kept],
        rows.key[kept],
        rows.worth,
        rows.rows,
        rows.mixed,
    ), step[kept]


@dataclass
class Binding:
    """Joined rows so far: for each bound input the row number, and the instant of the change that made the row."""

    at: dict[int, np.ndarray]
    time: np.ndarray

    def __len__(self) -> int:
        return len(self.time)

    @property
    def rank(self) -> np.ndarray:
        """The rank of each time, from 0."""
        return (self.time >> 1) - 1


@dataclass
class Matches:
    """The last step of some joined rows: the probes that match something and versions in buckets, and how many versions
    each probe matches.
    """

    binding: Binding
    probes: Probes
    versions: Versions
    counts: np.ndarray
    nested: bool
    rows: int

    def pieces(self, limit: int) -> Iterator[tuple[int, int, int]]:
        """(first, last, pairs): runs of probes with some `limit` pairs at most, as far as one probe allows."""
        ends = np.cumsum(self.counts)
        first = 0
        while first < len(self.counts):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + limit, side="right")))
            yield first, last, int(ends[last - 1]) - before
            first = last

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(probe, version) pairs, in pieces."""
        here = walk(self.rows)
        for first, last, count in self.pieces(sizes.piece_pairs):
            probe, version = np.empty(count, np.int64), np.empty(count, np.int64)
            find_pairs(first, last, self.probes, self.versions, here, self.nested, probe, version)
            yield probe, version


class DeltaJoin:
    """Term k of the law: the changes of input k probe the others along `route`. No output reads the keys `unread`."""

    def __init__(
        self,
        k: int,
        inputs: list[AggregationSets],
        route: list[ProbeStep],
        values: list[JoinValues],
        times: np.ndarray,
        nested: bool,
        tallies: list[ProbeTally],
        unread: frozenset[str] = frozenset(),
    ) -> None:
        self.unread = unread
        self.k, self.inputs, self.route, self.values = k, inputs, route, values
        self.times, self.nested, self.tallies = times, nested, tallies
        self.rows: dict[int, SetRows] = {}

    def find_matches(self, state: ShardState) -> Iterator[Matches]:
        """The joined rows before their last step, in pieces of bounded size."""
        self.rows[self.k] = set_rows(self.inputs[self.k], self._moves(self.k, None), False, self.unread)
        for step in self.route:
            tables = self._candidates(step, state)
            if not any(t.num_rows for found in tables.values() for t, _ in found):
                return
            self.rows[step.input] = set_rows(self.inputs[step.input], tables, True, self.unread)
        start = self.rows[self.k]
        yield from self._descend(0, Binding({self.k: np.arange(len(start))}, start.time))

    def _moves(
        self, number: int, wanted: tuple[tuple[str, ...], np.ndarray] | None
    ) -> dict[str, list[tuple[pa.Table, np.ndarray]]]:
        """The batch's changes of an input with the ranks of their times (from 1), all or those of some hashes."""
        sets, found = self.inputs[number], {}
        for form, table in sets.moves.items():
            if wanted is not None and wanted[0] and table.num_rows:
                here = among(sets.hashes(form, wanted[0]), wanted[1])
                table = table if here.all() else table.filter(pa.array(here))
            ranks = np.searchsorted(self.times, table.column("__time").to_numpy()) + 1
            found[form] = [(table, ranks)]
        return found

    def _candidates(self, step: ProbeStep, state: ShardState) -> dict[str, list[tuple[pa.Table, np.ndarray]]]:
        """Stored rows (rank 0) and changes of the probed input whose index the neighbour's rows have."""
        sets, hashes = self.inputs[step.input], self._hashes(step)
        tables = self._moves(step.input, (step.own, hashes))
        for form, rows in sets.fetch(state, step.own, hashes).items():
            tables[form].insert(0, (rows, np.zeros(rows.num_rows, np.int64)))
        return tables

    def _hashes(self, step: ProbeStep) -> np.ndarray:
        """The different hashes by which the next input is probed."""
        bound = self.inputs[step.neighbour]
        if not step.other:
            return np.zeros(1, np.uint64)
        if step.neighbour != self.k:
            return distinct(bound.hash(self.rows[step.neighbour].keys, step.other))
        return distinct(np.concatenate([bound.hashes(form, step.other) for form in FORMS]))

    def _descend(self, depth: int, binding: Binding) -> Iterator[Matches]:
        found = self._match(self.route[depth], binding)
        if depth == len(self.route) - 1:
            yield found
            return
        for probe, version in found.pairs():
            at = {i: rows[probe] for i, rows in binding.at.items()} | {self.route[depth].input: version}
            yield from self._descend(depth + 1, Binding(at, binding.time[probe]))

    def _match(self, step: ProbeStep, binding: Binding) -> Matches:
        rows = self.rows[step.input]
        bucket, sought, count = self._buckets(step, binding)
        code, probe_code = bucket, sought
        if self.nested:
            bucket, sought, count = np.zeros_like(bucket), np.where(sought < 0, 0, 0), 1
        until = binding.time + (step.input < self.k)  # an input before k has already changed at this instant
        start = np.empty(count + 1, np.int64)
        times = 2 * len(self.times) + 3
        order = order_rows(bucket, rows.time, count, times if rows.time.any() else 1, start)
        versions = Versions(order, start, code, rows.time, rows.row, rows.n != 0, rows.worth)
        by = order_rows(sought, until, count, times if rows.time.any() else 1, np.empty(count + 1, np.int64))
        probes = Probes(by, sought, probe_code, until)
        counts = np.empty(len(by), np.int64)
        worth = count_pairs(probes, versions, walk(rows.rows), self.nested, counts)
        self._note(step, rows, bucket, sought[by], counts, worth, len(binding))
        matched = counts > 0
        return Matches(binding, probes._replace(order=by[matched]), versions, counts[matched], self.nested, rows.rows)

    def _buckets(self, step: ProbeStep, binding: Binding) -> tuple[np.ndarray, np.ndarray, int]:
        """(bucket of each version, bucket or -1 of each joined row, buckets): the same where known classes agree."""
        rows = self.rows[step.input]
        if not step.known:
            return np.zeros(len(rows), np.int64), np.zeros(len(binding), np.int64), 1
        held = [self._codes(step.input, column, which) for which, column, _ in step.known]
        sought = [self._codes(i, column, which)[binding.at[i]] for which, _, (i, column) in step.known]
        return match_all(held, sought)

    def _codes(self, number: int, column: str, which: int) -> np.ndarray:
        rows = self.rows[number]
        if column not in rows.codes:
            rows.codes[column] = self.values[which].codes(rows.keys.column(column))
        return rows.codes[column]

    def _note(
        self,
        step: ProbeStep,
        rows: SetRows,
        bucket: np.ndarray,
        probed: np.ndarray,
        counts: np.ndarray,
        worth: int,
        probes: int,
    ) -> None:
        tally = self.tallies[step.input]
        total = int(counts.sum())
        tally.probes += probes
        tally.matches += total
        tally.late_matches += int(worth)
        if not rows.mixed or not total:
            tally.early_matches += total
            return
        # c rows spread evenly over the k keys of a bucket are expected to touch k·(1 - (1 - 1/k)^c) of them.
        _, first = number(rows.key)
        keys = np.bincount(bucket[first], minlength=int(bucket.max()) + 1)[probed].astype(np.float64)
        tally.early_matches += float((keys * -np.expm1(counts * np.log1p(-1 / np.maximum(keys, 1 + 1e-9)))).sum())
