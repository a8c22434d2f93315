"""Aggregation joins: every input in the form that its plan bit says, one operator where they meet, one grouping above.

The names of operators and ports do not depend on the plan: what is on its way and what is kept stays good when another
plan takes over between two micro-batches, and rows say by their columns which form they have.
"""

from __future__ import annotations

from typing import Any

from tidemill.optimize.joins.decide import Decision, JoinSettings, decide
from tidemill.optimize.lower.joined_windows import read_window
from tidemill.optimize.lower.joins_hot import HotJoins
from tidemill.optimize.lower.placement import ALL, ANY, ONE, Handle, Where, by_hash
from tidemill.plan import relations as r
from tidemill.plan.aggregates import parts, single
from tidemill.plan.aggregation_joins import Meeting, Side, meeting, partition
from tidemill.plan.relations import quoted
from tidemill.plan.scalars import substitute
from tidemill.plan.sources import Column

COUNT = Column("__n", "BIGINT")


class Joins(HotJoins):
    """JoinAggregate."""

    joining: JoinSettings

    def _joinaggregate(self, node: r.JoinAggregate) -> Handle:
        found = meeting(node)
        decision = decide(node, found, self.joining)
        split = partition(node, found)
        sides = [self._side(node, side, i, decision.early[i]) for i, side in enumerate(found.sides)]
        ports = tuple(self.deliver(sides[i], _lying(node, side, i, split), exact=True)
                      for i, side in enumerate(found.sides))
        keys = tuple(Column(k.name, k.type) for k in node.keys)
        expressions = {i.name: i.sql for i in node.arguments}
        needed = self._parts(node, found, expressions)
        schema = (*keys, COUNT, *(Column(name, kind) for name, kind, *_ in needed))
        kept = self.kept(node.aggregates, found.insert_only)
        name = f"meet.{node.fingerprint}"
        picks = [f"values{i}.{node.fingerprint}" for i in range(len(kept))]
        able = self.splittable(node, found, split, sides, ports)
        hot = self.joining.hot.get(node.fingerprint, []) if able else []
        copies = self.copies(node, found, name, able, hot) if able else []
        if able:
            self.exempt(able, hot, ports, found, decision.early)
            able |= {"hot": [[h.hash, h.input] for h in hot], "split": [h.hash for h in hot if h.split],
                     "copies": [[i, form, pick] for i, form, pick, _ in copies]}
        self.add_stage("join_aggregate", name, (*ports, *(port for *_, port in copies)), schema, {
            "inputs": [_input(node, found, decision, i) for i in range(len(node.inputs))],
            "on": [[found.owner(a), a, found.owner(b), b] for a, b in node.on],
            "residual": node.residual, "method": decision.method, "hot": able,
            "outputs": {
                "keys": [[k.name, k.type, k.sql] for k in node.keys], "parts": needed,
                "values": [[p, expressions[v["column"]], v["type"]] for p, v in zip(picks, kept, strict=True)],
            },
        })
        where = _joined(node, split)
        values = []
        for pick, value in zip(picks, kept, strict=True):
            columns = (*keys, Column("__v", value["type"]), COUNT)
            values.append(Handle("stage", self.add_stage("picked", pick, (name,), columns, {}), columns, where))
        met = [self.lying(h) for h in (Handle("stage", name, schema, where), *values)]
        rows, *values = [self.homeward(h, hot) for h in met]
        return self.grouped(node, rows, values, found.insert_only)

    def _side(self, node: r.JoinAggregate, side: Side, i: int, early: bool) -> Handle:
        """The rows of one input: early ones added up for each key and each time, with the parts; late ones as they are.

        Rows of a late input are what the plan takes for too different to be added up, so nobody tries.
        """
        name = f"side{i}.{node.fingerprint}"
        if not early:
            columns = (*side.keys, *side.folded)
            items = {"items": [[c.name, quoted(c.name)] for c in columns]}
            return self.extend(self.build(node.inputs[i]), "project", name, columns, items)
        window = read_window(node.inputs[i], [c.name for c in (*side.keys, *side.folded)])
        if window is not None and self.build(window.rows).place != "reader":
            window = None  # rows that lie in shards already stay there, and their columns keep their names
        below = node.inputs[i] if window is None else window.rows
        once = r.single_insertions(below)
        params: dict[str, Any] = {
            "keys": [c.name for c in side.keys], "count": "count(*)" if once else "CAST(sum(__diff) AS BIGINT)",
            "parts": [[p.name, single(p) if once else p.sql] for p in side.parts.values()],
            "extremes": side.extremes if window is not None or r.insert_only(below) else {},
        }
        schema = (*side.keys, COUNT, *(Column(p.name, p.type) for p in side.parts.values()))
        if window is None:
            return self.extend(self.build(below), "partial", name, schema, params)
        return self.extend(self.build(below), "windowed", name, schema, {**params, **window.params}, ANY)

    @staticmethod
    def _parts(node: r.JoinAggregate, found: Meeting, expressions: dict[str, str]) -> list[list[Any]]:
        """[name, type, how it adds up, input, SQL over a joined row]: parts that no input has are computed there."""
        names: dict[str, list[Any]] = {}
        for a in node.aggregates:
            owner = next((i for i, s in enumerate(found.sides) if a in s.aggregates), -1)
            for p in parts(a, found.insert_only):
                names.setdefault(p.name, [p.name, p.type, p.combine, owner, substitute(p.sql, expressions)])
        return list(names.values())


def _input(node: r.JoinAggregate, found: Meeting, decision: Decision, i: int) -> dict[str, Any]:
    side = found.sides[i]
    others = [x for j, x in enumerate(node.inputs) if j != i]
    return {
        "keys": [[c.name, c.type] for c in side.keys], "args": [[c.name, c.type] for c in side.folded],
        "parts": [[p.name, p.type, p.combine, p.sql] for p in side.parts.values()],
        "extremes": list(side.extremes), "early": decision.early[i], "order": list(decision.orders[i]),
        "stored": not all(r.never_changes(x) for x in others),
    }


def _lying(node: r.JoinAggregate, side: Side, i: int, split: tuple[frozenset[str], ...]) -> Where:
    """Split by the chosen columns, a copy in every shard where an input has not all of them, or all in one shard."""
    if node.spread is not None:
        return by_hash([c.name for c in (*side.keys, *side.folded)]) if i == node.spread else ALL
    if not split:
        return ONE
    names = {c.name for c in side.keys}
    return by_hash([min(c & names) for c in split]) if all(c & names for c in split) else ALL


def _joined(node: r.JoinAggregate, split: tuple[frozenset[str], ...]) -> Where:
    """How the groups lie after the join: as the inputs do, where the grouping keys show it."""
    if node.spread is not None:
        return ANY
    if not split:
        return ONE
    shown = [frozenset(k.name for k in node.keys if any(k.sql == quoted(c) for c in equal)) for equal in split]
    return Where("hash", tuple(shown)) if all(shown) else ANY
