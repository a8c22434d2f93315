"""Operators that keep rows by key: groupings, sets, joins of two, keyed streams."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.placement import (
    ALL,
    ANY,
    ONE,
    Handle,
    Where,
    by_hash,
    common_positions,
    delivered,
    mapped,
    name_of,
)
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, finish, parts, single
from tidemill.plan.custom import object_parts
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.released import Period, Shift, Step, released
from tidemill.plan.sources import Column, Schema


class Groups(Edges):
    """Tag, GroupBy, SetCombine, Join."""

    def _tag(self, node: r.Tag) -> Handle:
        below = self.build(node.input)
        gone = f"coalesce({node.deleted}, FALSE)" if node.deleted else "FALSE"
        items = [[c, quoted(c)] for c in node.columns]
        items += [["__at", quoted(r.TS)], ["__seq", quoted(r.SEQ)], ["__gone", gone]]
        raw = (*node.schema, Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__gone", "BOOLEAN"))
        records = self.extend(below, "project", f"records.{node.fingerprint}", raw, {"items": items}, ANY)
        if isinstance(node.input, r.Synchronize):
            # Of all records of a key that share a synchronization point, the last one is the answer.
            records = self.extend(records, "latest", f"latest.{node.fingerprint}", raw, {"keys": list(node.keys)})
        source = self.deliver(records, by_hash(node.keys))
        name = self.add_stage("tagger", name_of(node), (source,), node.schema, {"keys": list(node.keys)})
        return Handle("stage", name, node.schema, by_hash(node.keys))

    def _groupby(self, node: r.GroupBy) -> Handle:
        below = self.build(node.input)
        insert_only = r.insert_only(node.input)
        keys = tuple(Column(k, node.input.type_of(k)) for k in node.keys)
        needed = {p.name: p for a in node.aggregates for p in parts(a, insert_only)}
        part_columns = tuple(Column(p.name, p.type) for p in needed.values())
        partial_schema = (*keys, Column("__n", "BIGINT"), *part_columns)
        once = r.single_insertions(node.input)
        params = {
            "keys": list(node.keys), "count": "count(*)" if once else "CAST(sum(__diff) AS BIGINT)",
            "parts": [[p.name, single(p) if once else p.sql] for p in needed.values()],
        }
        partial = self.extend(below, "partial", f"partial.{node.fingerprint}", partial_schema, params)
        values = []
        for i, value in enumerate(self.kept(node.aggregates, insert_only)):
            schema = (*keys, Column("__v", value["type"]), Column("__n", "BIGINT"))
            values.append(self.extend(below, "values", f"values{i}.{node.fingerprint}", schema,
                                      {"keys": list(node.keys), "value": value["column"]}))
        return self.grouped(node, partial, values, insert_only)

    def grouped(self, node: r.GroupBy | r.JoinAggregate, partial: Handle, values: list[Handle],
                insert_only: bool) -> Handle:
        """The grouping itself, over partial aggregates and the changes of kept values."""
        keys = node.schema[: len(node.schema) - len(node.aggregates)]
        need = by_hash([c.name for c in keys]) if keys else ONE
        needed = {p.name: p for a in node.aggregates for p in parts(a, insert_only)}
        kept = self.kept(node.aggregates, insert_only)
        positions: dict[str | None, int] = {value["column"]: i for i, value in enumerate(kept)}
        inputs = tuple(self.deliver(h, need) for h in (partial, *values))
        name = self.add_stage("group", name_of(node), inputs, node.schema, {
            "keys": [[c.name, c.type] for c in keys],
            "parts": [[p.name, p.type, p.combine] for p in needed.values()],
            "values": kept, "beginning": "static" if r.never_changes(node) else r.beginning(node),
            "answers": [[a.name, answer_sql(a, insert_only, positions)] for a in node.aggregates],
        })
        return Handle("stage", name, node.schema, delivered(partial, need))

    @staticmethod
    def kept(aggregates: tuple[Aggregate, ...], insert_only: bool) -> list[dict[str, Any]]:
        """Columns whose values are kept, and what for: the part that counts them once, the least, the greatest."""
        found: dict[str, dict[str, Any]] = {}
        for a in aggregates:
            if a.keeps_values(insert_only):
                value = found.setdefault(str(a.argument), {
                    "column": a.argument, "type": a.argument_type, "once": None, "low": False, "high": False,
                    "folds": []})
                value["folds"] += [asdict(p) for p in object_parts([a]) if asdict(p) not in value["folds"]]
                if a.distinct:
                    value["once"], value["sets"] = parts(a, insert_only)[0].name, a.sets
                value["low"] |= a.function == "min"
                value["high"] |= a.function == "max"
        return list(found.values())

    def _setcombine(self, node: r.SetCombine) -> Handle:
        sides = [self.build(c) for c in (node.left, node.right) if c is not None]
        names, types = node.names, [c.type for c in node.schema]
        wanted = [list(s.names) for s in (node.left, node.right) if s is not None]
        by = common_positions(sides, wanted)
        chosen = [names[i] for i in by]
        counted_schema = (*node.schema, Column("__l", "BIGINT"), Column("__r", "BIGINT"))
        inputs = []
        for side, handle in enumerate(sides):
            params = {"columns": list(names), "from": wanted[side], "types": types, "side": side}
            renames = dict(zip(wanted[side], names, strict=True))
            counted = self._extend_renamed(handle, f"counted{side}.{node.fingerprint}", counted_schema, params, renames)
            inputs.append(self.deliver(counted, by_hash(chosen), exact=True))
        known: dict[str, Any] = {"kind": node.kind}
        stamp = _last_stamp(node)
        if stamp is not None:
            points: list[str] = []
            known |= {"sides": len(inputs), "stamp": stamp, "released": {
                side: self._released(below, below.names[node.names.index(stamp)], points)
                for side, below in (("left", node.left), ("right", node.right)) if below is not None}}
            inputs += points
        name = self.add_stage("combine", name_of(node), tuple(inputs), node.schema, known)
        return Handle("stage", name, node.schema, by_hash(chosen))

    def _extend_renamed(self, handle: Handle, name: str, schema: Schema, params: dict[str, Any],
                        renames: dict[str, str]) -> Handle:
        if handle.place == "union":
            branches = tuple(
                self._extend_renamed(b, f"{name}.{i}", schema, params, renames) for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=schema, branches=branches)
        return self.extend(handle, "counted", name, schema, params, mapped(handle.where, renames))

    def _join(self, node: r.Join) -> Handle:
        left, right = self.build(node.left), self.build(node.right)
        pairs = node.on
        by = common_positions([left, right], [[a for a, _ in pairs], [b for _, b in pairs]])
        lkeys, rkeys = [pairs[i][0] for i in by], [pairs[i][1] for i in by]
        inputs: tuple[str, ...] = (
            self.deliver(left, by_hash(lkeys) if pairs else ONE, exact=True),
            self.deliver(right, by_hash(rkeys) if pairs else ONE, exact=True),
        )
        every = [[a for a, _ in pairs], [b for _, b in pairs]]
        params = {
            "left": _side(node.left, every[0], node.left_ts, node.keep_left_us, not r.never_changes(node.right)),
            "right": _side(node.right, every[1], node.right_ts, node.keep_right_us, not r.never_changes(node.left)),
            "residual": node.residual,
        }
        if node.left_ts is not None and node.right_ts is not None:
            points: list[str] = []
            params["released"] = {"left": self._released(node.left, node.left_ts, points),
                                  "right": self._released(node.right, node.right_ts, points)}
            inputs = (*inputs, *points)
        name = self.add_stage("join", name_of(node), inputs, node.schema, params)
        where = Where("hash", tuple(frozenset(p) for p in zip(lkeys, rkeys, strict=True))) if pairs else ONE
        return Handle("stage", name, node.schema, where)


    def _released(self, node: Relation, stamp: str, points: list[str]) -> list[list[list[Any]]] | None:
        """The chains of `plan.released` for the operator: a relation of points is one of its inputs, by number."""
        chains = released(node, stamp)
        return None if chains is None else [[self._step(step, points) for step in chain] for chain in chains]

    def _step(self, step: Step, points: list[str]) -> list[Any]:
        if isinstance(step, Shift):
            return ["shift", step.us]
        if isinstance(step, Period):
            return ["period", step.every, step.offset]
        port = self.deliver(self.build(step.relation), ALL)
        if port not in points:
            points.append(port)
        return ["points", points.index(port)]


def _last_stamp(node: r.SetCombine) -> str | None:
    """The column by which it is known that a row changes no more: rows only come, and those of a stamp have all come
    some time.
    """
    sides = [s for s in (node.left, node.right) if s is not None]
    if not all(r.insert_only(s) and not r.never_changes(s) for s in sides):
        return None
    known = (n for i, n in enumerate(node.names) if all(released(s, s.names[i]) is not None for s in sides))
    return next(known, None)


def _side(node: Relation, keys: list[str], stamp: str | None, keep_us: int | None, stored: bool) -> dict[str, Any]:
    return {
        "columns": [[c.name, c.type] for c in node.schema], "keys": keys,
        "stamp": stamp, "keep_us": keep_us, "stored": stored,
    }


def answer_sql(aggregate: Aggregate, insert_only: bool, positions: dict[str | None, int]) -> str:
    for part in object_parts([aggregate]):
        return f"CAST({quoted(part.name)} AS {aggregate.type})"
    if not aggregate.is_extreme(insert_only):
        return f"CAST({finish(aggregate)} AS {aggregate.type})"
    column = {"min": "__least", "max": "__most"}[aggregate.function]
    return f"CAST({column}{positions[aggregate.argument]} AS {aggregate.type})"
