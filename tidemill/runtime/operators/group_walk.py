"""GROUP BY over sums of whole numbers, walked in arrays: what `GroupBy` says in SQL, without sorting rows in windows.

Rows are numbered by key, ordered by key and time, and run up to versions: P(k, t) of `group.py`. Only the answers are
SQL, one plain expression for each version. O(changes), and one statement over the keys that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.annotations import Annotations, PartSpec, Piece
from tidemill.runtime.operators.base import hash_sql
from tidemill.runtime.operators.join_values import number, number_rows, numbered
from tidemill.runtime.state import Arrangement
from tidemill.runtime.thresholds import sizes

# Types whose values can be numbered.
NUMBERED = INTEGERS | {"BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"}


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


class GroupWalk:
    """The walk for keys, sums (name, type) and answers (name, SQL) of a grouping."""

    def __init__(self, keys: tuple[Column, ...], parts: tuple[Column, ...], answers: list[tuple[str, str]]) -> None:
        self.keys, self.answers = keys, answers
        self.names = [c.name for c in keys]
        self.parts = tuple(PartSpec(c.name, c.type, "sum", "") for c in parts)
        self.columns = (Column("__n", "BIGINT"), *parts)

    @staticmethod
    def serves(keys: tuple[Column, ...], combined: Sequence[tuple[Column, str]], schema: tuple[Column, ...]) -> bool:
        """Whether keys, parts and answers are of types that can be walked here."""
        summed = all(how == "sum" and c.type in ("BIGINT", "HUGEINT") for c, how in combined)
        answered = all(c.type in NUMBERED | {"DOUBLE"} for c in schema[len(keys):])
        return bool(keys) and summed and answered and all(c.type in NUMBERED for c in keys)

    def walk(self, closed: pa.Table, state: Arrangement) -> tuple[pa.Table, pa.Table]:
        """(changes of the answer, what is to be added to the state); OverflowError where words may not hold a sum."""
        ids, first = number_rows([closed.column(k) for k in self.names], closed.num_rows)
        groups = closed.select(self.names).take(pa.array(first))
        inner = duck.source("groups", self.keys)
        hashes = duck.run(f"SELECT {hash_sql(self.names)} AS __h FROM {inner}", groups=groups).column("__h").to_numpy()
        base, held = self._held(groups, state.probe(np.unique(hashes)))
        versions = self._versions(base, closed, np.concatenate([held, ids]), len(first))
        return self._changes(versions, groups), self._delta(versions, groups, hashes)

    def _held(self, groups: pa.Table, base: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """The stored rows of these groups, and which of them each belongs to; others only have the same hash."""
        if not base.num_rows:
            return base, np.empty(0, np.int64)
        both = pa.concat_tables([groups, base.select(self.names).cast(groups.schema)])
        ids, _ = number_rows([both.column(k) for k in self.names], both.num_rows)
        held = ids[groups.num_rows :]
        known = held < groups.num_rows
        return (base, held) if known.all() else (base.filter(pa.array(known)), held[known])

    def _versions(self, base: pa.Table, closed: pa.Table, key: np.ndarray, keys: int) -> Versions:
        from tidemill.runtime.kernels.meeting_rows import order_rows, run_versions

        times, rank = ranked(closed.column("__time").to_numpy())
        rank = np.concatenate([np.zeros(base.num_rows, np.int64), rank + 1])
        n = np.concatenate([t.column("__n").to_numpy() for t in (base, closed)]).astype(np.int64)
        parts = Annotations.of(self.parts, [Piece(base), Piece(closed)], len(n))
        if parts.words.size and int(np.abs(parts.words[:, 1::2]).max()) >= sizes.walked_high:
            raise OverflowError("sums near the end of 128 bits")
        order = order_rows(key, rank, keys, len(times) + 1, np.empty(keys + 1, np.int64))
        kept = np.empty(len(n), np.bool_)
        run_versions(order, key, rank, n, parts.words, parts.floats, parts.lows, kept, np.empty_like(n))
        order = order[kept[order]]
        return Versions(key[order], rank[order], n[order], parts.take(order), times)

    def _changes(self, versions: Versions, groups: pa.Table) -> pa.Table:
        """−old +new wherever the answer changes."""
        items = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.answers)
        feed = versions.table()
        answers = duck.run(f"SELECT {items} FROM {duck.source('feed', self.columns)}", feed=feed) if items else feed
        follows, live = versions.follows(), versions.n > 0
        was = follows & np.concatenate([[False], live[:-1]])
        changed = np.zeros(len(live), np.bool_)
        for name, _ in self.answers:
            codes, _ = numbered(answers.column(name))
            changed[1:] |= codes[1:] != codes[:-1]
        turned = (versions.rank > 0) & ((live != was) | (live & changed))
        news, olds = np.flatnonzero(turned & live), np.flatnonzero(turned & was)
        shown = np.concatenate([news, olds - 1])
        columns = {k: groups.column(k).take(pa.array(versions.key[shown])) for k in self.names}
        columns |= {name: answers.column(name).take(pa.array(shown)) for name, _ in self.answers}
        ranks = versions.rank[np.concatenate([news, olds])]
        diff = np.ones(len(shown), np.int64)
        diff[len(news) :] = -1
        return pa.table(columns | {"__time": pa.array(versions.times[ranks - 1]), "__diff": pa.array(diff)})

    def _delta(self, versions: Versions, groups: pa.Table, hashes: np.ndarray) -> pa.Table:
        """By how much the parts of each key have changed: its last version less what was stored."""
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
        delta = Versions(versions.key[last], versions.rank[last], n, parts, versions.times).table()
        columns = {"__h": pa.array(hashes)} | {k: groups.column(k) for k in self.names}
        return pa.table(columns | {c: delta.column(c) for c in delta.column_names})


def ranked(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the different times in order, the rank of each row's time from 0).

    >>> [x.tolist() for x in ranked(np.array([30, 10, 30]))]
    [[10, 30], [1, 0, 1]]
    """
    ids, first = number(times.astype(np.int64))
    order = np.argsort(times[first], kind="stable")
    ranks = np.empty(len(first), np.int64)
    ranks[order] = np.arange(len(first))
    return times[first][order].astype(np.int64), ranks[ids]
