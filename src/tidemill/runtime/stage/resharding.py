"""The state of all shards, put into another number of shards.

An operator keeps rows as they came in, or by keys that are among their columns. So a kept row is in the shard of the
input: by the hash of some columns, in the first shard, in all of them, or in any. With n shards a row of hash h is in
shard h mod n; with m shards it is in shard h mod m, where its next changes will go. Segments are cut,
not sorted anew: a part of a sorted segment is sorted.

Law: with the state after batch b in m shards instead of n, every later batch has the same answers. Before anything is
moved it is checked that every row is where it should be: the home that a plan gives to a row is compared with the
shard that has it, and the move is refused where they differ (`Unmovable`).

Small notes of an operator are the same in all shards, or those of the first are what counts, or they are put together
as `_MERGED` says.

Hot keys of a join are in several shards. Rows of inputs that are copied are in every shard, so those at home stand for
all. Rows of the input that is spread are in one shard or another, each together with the change that will take it back:
they may go anywhere, as long as all of one shard go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.homes import Home
from tidemill.plan.physical import Exchange, Op, Physical
from tidemill.plan.sources import Schema
from tidemill.runtime.dataflow.changes import key_hashes
from tidemill.runtime.evaluation.evaluate import STATEFUL, shard_numbers
from tidemill.runtime.state.segments import Segment
from tidemill.runtime.state.shard_state import ShardState

Notes = dict[str, Any]


class Unmovable(Exception):
    """The state of an operator cannot be put into another number of shards, and why."""


def rehash(plan: Physical, homes: Mapping[str, Home], states: list[ShardState], fresh: list[ShardState]) -> None:
    """Put what the states hold, in the order of `plan.shards`, into fresh ones; nothing is written yet."""
    move = _Move(plan, homes, states, fresh)
    for name in sorted({n for state in states for n in (*state.stored, *state.values)}):
        if name.startswith("@"):
            move.own(name)
        elif name in move.ops:
            move.operator(move.ops[name])


class _Move:
    def __init__(self, plan: Physical, homes: Mapping[str, Home], old: list[ShardState], new: list[ShardState]) -> None:
        self.homes, self.old, self.new = homes, old, new
        self.ops = {op.id: op for op in plan.stage if type(op) in STATEFUL}
        known = {op.id: op.schema for op in (*plan.reader, *plan.stage)}
        self.schemas: dict[str, Schema] = known | {
            e.port: known[e.source_op] for e in (*plan.exchanges, *plan.loops) if e.source_op in known
        }
        self.hot = {e.port: e for e in (*plan.exchanges, *plan.loops) if e.hot and (e.hot.spread or e.hot.copied)}
        for op in plan.stage:  # all branches of a union that feeds such a join have the same exceptions
            if isinstance(op, p.Union) and op.inputs[0] in self.hot:
                self.hot[op.id] = self.hot[op.inputs[0]]

    def own(self, name: str) -> None:
        """Notes on sources, ports and the clock are equal in all shards. A provisional end is computed again."""
        if name != "@peek":
            found = [state.values.get(name, {}) for state in self.old]
            if any(one != found[0] for one in found):
                raise Unmovable(f"the shards do not agree on {name}")
            for state in self.new:
                state.values[name] = dict(found[0])

    def operator(self, op: Op) -> None:
        notes = [state.values.get(op.id, {}) for state in self.old]
        home = self.homes.get(op.inputs[0])
        if home is not None and home.how == "one":
            merged: list[Notes] = [dict(notes[0]), *({} for _ in self.new[1:])]
        else:
            merged = _merge_notes(op, notes, len(self.new))
        for state, found in zip(self.new, merged, strict=True):
            if found:
                state.values[op.id] = found
        for name in sorted({n for state in self.old for n in state.stored.get(op.id, {})}):
            self._arrangement(op, name, _input_of(op, name))

    def _arrangement(self, op: Op, name: str, source: str) -> None:
        home = self._home_of(op, source)
        if home is None:
            raise Unmovable(f"nothing is known of where {op.kind} {op.id} has its rows")
        pieces: list[list[pa.Table]] = [[] for _ in self.new]
        for index, state in enumerate(self.old):
            for segment in state.stored.get(op.id, {}).get(name, ()):
                rows = state.store.read(segment).slice(segment.start)
                rows, hot = self._split_hot(self.hot.get(source), source, index, rows)
                for target, part in (*hot, *self._place_rows(op, home, source, index, rows)):
                    pieces[target].append(part)
        for state, found in zip(self.new, pieces, strict=True):
            if found:
                # The largest first: a segment is merged with the one before it when that is not much larger.
                segments = [Segment(t.num_rows, table=t.combine_chunks()) for t in found]
                state.stored.setdefault(op.id, {})[name] = sorted(segments, key=lambda s: -s.rows)

    def _home_of(self, op: Op, source: str) -> Home | None:
        """Where the rows of an input lie, by the names that the operator stores."""
        home = self.homes.get(source)
        if home is None or not isinstance(op, p.JointGroup):
            return home
        own = {name: key.name for name, key in zip(op.read, op.keys, strict=True)}
        return Home(home.how, tuple(frozenset(own[n] for n in equal if n in own) for equal in home.by))

    def _split_hot(
        self, edge: Exchange | None, source: str, index: int, rows: pa.Table
    ) -> tuple[pa.Table, list[tuple[int, pa.Table]]]:
        """(rows of keys that have a home, (new shard, rows) of the others)."""
        if edge is None or edge.hot is None or not rows.num_rows:
            return rows, []
        hashes = key_hashes(rows, self.schemas.get(source, ()), edge.keys)
        spread, copied = (np.isin(hashes, np.array(keys, np.uint64)) for keys in (edge.hot.spread, edge.hot.copied))
        at_home = hashes % np.uint64(len(self.old)) == index
        whole, some = rows.filter(pa.array(copied & at_home)), rows.filter(pa.array(spread))
        found = [*((i, whole) for i in range(len(self.new))), (index % len(self.new), some)]
        return rows.filter(pa.array(~spread & ~copied)), [(i, part) for i, part in found if part.num_rows]

    def _place_rows(self, op: Op, home: Home, source: str, index: int, rows: pa.Table) -> list[tuple[int, pa.Table]]:
        """(new shard, rows) of the rows of one segment."""
        if not rows.num_rows:
            return []
        if home.how == "all":
            return [(i, rows) for i in range(len(self.new))] if index == 0 else []
        if home.how == "any":
            return [(index % len(self.new), rows)]
        keys = home.columns(rows.column_names) if home.how == "hash" else []
        if keys is None:
            raise Unmovable(f"{op.kind} {op.id} does not have the columns by which its rows lie")
        schema = op.keys if isinstance(op, p.JointGroup) else self.schemas.get(source, ())
        if (shard_numbers(rows, schema, keys, len(self.old)) != index).any():
            raise Unmovable(f"{op.kind} {op.id} has rows that are not where they should be")
        owner = shard_numbers(rows, schema, keys, len(self.new))
        parts = ((i, rows.filter(pa.array(owner == i))) for i in np.unique(owner).tolist())
        return [(i, part) for i, part in parts]


def _input_of(op: Op, name: str) -> str:
    """The input whose rows an arrangement of an operator has."""
    if isinstance(op, (p.Join, p.JoinAt)):
        return op.inputs[1 if name.startswith("right_") else 0]
    if isinstance(op, p.JoinAggregate):
        return op.inputs[int(name.split(" ")[0])]
    if isinstance(op, p.Alternatives):
        return op.inputs[op.plans.index(int(name.split(" ")[0]))]
    return op.inputs[0]


def _merge_notes(op: Op, notes: list[Notes], count: int) -> list[Notes]:
    """The notes of each new shard."""
    if type(op) in _MERGED:
        return _MERGED[type(op)](notes, count)
    if all(one == notes[0] for one in notes):
        return [dict(notes[0]) for _ in range(count)]
    raise Unmovable(f"the shards do not agree on {op.kind} {op.id}")


def _points(notes: list[Notes], count: int) -> list[Notes]:
    """An rstream: points are the same in all shards, and a shard that had rows has stored the next point of a period. A
    shard that comes to a point early has no rows there.
    """
    begun = [one["next"] for one in notes if one.get("next") is not None]
    known = [{k: v for k, v in one.items() if k != "next"} for one in notes]
    if any(one != known[0] for one in known):
        raise Unmovable("the shards do not agree on the points of an rstream")
    return [{**known[0], **({"next": min(begun)} if begun else {})} for _ in range(count)]


def _last_points(notes: list[Notes], count: int) -> list[Notes]:
    """A fragment store: shards that have reported a query have reported it up to the same point. One that has not had
    no fragments before that point. How many rows were left when it was last gone through is found again.
    """
    last: dict[str, int] = {}
    for one in notes:
        for query, point in one.get("last", {}).items():
            if last.setdefault(query, point) != point:
                raise Unmovable("the shards have reported a window up to different points")
    return [{"last": dict(last)} if last else {} for _ in range(count)]


def _band(notes: list[Notes], count: int) -> list[Notes]:
    """A join or a set: points that hold rows back are the same everywhere; how many rows were kept is found again."""
    known = [{k: v for k, v in one.items() if k.startswith("points")} for one in notes]
    if any(one != known[0] for one in known):
        raise Unmovable("the shards do not agree on the points of a join or a set")
    return [dict(known[0]) for _ in range(count)]


def _counts(notes: list[Notes], count: int) -> list[Notes]:
    """An aggregation join: the rows of each input, which the optimizer adds up over the shards."""
    hot = [one.get("hot", []) for one in notes]
    if any(one != hot[0] for one in hot):
        raise Unmovable("the shards do not agree on the hot keys of a join")
    names = sorted({name for one in notes for name in one if name != "hot"})
    whole = {
        name: [sum(each) for each in zip(*(one[name] for one in notes if name in one), strict=True)] for name in names
    }
    known = {"hot": hot[0]} if hot[0] else {}
    return [{**whole, **known}, *(dict(known) for _ in range(count - 1))]


_MERGED: dict[type[Op], Callable[[list[Notes], int], list[Notes]]] = {
    p.Rstream: _points,
    p.Weave: _last_points,
    p.Join: _band,
    p.SetCombine: _band,
    p.JoinAggregate: _counts,
}
