"""GROUP BY beside others by the same key over one tagger's changes: the same as `GroupBy` over partial aggregates.

The changes come in the order of time with the numbers of their groups (`numbered_rows.py`). One pass over those that
the query selects gives the versions of every group, P(k, t) of `group.py`: a group that changes has one version more,
which knows the one before it. So nothing is sorted and no partial aggregate is made.

The fast path `joint_groups`: exactly the changes of `GroupBy`. Where it is off, or a sum might not fit a word, the
changes are added up in SQL and go through `GroupBy`, which has the same state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.annotations import word_column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.dataflow.value_codes import decimal_words, differ_at, one_array
from tidemill.runtime.duckdb import duck
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.operators.grouping.group_walk import GroupWalk, match_stored
from tidemill.runtime.operators.grouping.numbered_rows import GROUPS
from tidemill.runtime.operators.grouping.values import add_to
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes


@dataclass
class Stored:
    """What the state has of some groups: numbers of groups, and their counts and sums, maybe in several pieces."""

    group: np.ndarray
    n: np.ndarray
    sums: np.ndarray


@dataclass
class Versions:
    """Counts and sums of groups from a time on (`kernels/grouping/versions.py`); the first `stored` are the state."""

    stored: int
    key: np.ndarray
    at: np.ndarray
    before: np.ndarray
    n: np.ndarray
    sums: np.ndarray
    last: np.ndarray


class Shown(NamedTuple):
    """Changes of the answer: of which group, when, how many rows, and the answers themselves."""

    group: np.ndarray
    time: np.ndarray
    diff: np.ndarray
    answers: dict[str, pa.Array]


class JointGroup(GroupBy):
    """Input: what `NumberedRows` lets out."""

    op: p.JointGroup

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        rows, picks = inputs[0].rows, inputs[0].picks
        if rows is None or picks is None or rows.num_rows == 0:
            return Batch(None, inputs[0].frontier)
        walks = fast_paths.is_on("joint_groups") and self._supports_answers()
        changes = self._walk(rows, picks[GROUPS], state) if walks else None
        if changes is None:
            return super().step([Batch(self._add_up(rows), inputs[0].frontier)], state)
        return Batch(changes, inputs[0].frontier)

    def _supports_answers(self) -> bool:
        return GroupWalk.supports(self.keys, self.combines[1:], [], self.schema)

    def _add_up(self, rows: pa.Table) -> pa.Table:
        """Partial aggregates of the changes that are selected."""
        keys = [f"{quoted(own)} AS {quoted(c.name)}" for own, c in zip(self.op.read, self.keys, strict=True)]
        sums = [f"{sql} AS {quoted(name)}" for name, sql in self.op.sums]
        shown = ", ".join([*keys, "__time", "CAST(sum(__diff) AS BIGINT) AS __n", *sums])
        chosen = f" WHERE {self.op.predicate}" if self.op.predicate else ""
        group = ", ".join([*map(quoted, self.op.read), "__time"])
        sql = f"SELECT {shown} FROM {duck.source('feed', self.op.rows, '__time', '__diff')}{chosen} GROUP BY {group}"
        return duck.run_put_aside(sql, rows, self.on_row_error and partial(self.on_row_error, self.op))

    def _walk(self, rows: pa.Table, groups: pa.Table, state: ShardState) -> pa.Table | None:
        """The changes of the answer; None where a sum might not fit a word."""
        diff = np.array(rows.column("__diff"))
        adds = _addends(rows, self.op.addends, diff)
        arranged = self.arrangement(state, "parts", self.layout)
        groups = groups.rename_columns([*self.key_names, "__h"])
        stored = None if adds is None else self._read_state(groups, arranged.probe(np.unique(groups.column("__h"))))
        if adds is None or stored is None:
            return None
        versions = _run(self._choose(rows), rows, diff, adds, stored, groups.num_rows)
        out = self._answer_changes(versions, groups)
        add_to(arranged, self._state_delta(versions, groups))
        return out

    def _choose(self, rows: pa.Table) -> np.ndarray:
        """The changes that the query selects, by number."""
        if self.op.predicate is None:
            return np.arange(rows.num_rows)
        sql = f"SELECT coalesce({self.op.predicate}, FALSE) AS x FROM {duck.source('rows', self.op.rows)}"
        return np.flatnonzero(duck.run(sql, rows=rows).column("x").to_numpy())

    def _read_state(self, groups: pa.Table, base: pa.Table) -> Stored | None:
        """What the state has of these groups; None where it is too large for a word."""
        base, held = match_stored(groups.select(self.key_names), base)
        sums = np.empty((base.num_rows, len(self.op.parts)), np.int64)
        pieces = int(np.bincount(held).max(initial=0))  # of one group, which the walk adds up
        for x, part in enumerate(self.op.parts):
            words = _words(base.column(part.name), pieces) if base.num_rows else sums[:, x]
            if words is None:
                return None
            sums[:, x] = words
        return Stored(held, base.column("__n").to_numpy().astype(np.int64), sums)

    def _answer_changes(self, versions: Versions, groups: pa.Table) -> pa.Table:
        """−old +new wherever the answer changes."""
        shown = self._show_plain(versions) if self.op.plain else self._show(versions)
        keys = pa.array(shown.group)
        columns = {k: groups.column(k).take(keys) for k in self.key_names} | shown.answers
        return pa.table(columns | {"__time": pa.array(shown.time), "__diff": pa.array(shown.diff)})

    def _show_plain(self, versions: Versions) -> Shown:
        """Answers that are counts and sums."""
        from tidemill.runtime.kernels.grouping.versions import show_versions

        v, places = versions, {part.name: x for x, part in enumerate(self.op.parts)}
        part, guard = (np.array([places.get(name, -1) for name in names]) for names in zip(*self.op.plain, strict=True))
        shown = self.schema[len(self.keys) :]
        width = np.array([1 + (c.type == "HUGEINT") for c in shown])
        most = 2 * (len(v.key) - v.stored)
        place = most * (np.cumsum(width) - width)
        group, time, diff = (np.empty(most, np.int64) for _ in range(3))
        words, null = np.empty(most * int(width.sum()), np.int64), np.zeros((len(shown), most), np.bool_)
        versions_of = (v.stored, v.key, v.at, v.before, v.n, v.sums)
        count = show_versions(*versions_of, part, guard, place, width, group, time, diff, words, null)
        answers = {
            column.name: _word_answers(words[first : first + count * wide], null[x, :count], wide)
            for x, (column, first, wide) in enumerate(zip(shown, place, width, strict=True))
        }
        return Shown(group[:count], time[:count], diff[:count], answers)

    def _show(self, versions: Versions) -> Shown:
        """Answers that are computed from the parts."""
        answers = self._answer(versions)
        turning = np.arange(versions.stored, len(versions.key))
        before = versions.before[turning]
        follows = before >= 0
        live, was = versions.n[turning] > 0, follows.copy()
        was[follows] = versions.n[before[follows]] > 0
        both, changed = np.flatnonzero(live & was), np.zeros(len(turning), np.bool_)
        for name, _ in self.answers:
            changed[both] |= differ_at(answers.column(name), turning[both], before[both])
        news, olds = turning[live & (changed | ~was)], np.flatnonzero(was & (changed | ~live))
        shown, when = np.concatenate([news, before[olds]]), np.concatenate([news, turning[olds]])
        diff = np.ones(len(shown), np.int64)
        diff[len(news) :] = -1
        found = {name: answers.column(name).take(pa.array(shown)) for name, _ in self.answers}
        return Shown(versions.key[shown], versions.at[when], diff, found)

    def _answer(self, versions: Versions) -> pa.Table:
        """The answer of every version."""
        feed = self._parts_table(versions.n, versions.sums)
        items = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.answers)
        return duck.run(f"SELECT {items} FROM {duck.source('feed', self.parts)}", feed=feed) if items else feed

    def _parts_table(self, n: np.ndarray, sums: np.ndarray) -> pa.Table:
        columns = {"__n": pa.array(n)}
        for x, (name, type_name, _) in enumerate(self.op.parts):
            low = np.ascontiguousarray(sums[:, x])
            columns[name] = word_column(low, low >> 63, type_name)
        return pa.table(columns)

    def _state_delta(self, versions: Versions, groups: pa.Table) -> pa.Table:
        """By how much counts and sums of each group have changed: its last version less what was stored."""
        touched = np.flatnonzero(versions.last >= versions.stored)
        last = versions.last[touched]
        n, sums = versions.n[last], versions.sums[last]
        first = np.full(len(versions.last), -1, np.int64)
        first[versions.key[: versions.stored]] = np.arange(versions.stored)
        known = first[touched] >= 0
        n[known] -= versions.n[first[touched][known]]
        sums[known] -= versions.sums[first[touched][known]]
        keys = groups.select([*self.key_names, "__h"]).take(pa.array(touched))
        parts = self._parts_table(n, sums)
        return pa.table({c: table.column(c) for table in (keys, parts) for c in table.column_names})


def _run(
    chosen: np.ndarray, rows: pa.Table, diff: np.ndarray, adds: np.ndarray, stored: Stored, groups: int
) -> Versions:
    from tidemill.runtime.kernels.grouping.versions import run_in_time

    most = len(stored.group) + len(chosen)
    last = np.full(groups, -1, np.int64)
    key, at, before, n = (np.empty(most, np.int64) for _ in range(4))
    sums = np.empty((most, adds.shape[1]), np.int64)
    number, time = np.array(rows.column("__g")), np.array(rows.column("__time"))
    held = (stored.group, stored.n, stored.sums)
    kept, count = run_in_time(chosen, number, time, diff, adds, *held, last, key, at, before, n, sums)
    return Versions(kept, key[:count], at[:count], before[:count], n[:count], sums[:count], last)


def _word_answers(words: np.ndarray, null: np.ndarray, width: int) -> pa.Array:
    """Numbers of one word, or of two, as a column; NULL where it says so."""
    if width == 1:
        return pa.array(words, mask=null if null.any() else None)
    empty = int(np.count_nonzero(null))
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if empty else None
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(null), [valid, pa.py_buffer(words)], empty)


def _addends(rows: pa.Table, addends: tuple[p.Addend, ...], diff: np.ndarray) -> np.ndarray | None:
    """What each change adds to each part; None where their sums might not fit a word."""
    adds = np.empty((rows.num_rows, len(addends)), np.int64)
    for x, addend in enumerate(addends):
        column = one_array(rows.column(addend.column))
        if addend.counts:
            adds[:, x] = diff if not column.null_count else diff * column.is_valid().to_numpy(zero_copy_only=False)
            continue
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        most = max(int(values.max()), -int(values.min())) * int(np.abs(diff).max())
        if most * rows.num_rows >= sizes.word_sums:
            return None
        adds[:, x] = values * diff
    return adds


def _words(column: pa.ChunkedArray, pieces: int) -> np.ndarray | None:
    """Stored sums as words; None where this many of them may be too large to be added to."""
    if pa.types.is_decimal(column.type):
        words = decimal_words(one_array(column))
        low = np.ascontiguousarray(words[:, 0])
        if (words[:, 1] != low >> 63).any():
            return None
    else:
        low = column.to_numpy().astype(np.int64)
    return low if max(int(low.max()), -int(low.min())) * pieces < sizes.word_sums else None
