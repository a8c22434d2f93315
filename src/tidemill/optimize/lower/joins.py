"""Aggregation joins: every input early or late as its plan bit says, one operator that joins them, one grouping above.

The names of operators and ports do not depend on the plan bits: rows in transit and state remain valid when another
plan takes over between two micro-batches. The columns of a row show whether it is early or late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.optimize.joins.decide import Decision, HotKey, JoinSettings, decide
from tidemill.optimize.lower.groups import count_rows
from tidemill.optimize.lower.joined_windows import read_window
from tidemill.optimize.lower.joins_hot import HotJoins
from tidemill.optimize.lower.placement import ALL, ANY, ONE, Handle, Where, by_hash
from tidemill.optimize.lower.shared_taggers import COUNT
from tidemill.optimize.rendering import columns_read, copies, project
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.aggregates import parts, single
from tidemill.plan.aggregation_joins import JoinAnalysis, Side, analyze_join, partition
from tidemill.plan.physical import ids
from tidemill.plan.scalars import ColumnRef, Scalar, sql_of
from tidemill.plan.sources import Column, Schema


class Joins(HotJoins):
    """JoinAggregate."""

    join_settings: JoinSettings

    def place_join_aggregate(self, node: r.JoinAggregate) -> Handle:
        found = analyze_join(node)
        decision = decide(node, found, self.join_settings)
        split = partition(node, found)
        sides = [self._place_side(node, side, i, decision.early[i]) for i, side in enumerate(found.sides)]
        ports = tuple(
            self.deliver(sides[i], _placement_of_input(node, side, i, split), exact=True)
            for i, side in enumerate(found.sides)
        )
        keys = tuple(Column(k.name, k.type) for k in node.keys)
        kept = self.find_kept_values(node.aggregates, found.append_only)
        name = ids.node("meet", node.fingerprint)
        picks = [ids.numbered_id("values", i, node.fingerprint) for i in range(len(kept))]
        outputs = self._outputs(node, found, dict(zip(picks, kept, strict=True)))
        schema = (*keys, COUNT, *(Column(part.name, part.type) for part in outputs.parts))
        able = self.find_splitting(node, found, split, sides, ports)
        hot = self.join_settings.hot.get(node.fingerprint, []) if able else []
        copies = self.copy_hot_keys(node, found, name, able, hot) if able else []
        if able:
            self.exempt_hot_keys(able, hot, ports, found, decision.early)
            able = _add_hot_keys(able, hot, [copy for copy, _ in copies])
        self.add_stage(
            p.JoinAggregate(
                name,
                (*ports, *(port for _, port in copies)),
                schema,
                tuple(_input(node, found, decision, i) for i in range(len(node.inputs))),
                tuple(p.Equality(found.owner(a), a, found.owner(b), b) for a, b in node.on),
                sql_of(node.residual),
                decision.method,
                outputs,
                able,
            )
        )
        handles = self._pick_outputs(
            name, schema, keys, dict(zip(picks, kept, strict=True)), _placement_of_groups(node, split)
        )
        rows, *values = [self.route_home(h, hot) for h in handles]
        return self.add_grouping(node, rows, values, found.append_only)

    def _pick_outputs(
        self, name: str, schema: Schema, keys: Schema, kept: dict[str, p.KeptValues], where: Where
    ) -> list[Handle]:
        """What comes out of the join `name`: partial aggregates, then the values that the grouping keeps."""
        handles = [self.note_placement(Handle("stage", name, schema, where))]
        for pick, value in kept.items():
            columns = (*keys, Column("__v", value.type), COUNT)
            picked = self.add_stage(p.Picked(pick, (name,), columns))
            handles.append(self.note_placement(Handle("stage", picked, columns, where)))
        return handles

    def _outputs(self, node: r.JoinAggregate, found: JoinAnalysis, kept: dict[str, p.KeptValues]) -> p.JoinOutputs:
        """What is computed from joined rows; `kept` are the values that the grouping keeps, by the operator that picks
        them.
        """
        expressions = {i.name: i.value for i in node.arguments}
        computed = _computed_parts(node, found, expressions)
        read = [k.value for k in node.keys] + [value for _, value in computed]
        read += [expressions[v.column] for v in kept.values()] + ([node.residual] if node.residual is not None else [])
        return p.JoinOutputs(
            tuple(p.OutputKey(k.name, k.type, k.sql) for k in node.keys),
            tuple(part for part, _ in computed),
            tuple(p.OutputValues(pick, expressions[v.column].sql, v.type) for pick, v in kept.items()),
            {value.sql: tuple(sorted(value.columns)) for value in read},
        )

    def _place_side(self, node: r.JoinAggregate, side: Side, i: int, early: bool) -> Handle:
        """The rows of one input: early ones added up for each key and each time, with the parts; late ones as they are.

        The plan expects the rows of a late input to have too many different keys, so they are not aggregated.
        """
        name = ids.numbered_id("side", i, node.fingerprint)
        if not early:
            columns = (*side.keys, *side.folded)
            items = copies(c.name for c in columns)
            return self.extend(self.build(node.inputs[i]), project(name, columns, items))
        window = read_window(node.inputs[i], [c.name for c in (*side.keys, *side.folded)])
        if window is not None and self.build(window.rows).place != "reader":
            window = None  # rows that lie in shards already stay there, and their columns keep their names
        below = node.inputs[i] if window is None else window.rows
        once = r.single_insertions(below)
        keys = tuple(c.name for c in side.keys)
        values = [single(part) if once else part.value for part in side.parts.values()]
        sums = tuple(p.Item(name, value.sql) for name, value in zip(side.parts, values, strict=True))
        extremes = side.extremes if window is not None or r.append_only(below) else {}
        schema = (*side.keys, COUNT, *(Column(part.name, part.type) for part in side.parts.values()))
        read = (*keys, *columns_read(*values))
        partial = p.Partial(name, (), schema, keys, count_rows(once), sums, extremes, read)
        if window is not None:
            return self.extend(self.build(below), window.add_up(partial), ANY)
        return self.extend(self.build(below), partial)


def _computed_parts(
    node: r.JoinAggregate, found: JoinAnalysis, expressions: dict[str, Scalar]
) -> list[tuple[p.OutputPart, Scalar]]:
    """Parts of the output and their expressions: those that no input has are computed from joined rows."""
    names: dict[str, tuple[p.OutputPart, Scalar]] = {}
    for a in node.aggregates:
        owner = next((i for i, s in enumerate(found.sides) if a in s.aggregates), -1)
        for part in parts(a, found.append_only):
            value = part.value.substitute(expressions)
            names.setdefault(part.name, (p.OutputPart(part.name, part.type, part.combine, owner, value.sql), value))
    return list(names.values())


def _add_hot_keys(able: p.Splitting, hot: Sequence[HotKey], copies: Sequence[p.Copy]) -> p.Splitting:
    return replace(
        able,
        hot=tuple(p.HotKey(h.hash, h.input) for h in hot),
        split=tuple(h.hash for h in hot if h.split),
        copies=tuple(copies),
    )


def _input(node: r.JoinAggregate, found: JoinAnalysis, decision: Decision, i: int) -> p.JoinInput:
    side = found.sides[i]
    others = [x for j, x in enumerate(node.inputs) if j != i]
    return p.JoinInput(
        tuple(side.keys),
        tuple(side.folded),
        tuple(p.InputPart(part.name, part.type, part.combine, part.sql) for part in side.parts.values()),
        decision.early[i],
        tuple(decision.orders[i]),
        not all(r.never_changes(x) for x in others),
        tuple(side.extremes),
    )


def _placement_of_input(node: r.JoinAggregate, side: Side, i: int, split: tuple[frozenset[str], ...]) -> Where:
    """Split by the chosen columns, a copy in every shard where an input has not all of them, or all in one shard."""
    if node.spread is not None:
        return by_hash([c.name for c in (*side.keys, *side.folded)]) if i == node.spread else ALL
    if not split:
        return ONE
    names = {c.name for c in side.keys}
    return by_hash([min(c & names) for c in split]) if all(c & names for c in split) else ALL


def _placement_of_groups(node: r.JoinAggregate, split: tuple[frozenset[str], ...]) -> Where:
    """The placement of groups after the join: that of the inputs, where the grouping keys contain its columns."""
    if node.spread is not None:
        return ANY
    if not split:
        return ONE
    shown = [frozenset(k.name for k in node.keys if any(k.value == ColumnRef(c) for c in equal)) for equal in split]
    return Where("hash", tuple(shown)) if all(shown) else ANY
