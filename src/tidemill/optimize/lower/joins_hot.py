"""Hot keys of aggregation joins: edges that copy and spread their rows, and the loop that returns their groups.

A key is hot in two steps. *Copied*: rows of all inputs but one go to every shard, and its home sends what it has.
*Split*, in a later plan: rows of that one input go to shards by their content. Where groups are placed like the inputs,
those of split keys then come from every shard, and a loop returns them to their home shard:

    group[k]                     group[k]
      join                         union
                                     filter[k is cold]
                         →             join
                                     loop[by k]
                                       filter[k is split]
                                         join

The loop is in the plan from the first step on, when it carries only its frontier: so the frontier of the grouping does
not go back when it begins to read the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.optimize.joins.decide import HotKey
from tidemill.optimize.lower.groups import Groups
from tidemill.optimize.lower.placement import Handle, first_names
from tidemill.optimize.lower.shared_taggers import COUNT
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.aggregation_joins import JoinAnalysis, Side
from tidemill.plan.physical import ids
from tidemill.plan.relations import JoinAggregate, quoted
from tidemill.plan.sources import Column, Schema

FORMS = ("early", "late")


class HotJoins(Groups):
    """What hot keys add to an aggregation join."""

    def find_splitting(
        self,
        node: JoinAggregate,
        found: JoinAnalysis,
        split: tuple[frozenset[str], ...],
        sides: list[Handle],
        ports: tuple[str, ...],
    ) -> p.Splitting | None:
        """The columns by which each input is split, and the inputs that may be spread; None where keys cannot be split.

        1. Inputs are split by columns, all of the same type, so that a key has one hash wherever it is seen.
        2. All of them come through edges that can copy: no input is already in the shards.
        3. An input that is spread comes from a reader, which makes a row's end together with the row: both go to the
           same shard, whatever is hot when the end comes.
        """
        if not split or node.spread is not None:
            return None
        types = {c.name: c.type for side in found.sides for c in side.keys}
        keys = [_columns(side, split) for side in found.sides]
        having = [i for i, own in enumerate(keys) if own is not None]
        spread = [
            i
            for i in having
            if sides[i].place == "reader"
            and not r.never_changes(node.inputs[i])
            and ids.is_of_source(self.origins[sides[i].op])
        ]
        same = all(len({types[c] for c in equal}) == 1 for equal in split)
        if not same or not spread or any(self._edges(ports[i]) is None for i in having):
            return None
        return p.Splitting(tuple(keys), tuple(spread))

    def _edges(self, port: str) -> list[str] | None:
        """The edges behind a port; None where rows come without one."""
        if port in self.exchanges or port in self.loops:
            return [port]
        op = self.stage[port]
        found = [self._edges(i) for i in op.inputs] if isinstance(op, p.Union) else [None]
        return None if None in found else [e for edges in found for e in edges or ()]

    def exempt_hot_keys(
        self, able: p.Splitting, hot: list[HotKey], ports: tuple[str, ...], found: JoinAnalysis, early: Iterable[bool]
    ) -> None:
        """Edges copy the rows of hot keys, and spread those of one input where the key is split."""
        for i, (side, folded) in enumerate(zip(found.sides, early, strict=True)):
            if able.keys[i] is None or not hot:
                continue
            columns = side.keys if folded else (*side.keys, *side.folded)
            rule = p.HotKeys(
                tuple(c.name for c in columns),
                tuple(h.hash for h in hot if h.input == i and h.split),
                tuple(h.hash for h in hot if h.input != i),
            )
            for edge in self._edges(ports[i]) or ():
                known = self.exchanges if edge in self.exchanges else self.loops
                known[edge] = replace(known[edge], hot=rule)

    def copy_hot_keys(
        self, node: JoinAggregate, found: JoinAnalysis, name: str, able: p.Splitting, hot: list[HotKey]
    ) -> list[tuple[p.Copy, str]]:
        """The rows of hot keys that home shards send, where there are any, and the port at which they arrive."""
        listed = []
        for i, side in enumerate(found.sides):
            if able.keys[i] is None or all(h.input == i for h in hot):
                continue
            late = (*side.keys, *side.folded, COUNT)
            early = (*side.keys, COUNT, *(Column(part.name, part.type) for part in side.parts.values()))
            for form, schema in zip(FORMS, (early, late), strict=True):
                if form == "early" or side.folded:
                    pick, port = self._copy(ids.copies(i, form, node.fingerprint), name, schema)
                    listed.append((p.Copy(i, form, pick), port))
        return listed

    def _copy(self, pick: str, name: str, schema: Schema) -> tuple[str, str]:
        self.add_stage(p.Picked(pick, (name,), schema))
        port = ids.hot_loop(pick)
        self.loops[port] = p.Exchange(port, pick, "all")
        return pick, port

    def route_home(self, handle: Handle, hot: list[HotKey]) -> Handle:
        """The groups of a join in their home shards: a loop returns those of split keys."""
        if not hot or handle.where.how != "hash":
            return handle
        keys = first_names(handle.where.by)
        split = [h.hash for h in hot if h.split]
        inside = f"hash({', '.join(map(quoted, keys))}) IN ({', '.join(f'{h}::UBIGINT' for h in split)})"
        inside = inside if split else "FALSE"
        away = self.add_stage(p.Filter(ids.split(handle.op), (handle.op,), handle.schema, inside, keys))
        port = ids.hot_loop(away)
        self.loops[port] = p.Exchange(port, away, "hash", keys)
        if not split:
            return handle
        here = self.add_stage(p.Filter(ids.cold(handle.op), (handle.op,), handle.schema, f"NOT ({inside})", keys))
        union = self.add_stage(p.Union(ids.union((here, port)), (here, port), handle.schema))
        return self.note_placement(replace(handle, op=union))


def _columns(side: Side, split: tuple[frozenset[str], ...]) -> tuple[str, ...] | None:
    """The columns of an input by which it is split; None where it has not all of them and is copied anyway."""
    names = {c.name for c in side.keys}
    return tuple(min(c & names) for c in split) if all(c & names for c in split) else None
