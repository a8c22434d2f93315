"""Hot keys of aggregation joins: edges that copy and spread their rows, and the way home of their groups.

A key is hot in two steps. *Copied*: rows of all inputs but one go to every shard, and its home sends what it has.
*Split*, in a later plan: rows of that one input go to shards by their content. Where groups lie as the inputs do, those
of split keys then come from every shard and go round to their home:

    group[k]                     group[k]
      meet                         union
                                     filter[k is cold]
                         →             meet
                                     loop[by k]
                                       filter[k is split]
                                         meet

The loop is in the plan from the first step on, when it carries nothing but its frontier: so when the grouping begins to
read it, time does not go back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tidemill.optimize.joins.decide import HotKey
from tidemill.optimize.lower.groups import Groups
from tidemill.optimize.lower.placement import Handle, first_names
from tidemill.plan import relations as r
from tidemill.plan.aggregation_joins import Meeting, Side
from tidemill.plan.physical import Exchange, HotKeys
from tidemill.plan.relations import JoinAggregate, quoted
from tidemill.plan.sources import Column, Schema

FORMS = ("early", "late")
COUNT = Column("__n", "BIGINT")


class HotJoins(Groups):
    """What hot keys add to an aggregation join."""

    def splittable(self, node: JoinAggregate, found: Meeting, split: tuple[frozenset[str], ...],
                   sides: list[Handle], ports: tuple[str, ...]) -> dict[str, Any] | None:
        """The columns by which each input is split, and the inputs that may be spread; None where keys cannot be split.

        1. Inputs are split by columns, all of the same type, so that a key has one hash wherever it is seen.
        2. All of them come through edges that can copy: nothing lies in the shards already.
        3. An input that is spread comes from a reader, which makes a row's end together with the row: both go to the
           same shard, whatever is hot when the end comes.
        """
        if not split or node.spread is not None:
            return None
        types = {c.name: c.type for side in found.sides for c in side.keys}
        keys = [_columns(side, split) for side in found.sides]
        having = [i for i, own in enumerate(keys) if own is not None]
        spread = [i for i in having if sides[i].place == "reader" and not r.never_changes(node.inputs[i])
                  and self.origins[sides[i].op].startswith("source:")]
        same = all(len({types[c] for c in equal}) == 1 for equal in split)
        if not same or not spread or any(self._edges(ports[i]) is None for i in having):
            return None
        return {"keys": keys, "spread": spread}

    def _edges(self, port: str) -> list[str] | None:
        """The edges behind a port; None where rows come without one."""
        if port in self.exchanges or port in self.loops:
            return [port]
        op = self.stage[port]
        found = [self._edges(i) for i in op.inputs] if op.kind == "union" else [None]
        return None if None in found else [e for edges in found for e in edges or ()]

    def exempt(self, params: dict[str, Any], hot: list[HotKey], ports: tuple[str, ...], found: Meeting,
               early: Iterable[bool]) -> None:
        """Edges copy the rows of hot keys, and spread those of one input where the key is split."""
        for i, (side, folded) in enumerate(zip(found.sides, early, strict=True)):
            if params["keys"][i] is None or not hot:
                continue
            columns = side.keys if folded else (*side.keys, *side.folded)
            rule = HotKeys(
                tuple(c.name for c in columns), tuple(h.hash for h in hot if h.input == i and h.split),
                tuple(h.hash for h in hot if h.input != i))
            for edge in self._edges(ports[i]) or ():
                known = self.exchanges if edge in self.exchanges else self.loops
                known[edge] = replace(known[edge], hot=rule)

    def copies(self, node: JoinAggregate, found: Meeting, name: str, params: dict[str, Any],
               hot: list[HotKey]) -> list[tuple[int, str, str, str]]:
        """(input, form, operator, port) of what homes send of hot keys, where there are any."""
        listed = []
        for i, side in enumerate(found.sides):
            if params["keys"][i] is None or all(h.input == i for h in hot):
                continue
            late = (*side.keys, *side.folded, COUNT)
            early = (*side.keys, COUNT, *(Column(p.name, p.type) for p in side.parts.values()))
            for form, schema in zip(FORMS, (early, late), strict=True):
                if form == "early" or side.folded:
                    listed.append((i, form, *self._copy(f"copies{i}.{form}.{node.fingerprint}", name, schema)))
        return listed

    def _copy(self, pick: str, name: str, schema: Schema) -> tuple[str, str]:
        self.add_stage("picked", pick, (name,), schema, {})
        port = f"loop.{pick}"
        self.loops[port] = Exchange(port, pick, "all")
        return pick, port

    def homeward(self, handle: Handle, hot: list[HotKey]) -> Handle:
        """The groups of a join where they are when no key is split: those of split keys have gone round."""
        if not hot or handle.where.how != "hash":
            return handle
        keys = first_names(handle.where.by)
        split = [h.hash for h in hot if h.split]
        inside = f"hash({', '.join(map(quoted, keys))}) IN ({', '.join(f'{h}::UBIGINT' for h in split)})"
        inside = inside if split else "FALSE"
        away = self.add_stage("filter", f"split.{handle.op}", (handle.op,), handle.schema, {"predicate": inside})
        port = f"loop.{away}"
        self.loops[port] = Exchange(port, away, "hash", keys)
        if not split:
            return handle
        here = self.add_stage("filter", f"cold.{handle.op}", (handle.op,), handle.schema,
                              {"predicate": f"NOT ({inside})"})
        union = self.add_stage("union", f"union.{here}.{port}", (here, port), handle.schema, {})
        return self.lying(replace(handle, op=union))


def _columns(side: Side, split: tuple[frozenset[str], ...]) -> list[str] | None:
    """The columns of an input by which it is split; None where it has not all of them and is copied anyway."""
    names = {c.name for c in side.keys}
    return [min(c & names) for c in split] if all(c & names for c in split) else None
