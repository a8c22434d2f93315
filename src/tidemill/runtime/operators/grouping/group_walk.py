"""GROUP BY over sums, numbers of different values, least and greatest values, walked in arrays: the same as `GroupBy`
in SQL, without sorting rows in windows.

Rows are numbered by key, ordered by key and time, and added up to versions: P(k, t) of `group.py`. A change of a value
changes no sum but the number of values. Only the answers are SQL, one plain expression for each version.
O(changes), and one statement over the keys that changed.

The fast path `group_walk`: gives exactly the changes and the state of the SQL in `group.py`; where it does not apply,
or a sum overflows, the SQL is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.annotations import Annotations, PartSpec, Piece
from tidemill.runtime.dataflow.value_codes import differs, match, number_rows, rank_times
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.operators.grouping.value_ends import RANKED, Ends, probe_ends, value_moves, walk_ends
from tidemill.runtime.operators.grouping.values import Values, add_to
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

# Types whose values can be numbered.
NUMBERED = INTEGERS | {"BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"}
# Types of sums.
SUMMED = {"BIGINT", "HUGEINT", "DOUBLE"}


@dataclass
class Versions:
    """The parts of each key from each of its times on, by key and time. Rank 0 is what was stored, `times` the rest."""

    key: np.ndarray
    rank: np.ndarray
    n: np.ndarray
    parts: Annotations
    times: np.ndarray

    def follows(self) -> np.ndarray:
        """Which versions follow another one of their key."""
        return np.concatenate([[False], self.key[1:] == self.key[:-1]])

    def table(self) -> pa.Table:
        """Count and parts as columns."""
        columns = {"__n": pa.array(self.n)}
        return pa.table(columns | {p.name: self.parts.column(x) for x, p in enumerate(self.parts.parts)})


@dataclass(frozen=True)
class Moves:
    """The rows of several tables: the groups they belong to, and for each table the group and time of its rows. Ranks
    of times begin with 1.
    """

    groups: pa.Table
    hashes: np.ndarray
    times: np.ndarray
    group: list[np.ndarray]
    rank: list[np.ndarray]


class GroupWalk:
    """The walk for keys, parts (column, how they combine), values and answers (name, SQL) of a grouping."""

    def __init__(
        self,
        keys: tuple[Column, ...],
        combined: Sequence[tuple[Column, str]],
        values: Sequence[Values],
        answers: Sequence[tuple[str, str]],
    ) -> None:
        self.keys, self.values, self.answers = keys, values, answers
        self.names = [c.name for c in keys]
        self.parts = tuple(PartSpec(c.name, c.type, how, "") for c, how in combined)
        ends = [
            Column(f"{name}{v.index}", v.columns[-1].type)
            for v in values
            if v.low or v.high
            for name in ("__least", "__most")
        ]
        self.columns = (Column("__n", "BIGINT"), *(c for c, _ in combined), *ends)
        self.words = [part.name for part in self.parts if part.kind == "word"]
        self.later: list[tuple[Arrangement, pa.Table | None]] = []  # what is to be added to which state

    @staticmethod
    def supports(
        keys: tuple[Column, ...],
        combined: Sequence[tuple[Column, str]],
        values: Sequence[Values],
        schema: tuple[Column, ...],
    ) -> bool:
        """Whether keys, parts, values and answers are of types that can be walked here."""
        summed = all(c.type in (SUMMED if how == "sum" else RANKED) for c, how in combined)
        ordered = all(v.columns[-1].type in RANKED for v in values if v.low or v.high)
        answered = all(c.type in NUMBERED | {"DOUBLE", "FLOAT"} for c in schema[len(keys) :])
        return bool(keys) and summed and ordered and answered and all(c.type in NUMBERED for c in keys)

    def walk(self, closed: pa.Table, values: list[pa.Table], arranged: Arrangement, state: ShardState) -> pa.Table:
        """The changes of the answer; OverflowError where words may not hold a sum. `store` adds to the state."""
        self.later = []
        moves = self._number_moves([closed, *values])
        base, held = match_stored(moves.groups, arranged.probe(np.unique(moves.hashes)))
        sums = self._add_parts(base, closed)
        added = _add_floats(sums.floats[base.num_rows :], moves.group[0], moves.groups.num_rows)
        turns = [self._count_turns(x, rows, moves, state) for x, rows in enumerate(values)]
        parts, alone = self._add_turns(sums, base.num_rows, turns, moves)
        n = np.concatenate([t.column("__n").to_numpy() for t in (base, closed)]).astype(np.int64)
        versions = self._run_versions(held, n, parts, alone, moves)
        ends = {
            v.index: self._walk_ends(x, values[x], moves, state) for x, v in enumerate(self.values) if v.low or v.high
        }
        self.later.append((arranged, self._state_delta(versions, added, moves)))
        return self._answer_changes(versions, ends, moves.groups)

    def store(self) -> None:
        """Add what was walked to the state."""
        for state, delta in self.later:
            add_to(state, delta)

    def _number_moves(self, tables: list[pa.Table]) -> Moves:
        kind = tables[0].select(self.names).schema
        rows = pa.concat_tables([t.select(self.names).cast(kind) for t in tables])
        ids, first = number_rows([rows.column(k) for k in self.names], rows.num_rows)
        groups = rows.take(pa.array(first))
        inner = duck.source("groups", self.keys)
        hashes = duck.run(f"SELECT {hash_sql(self.names)} AS __h FROM {inner}", groups=groups).column("__h").to_numpy()
        times, rank = rank_times(np.concatenate([t.column("__time").to_numpy() for t in tables]))
        cuts = np.cumsum([t.num_rows for t in tables])[:-1]
        return Moves(groups, hashes, times, np.split(ids, cuts), np.split(rank + 1, cuts))

    def _add_parts(self, base: pa.Table, closed: pa.Table) -> Annotations:
        parts = Annotations.of(self.parts, [Piece(base), Piece(closed)], base.num_rows + closed.num_rows)
        if parts.words.size and int(np.abs(parts.words[:, 1::2]).max()) >= sizes.walked_high:
            raise OverflowError("sums near the end of 128 bits")
        return parts

    def _count_turns(self, x: int, rows: pa.Table, moves: Moves, state: ShardState) -> np.ndarray | None:
        """For each change of one column's values by how much it changes the number of different values; None where
        they are not counted.
        """
        value = self.values[x]
        if value.once is None:
            return None
        arranged = value.once_state(state)
        turn, delta = value.distinct.count_changes(rows, moves.group[1 + x], moves.rank[1 + x], arranged)
        self.later.append((arranged, delta))
        return turn

    def _walk_ends(self, x: int, rows: pa.Table, moves: Moves, state: ShardState) -> Ends:
        """Least and greatest values of one column from each group and time on."""
        value, group = self.values[x], moves.group[1 + x]
        arranged = value.value_state(state)
        n = rows.column("__n").to_numpy().astype(np.int64)
        stored, held = match_stored(moves.groups, probe_ends(arranged, moves.hashes, group, n, value.low, value.high))
        found = value_moves(stored, held, rows, group, moves.rank[1 + x])
        into, number, change = found.net(slice(len(held), None))
        if len(into):
            columns = {
                "__h": pa.array(moves.hashes[into]),
                "__v": found.values.take(pa.array(number)),
                "__n": pa.array(change),
            }
            columns |= {k: moves.groups.column(k).take(pa.array(into)) for k in self.names}
            self.later.append((arranged, pa.table(columns)))
        return walk_ends(found, moves.groups.num_rows)

    def _add_turns(
        self, sums: Annotations, stored: int, turns: list[np.ndarray | None], moves: Moves
    ) -> tuple[Annotations, np.ndarray]:
        """(parts with the turns of values, codes of groups and times for which there is no change of parts).

        A turn is added to the first change of its group and time, behind the `stored` rows; where there is none, one
        that changes nothing else stands at the end.
        """
        width = len(moves.times) + 1
        codes = [group * width + rank for group, rank in zip(moves.group, moves.rank, strict=True)]
        if len(codes) == 1:
            return sums, np.empty(0, np.int64)
        held_ids, ids, first = match(codes[0], np.concatenate(codes[1:]))
        alone, alone_ids = np.unique(np.concatenate(codes[1:])[ids < 0], return_inverse=True)
        place = np.empty(len(ids), np.int64)
        place[ids >= 0] = stored + first[ids[ids >= 0]]
        place[ids < 0] = stored + len(held_ids) + alone_ids
        parts = _lengthen(sums, len(alone))
        for value, turn, at in zip(self.values, turns, np.split(place, _ends(codes[1:])), strict=True):
            if turn is not None:
                added = np.bincount(at, turn, len(parts.words)).astype(np.int64)
                _add_words(parts.words, 2 * self.words.index(str(value.once)), added)
        return parts, alone

    def _run_versions(
        self, held: np.ndarray, n: np.ndarray, parts: Annotations, alone: np.ndarray, moves: Moves
    ) -> Versions:
        """`held` are the groups of the stored rows, `n` counts of these and of the changes, `alone` the codes of group
        and time of changes behind them.
        """
        from tidemill.runtime.kernels.joins.delta_join_rows import order_rows, run_versions

        width, keys = len(moves.times) + 1, moves.groups.num_rows
        key = np.concatenate([held, moves.group[0], alone // width])
        rank = np.concatenate([np.zeros(len(held), np.int64), moves.rank[0], alone % width])
        n = np.concatenate([n, np.zeros(len(alone), np.int64)])
        order = order_rows(key, rank, keys, width, np.empty(keys + 1, np.int64))
        kept = np.empty(len(n), np.bool_)
        run_versions(order, key, rank, n, parts.words, parts.floats, parts.lows, kept, np.empty_like(n))
        order = order[kept[order]]
        return Versions(key[order], rank[order], n[order], parts.take(order), moves.times)

    def _answer_changes(self, versions: Versions, ends: dict[int, Ends], groups: pa.Table) -> pa.Table:
        """−old +new wherever the answer changes."""
        items = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.answers)
        feed = versions.table()
        for index, found in ends.items():
            for name, column in zip(("__least", "__most"), found.at(versions.key, versions.rank), strict=True):
                feed = feed.append_column(f"{name}{index}", column)
        answers = duck.run(f"SELECT {items} FROM {duck.source('feed', self.columns)}", feed=feed) if items else feed
        follows, live = versions.follows(), versions.n > 0
        was = follows & np.concatenate([[False], live[:-1]])
        changed = np.zeros(len(live), np.bool_)
        for name, _ in self.answers:
            changed[1:] |= differs(answers.column(name))
        turned = (versions.rank > 0) & ((live != was) | (live & changed))
        news, olds = np.flatnonzero(turned & live), np.flatnonzero(turned & was)
        shown = np.concatenate([news, olds - 1])
        columns = {k: groups.column(k).take(pa.array(versions.key[shown])) for k in self.names}
        columns |= {name: answers.column(name).take(pa.array(shown)) for name, _ in self.answers}
        ranks = versions.rank[np.concatenate([news, olds])]
        diff = np.ones(len(shown), np.int64)
        diff[len(news) :] = -1
        return pa.table(columns | {"__time": pa.array(versions.times[ranks - 1]), "__diff": pa.array(diff)})

    def _state_delta(self, versions: Versions, floats: np.ndarray, moves: Moves) -> pa.Table:
        """By how much the parts of each key have changed: its last version less what was stored. Of doubles the
        difference would be rounded: `floats` has their sums. An extreme that is the same as the stored one changes
        nothing.
        """
        first = np.flatnonzero(~versions.follows())
        last = np.append(first[1:], len(versions.key)) - 1
        stored = versions.rank[first] == 0
        n, parts = versions.n[last], versions.parts.take(last)
        n[stored] -= versions.n[first[stored]]
        words, before = parts.words, versions.parts.words[first[stored]]
        low = words[stored, 0::2].view(np.uint64)
        borrow = low < np.ascontiguousarray(before[:, 0::2]).view(np.uint64)
        words[stored] -= before
        words[np.ix_(stored, np.arange(words.shape[1]) % 2 == 1)] -= borrow
        parts.floats[:] = floats
        delta = Versions(versions.key[last], versions.rank[last], n, parts, versions.times).table()
        columns = {"__h": pa.array(moves.hashes)} | {k: moves.groups.column(k) for k in self.names}
        return pa.table(columns | {c: delta.column(c) for c in delta.column_names})


def match_stored(groups: pa.Table, base: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """The stored rows of these groups, and the group of each; rows that only share a hash are left out."""
    if not base.num_rows:
        return base, np.empty(0, np.int64)
    both = pa.concat_tables([groups, base.select(groups.column_names).cast(groups.schema)])
    ids, _ = number_rows(both.columns, both.num_rows)
    held = ids[groups.num_rows :]
    known = held < groups.num_rows
    return (base, held) if known.all() else (base.filter(pa.array(known)), held[known])


def _lengthen(sums: Annotations, rows: int) -> Annotations:
    """This many more rows of parts, which change nothing."""
    from tidemill.runtime.kernels.joins.delta_join import NOTHING

    if not rows:
        return sums
    words = np.concatenate([sums.words, np.zeros((rows, sums.words.shape[1]), np.int64)])
    floats = np.concatenate([sums.floats, np.zeros((rows, sums.floats.shape[1]))])
    lows = np.concatenate([sums.lows, np.full((rows, sums.lows.shape[1]), NOTHING)])
    return Annotations(sums.parts, words, floats, lows, sums.extremes)


def _add_words(words: np.ndarray, at: int, added: np.ndarray) -> None:
    """Add 64-bit numbers to the 128-bit ones whose low words are column `at`."""
    low = words[:, at].view(np.uint64) + added.view(np.uint64)
    words[:, at + 1] += (added >> 63) + (low < added.view(np.uint64))
    words[:, at] = low.view(np.int64)


def _ends(pieces: list[np.ndarray]) -> np.ndarray:
    """Where each piece but the last ends in all of them together."""
    return np.cumsum([len(piece) for piece in pieces])[:-1]


def _add_floats(floats: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The sums of each group."""
    found = np.empty((groups, floats.shape[1]))
    for c in range(floats.shape[1]):
        found[:, c] = np.bincount(group, floats[:, c], groups)
    return found
