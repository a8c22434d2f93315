"""Operators that keep rows by key: groupings, sets, joins of two, keyed streams."""

from __future__ import annotations

from dataclasses import fields, replace

from tidemill.optimize.lower.placement import (
    ALL,
    ONE,
    Handle,
    Where,
    by_hash,
    common_positions,
    name_of,
    placement_after,
    rename_placement,
)
from tidemill.optimize.lower.shared_taggers import COUNT, SharedTaggers, numbered_keys
from tidemill.optimize.rendering import columns_read, copies, project
from tidemill.optimize.views.joint_groups import JointGrouping, find_joint, plain_answers
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, finish, parts, single
from tidemill.plan.collected import CollectedAggregate, collected_parts
from tidemill.plan.physical import ids
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.released import Period, Periods, Shift, Step, release_chains
from tidemill.plan.scalars import ColumnRef, Literal, sql_of, template
from tidemill.plan.sources import Column
from tidemill.plan.user_aggregates import user_aggregate_parts


class Groups(SharedTaggers):
    """Shed, Tag, GroupBy, SetCombine, Join, JoinAt."""

    def place_shed(self, node: r.Shed) -> Handle:
        source = self.deliver(self.build(node.input), by_hash(node.keys))
        deleted = sql_of(node.deleted) or "FALSE"
        op = p.Shed(
            name_of(node),
            (source,),
            node.schema,
            node.input.source,
            tuple(node.keys),
            node.updates,
            node.every_us,
            deleted,
        )
        return Handle("stage", self.add_stage(op), node.schema, by_hash(node.keys))

    def place_tag(self, node: r.Tag) -> Handle:
        return self.place_shared_tag(node) or self._place_own_tag(node)

    def _place_own_tag(self, node: r.Tag) -> Handle:
        below = self.build(node.input)
        gone = Literal("FALSE") if node.deleted is None else template("coalesce({0}, FALSE)", node.deleted)
        stamps = (("__at", ColumnRef(r.TS)), ("__seq", ColumnRef(r.SEQ)), ("__gone", gone))
        items = (*copies(node.columns), *stamps)
        raw = (*node.schema, Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__gone", "BOOLEAN"))
        records = self.extend(below, project(ids.node("records", node.fingerprint), raw, items), below.where)
        if isinstance(node.input, (r.Synchronize, r.SynchronizePeriods)):
            # Of all records of a key that share a synchronization point, the last one is the answer.
            latest = p.Latest(ids.node("latest", node.fingerprint), (), raw, tuple(node.keys))
            records = self.extend(records, latest)
        source = self.deliver(records, by_hash(node.keys))
        name = self.add_stage(p.Tagger(name_of(node), (source,), node.schema, tuple(node.keys)))
        return Handle("stage", name, node.schema, by_hash(node.keys))

    def place_group_by(self, node: r.GroupBy) -> Handle:
        joint = find_joint(node, self.taggers)
        if joint is not None:
            return self._place_joint(joint)
        fed = self.place_finer_partial(node)
        if fed is not None:
            return self.add_grouping(node, fed, [], append_only=False)
        below = self.build(node.input)
        append_only = r.append_only(node.input)
        keys = tuple(Column(k, node.input.type_of(k)) for k in node.keys)
        needed = {part.name: part for a in node.aggregates for part in parts(a, append_only)}
        part_columns = tuple(Column(part.name, part.type) for part in needed.values())
        once = r.single_insertions(node.input)
        sums = [(part.name, single(part) if once else part.value) for part in needed.values()]
        op = p.Partial(
            ids.node("partial", node.fingerprint),
            (),
            (*keys, COUNT, *part_columns),
            tuple(node.keys),
            count_rows(once),
            tuple(p.Item(name, value.sql) for name, value in sums),
            columns_read=(*node.keys, *columns_read(*(value for _, value in sums))),
        )
        partial = self.extend(below, op)
        values = []
        for i, value in enumerate(self.find_kept_values(node.aggregates, append_only)):
            schema = (*keys, Column("__v", value.type), COUNT)
            name = ids.numbered_id("values", i, node.fingerprint)
            values.append(self.extend(below, p.Values(name, (), schema, tuple(node.keys), value.column)))
        return self.add_grouping(node, partial, values, append_only)

    def _place_joint(self, found: JointGrouping) -> Handle:
        """A grouping over the numbered changes of a shared tagger."""
        node, shared = found.node, self.taggers[found.tagger.tag.fingerprint]
        rows = self.place_numbered_rows(found, shared)
        keys = tuple(Column(k, node.input.type_of(k)) for k in node.keys)
        op = self._grouping(node, (rows.op,), keys, append_only=False)
        needed = {part.name: part for a in node.aggregates for part in parts(a, False)}
        predicate = None if found.tagger.predicate == shared.predicate else found.tagger.predicate
        joint = p.JointGroup(
            **{f.name: getattr(op, f.name) for f in fields(op)},
            rows=rows.schema,
            read=numbered_keys(found),
            predicate=sql_of(predicate),
            sums=tuple(p.Item(name, part.value.substitute(found.arguments).sql) for name, part in needed.items()),
            addends=found.addends,
            plain=plain_answers(node.aggregates),
        )
        renames = dict(zip(joint.read, node.keys, strict=True))
        where = rename_placement(rows.where, renames)
        return Handle("stage", self.add_stage(joint), node.schema, where)

    def add_grouping(
        self, node: r.GroupBy | r.JoinAggregate, partial: Handle, values: list[Handle], append_only: bool
    ) -> Handle:
        """The grouping itself, over partial aggregates and the changes of kept values."""
        keys = node.schema[: len(node.schema) - len(node.aggregates)]
        need = by_hash([c.name for c in keys]) if keys else ONE
        inputs = tuple(self.deliver(h, need) for h in (partial, *values))
        name = self.add_stage(self._grouping(node, inputs, keys, append_only))
        return Handle("stage", name, node.schema, placement_after(partial, need))

    def _grouping(
        self, node: r.GroupBy | r.JoinAggregate, inputs: tuple[str, ...], keys: tuple[Column, ...], append_only: bool
    ) -> p.Group:
        needed = {part.name: part for a in node.aggregates for part in parts(a, append_only)}
        kept = self.find_kept_values(node.aggregates, append_only)
        positions: dict[str | None, int] = {value.column: i for i, value in enumerate(kept)}
        return p.Group(
            name_of(node),
            inputs,
            node.schema,
            keys,
            tuple(p.Part(part.name, part.type, part.combine) for part in needed.values()),
            kept,
            "static" if r.never_changes(node) else r.beginning(node),
            tuple(p.Item(a.name, answer_sql(a, append_only, positions)) for a in node.aggregates),
            isinstance(node, r.GroupBy) and r.groups_at_once(node),
        )

    @staticmethod
    def find_kept_values(aggregates: tuple[Aggregate, ...], append_only: bool) -> tuple[p.KeptValues, ...]:
        """Columns whose values are kept, and what for."""
        found: dict[str, p.KeptValues] = {}
        for a in aggregates:
            if a.keeps_values(append_only):
                value = found.get(str(a.argument)) or p.KeptValues(str(a.argument), str(a.argument_type))
                found[value.column] = replace(
                    value,
                    user_aggregates=tuple(dict.fromkeys((*value.user_aggregates, *user_aggregate_parts([a])))),
                    once=parts(a, append_only)[0].name if a.distinct else value.once,
                    sets=a.sets if a.distinct else value.sets,
                    low=value.low or (a.function == "min" and not a.collects),
                    high=value.high or (a.function == "max" and not a.collects),
                    calls=(*value.calls, *collected_parts([a])),
                    fields=a.fields if isinstance(a, CollectedAggregate) else value.fields,
                )
        return tuple(found.values())

    def place_set_combine(self, node: r.SetCombine) -> Handle:
        sides = [self.build(c) for c in (node.left, node.right) if c is not None]
        names, types = node.names, tuple(c.type for c in node.schema)
        wanted = [list(s.names) for s in (node.left, node.right) if s is not None]
        by = common_positions(sides, wanted)
        chosen = [names[i] for i in by]
        schema = (*node.schema, Column("__l", "BIGINT"), Column("__r", "BIGINT"))
        inputs = []
        for side, handle in enumerate(sides):
            name = ids.numbered_id("counted", side, node.fingerprint)
            op = p.Counted(name, (), schema, tuple(names), types, side, tuple(wanted[side]))
            counted = self._extend_renamed(handle, op, dict(zip(wanted[side], names, strict=True)))
            inputs.append(self.deliver(counted, by_hash(chosen), exact=True))
        stamp = _last_stamp(node)
        points: list[str] = []
        released: p.Released = {}
        if stamp is not None:
            released = {
                side: self._place_chains(below, below.names[node.names.index(stamp)], points)
                for side, below in (("left", node.left), ("right", node.right))
                if below is not None
            }
        placed = (*inputs, *points)
        combine = p.SetCombine(name_of(node), placed, node.schema, node.kind, len(inputs), stamp, released)
        return Handle("stage", self.add_stage(combine), node.schema, by_hash(chosen))

    def _extend_renamed(self, handle: Handle, op: p.Linear, renames: dict[str, str]) -> Handle:
        if handle.place == "union":
            branches = tuple(
                self._extend_renamed(b, replace(op, id=ids.variant(op.id, i)), renames)
                for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=op.schema, branches=branches)
        return self.extend(handle, op, rename_placement(handle.where, renames))

    def place_join(self, node: r.Join) -> Handle:
        left, right = self.build(node.left), self.build(node.right)
        pairs = node.on
        by = common_positions([left, right], [[a for a, _ in pairs], [b for _, b in pairs]])
        lkeys, rkeys = [pairs[i][0] for i in by], [pairs[i][1] for i in by]
        inputs: tuple[str, ...] = (
            self.deliver(left, by_hash(lkeys) if pairs else ONE, exact=True),
            self.deliver(right, by_hash(rkeys) if pairs else ONE, exact=True),
        )
        released: p.Released | None = None
        if node.left_ts is not None and node.right_ts is not None:
            points: list[str] = []
            released = {
                "left": self._place_chains(node.left, node.left_ts, points),
                "right": self._place_chains(node.right, node.right_ts, points),
            }
            inputs = (*inputs, *points)
        stored = (not r.never_changes(node.right), not r.never_changes(node.left))
        op = p.Join(
            name_of(node),
            inputs,
            node.schema,
            p.JoinSide(node.left.schema, tuple(a for a, _ in pairs), node.left_ts, node.keep_left_us, stored[0]),
            p.JoinSide(node.right.schema, tuple(b for _, b in pairs), node.right_ts, node.keep_right_us, stored[1]),
            sql_of(node.residual),
            released,
        )
        name = self.add_stage(op)
        where = Where("hash", tuple(frozenset(pair) for pair in zip(lkeys, rkeys, strict=True))) if pairs else ONE
        return Handle("stage", name, node.schema, where)

    def place_join_at(self, node: r.JoinAt) -> Handle:
        left, right = self.build(node.left), self.build(node.right)
        by = common_positions([left, right], [[a for a, _ in node.on], [b for _, b in node.on]])
        lkeys, rkeys = [node.on[i][0] for i in by], [node.on[i][1] for i in by]
        inputs = (
            self.deliver(left, by_hash(lkeys) if node.on else ONE, exact=True),
            self.deliver(right, by_hash(rkeys) if node.on else ONE, exact=True),
        )
        op = p.JoinAt(
            name_of(node),
            inputs,
            node.schema,
            p.JoinSide(node.left.schema, tuple(a for a, _ in node.on), stored=False),
            p.JoinSide(node.right.schema, tuple(b for _, b in node.on)),
            sql_of(node.residual),
            node.outer,
            node.before,
        )
        return Handle("stage", self.add_stage(op), node.schema, by_hash(lkeys) if node.on else ONE)

    def _place_chains(self, node: Relation, stamp: str, points: list[str]) -> p.Chains | None:
        """The chains of `plan.released` for the operator: a relation of points is one of its inputs, by number."""
        chains = release_chains(node, stamp)
        return None if chains is None else tuple(tuple(self._step(s, points) for s in chain) for chain in chains)

    def _step(self, step: Step, points: list[str]) -> p.Step:
        if isinstance(step, Shift):
            return p.Shift(step.us)
        if isinstance(step, Period):
            return p.Period(step.every, step.offset)
        if isinstance(step, Periods):
            return p.Periods(step.periods)
        port = self.deliver(self.build(step.relation), ALL)
        if port not in points:
            points.append(port)
        return p.PointsInput(points.index(port))


def count_rows(once: bool) -> str:
    """SQL for the number of rows in a set of changes; `once`: each inserts one row."""
    return "count(*)" if once else "CAST(sum(__diff) AS BIGINT)"


def _last_stamp(node: r.SetCombine) -> str | None:
    """The stamp by which it is known that a row changes no more: inputs are append-only, and for each stamp there is a
    time after which no row of it comes.
    """
    sides = [s for s in (node.left, node.right) if s is not None]
    if not all(r.append_only(s) and not r.never_changes(s) for s in sides):
        return None
    known = (n for i, n in enumerate(node.names) if all(release_chains(s, s.names[i]) is not None for s in sides))
    return next(known, None)


def answer_sql(aggregate: Aggregate, append_only: bool, positions: dict[str | None, int]) -> str:
    for part in user_aggregate_parts([aggregate]):
        return f"CAST({quoted(part.name)} AS {aggregate.type})"
    for call in collected_parts([aggregate]):
        return quoted(call.name)
    if not aggregate.is_extreme(append_only):
        return f"CAST({finish(aggregate).sql} AS {aggregate.type})"
    column = {"min": "__least", "max": "__most"}[aggregate.function]
    return f"CAST({column}{positions[aggregate.argument]} AS {aggregate.type})"
