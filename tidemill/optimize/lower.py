"""Logical plan to physical plan: where each operator runs and how rows get there.

Stateless operators over a source run in the reader. A stateful operator runs in a stage and wants the rows of
equal key in one shard: rows from a reader are exchanged, rows already there in the right shards stay, and
others go round through the outlet (a loop) into the next micro-batch. So the Spark topology is the same for every plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tidemill.optimize.share.asked import Asked, asked
from tidemill.optimize.share.fed import fed_by, settings_for
from tidemill.optimize.share.shape import Settings
from tidemill.optimize.share.weave import Bits, Mode, Woven, query_params, weave
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, finish, parts, single
from tidemill.plan.custom import object_parts
from tidemill.plan.node import walk
from tidemill.plan.physical import Exchange, Op, Output, Physical, Route
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.sources import Column, Schema, SourceSpec

Spread = tuple[frozenset[str], ...]  # partitioned by these columns; each position lists equal names


@dataclass(frozen=True)
class Where:
    """How rows lie in the shards: 'any' order, all in 'one' shard, a copy in 'all', or by 'hash'."""

    how: Literal["any", "one", "all", "hash"]
    by: Spread = ()


ANY, ONE, ALL = Where("any"), Where("one"), Where("all")


@dataclass(frozen=True)
class Handle:
    """Rows of a relation: an operator in the reader or the stage, or several of them together."""

    place: Literal["reader", "stage", "union"]
    op: str = ""
    schema: Schema = ()
    where: Where = ANY
    branches: tuple[Handle, ...] = ()


def lower(
    roots: Mapping[str, Relation],
    sources: Mapping[str, SourceSpec],
    *,
    version: int,
    unit_us: int,
    shards: Iterable[int],
    bits: Bits | None = None,
    sharing: Settings | None = None,
) -> Physical:
    """One physical plan for all standing queries; equal subplans appear once.

    `bits` remembers from plan to plan which bit of a signature belongs to which query; it is brought up to date.
    """
    work = _Lowering(sources, unit_us)
    work.weave(roots.values(), {} if bits is None else bits, sharing or Settings())
    outputs = [Output(view, work.output(node)) for view, node in roots.items()]
    work.settle()
    return Physical(
        version=version, unit_us=unit_us, shards=tuple(shards), sources=tuple(work.specs.values()),
        reader=tuple(work.reader.values()), stage=tuple(work.stage.values()),
        exchanges=tuple(work.exchanges.values()), loops=tuple(work.loops.values()),
        outputs=tuple(outputs), seeds=tuple(work.seeds),
    )


@dataclass
class _Lowering:
    sources: Mapping[str, SourceSpec]
    unit_us: int
    reader: dict[str, Op] = field(default_factory=dict)
    stage: dict[str, Op] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    loops: dict[str, Exchange] = field(default_factory=dict)
    specs: dict[str, SourceSpec] = field(default_factory=dict)
    seeds: list[tuple[str, str]] = field(default_factory=list)
    built: dict[str, Handle] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    woven: dict[str, Woven] = field(default_factory=dict)

    def weave(self, roots: Iterable[Relation], bits: Bits, sharing: Settings) -> None:
        """Plan the window aggregates of each source together, before anything is placed."""
        nodes = {n.fingerprint: n for root in roots for n in walk(root) if isinstance(n, r.WindowAggregate)}
        by_source: dict[str, list[r.WindowAggregate]] = {}
        for node in nodes.values():
            by_source.setdefault(fed_by(node), []).append(node)
        for source, found in by_source.items():
            schema, known = found[0].input.schema, settings_for(found[0], sharing)
            self.woven[source] = weave(source, schema, [asked(n, source) for n in found], bits, known)
        live = {store for w in self.woven.values() for store in w.stores}
        for gone in [store for store in bits if store not in live]:
            # Its fragments may still be in the state when another query comes: no bit is ever given twice.
            bits[gone] = {"next": bits[gone]["next"]}

    def settle(self) -> None:
        """Tell the fragment stores what is read of them; what is not, is not asked for."""
        read = {i for op in self.stage.values() for i in op.inputs} | {e.source_op for e in self.loops.values()}
        for op in [o for o in self.stage.values() if o.kind == "weaved"]:
            if op.id in read:
                self.stage[op.inputs[0]].params["queries"].append({"id": op.id, **op.params})
                self.stage[op.id] = Op(op.id, op.kind, op.inputs, op.schema)
            else:
                del self.stage[op.id]

    def output(self, node: Relation) -> str:
        """The gate through which a view's changes leave."""
        source = self.deliver(self.build(node), ANY)
        params = {"closed": True} if self._closed(source) else {}
        return self.add_stage("gate", f"gate.{node.fingerprint}", (source,), node.schema, params)

    def _closed(self, name: str) -> bool:
        """True when all that an operator lets out is closed and nothing in it cancels: whole answers of windows."""
        op = self.stage.get(name)
        return op is not None and op.kind == "weaved" and op.params["mode"] == "whole"

    def build(self, node: Relation) -> Handle:
        """Place a node, once."""
        if node.fingerprint not in self.built:
            self.built[node.fingerprint] = getattr(self, "_" + type(node).__name__.lower())(node)
        return self.built[node.fingerprint]

    # ---- edges -------------------------------------------------------------------------------

    def deliver(self, handle: Handle, need: Where, exact: bool = False) -> str:
        """The stage operator or port where the rows arrive as `need` says."""
        if handle.place == "union":
            # Rows of one key may come from any branch: all branches must lie the same way.
            exact = exact or (need.how == "hash" and _shared(handle.branches, need) is None)
            arrived = tuple(self.deliver(b, need, exact) for b in handle.branches)
            name = "union." + ".".join(arrived)
            return self.add_stage("union", name, arrived, handle.branches[0].schema, {})
        if handle.place == "reader":
            return self._exchange(handle, need)
        if _satisfies(handle.where, need, exact):
            return handle.op
        if handle.where.how == "all":
            keys = _first_names(need.by)
            name = f"mine.{handle.op}.{'.'.join(keys)}"
            return self.add_stage("mine", name, (handle.op,), handle.schema, {"keys": list(keys)})
        route, keys = _route(need)
        port = f"loop.{handle.op}.{route}.{'.'.join(keys)}"
        self.loops.setdefault(port, Exchange(port, handle.op, route, keys))
        return port

    def _exchange(self, handle: Handle, need: Where) -> str:
        route, keys = _route(need)
        port = f"port.{handle.op}.{route}.{'.'.join(keys)}"
        self.exchanges.setdefault(port, Exchange(port, handle.op, route, keys, self.origins[handle.op]))
        return port

    def add_stage(self, kind: str, name: str, inputs: tuple[str, ...], schema: Schema, params: dict[str, Any]) -> str:
        self.stage.setdefault(name, Op(name, kind, inputs, schema, params))
        return name

    def extend(self, handle: Handle, kind: str, name: str, schema: Schema, params: dict[str, Any],
               where: Where | None = None) -> Handle:
        """A linear operator on top of a handle, in the same place; on every branch of a union."""
        if handle.place == "union":
            branches = tuple(
                self.extend(b, kind, f"{name}.{i}", schema, params, where) for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=schema, branches=branches)
        op = Op(name, kind, (handle.op,), schema, params)
        below = self.stage.get(handle.op)
        if below is not None and below.kind == "weaved" and kind in ("filter", "project"):
            # A fragment store makes the rows of all its queries together: it takes selection and projection over.
            layer = ["where", params["predicate"]] if kind == "filter" else ["select", ", ".join(
                f"{sql} AS {quoted(n)}" for n, sql in params["items"])]
            op = Op(name, "weaved", below.inputs, schema, {**below.params, "layers": [*below.params["layers"], layer]})
        if handle.place == "reader":
            self.reader.setdefault(name, op)
            self.origins[name] = self.origins[handle.op]
        else:
            self.stage.setdefault(name, op)
        return Handle(handle.place, name, schema, handle.where if where is None else where)

    # ---- leaves ------------------------------------------------------------------------------

    def _scan(self, node: r.Scan) -> Handle:
        spec = self.sources[node.source]
        instance = f"{node.source}@{node.birth}" if node.static else node.source
        if instance not in self.specs:
            self.specs[instance] = SourceSpec.from_dict({**spec.to_dict(), "name": instance})
        name = f"scan.{instance}"
        self.reader.setdefault(name, Op(name, "scan", (), node.schema, {"source": instance}))
        self.origins[name] = f"source:{instance}"
        return Handle("reader", name, node.schema)

    def _seed(self, node: r.Seed) -> Handle:
        name = f"seed.{node.view}.{node.birth}"
        if name not in self.reader:
            self.reader[name] = Op(name, "seed", (), node.schema, {"view": node.view})
            self.seeds.append((name, node.view))
        self.origins[name] = f"seed:{name}"
        return Handle("reader", name, node.schema)

    def _clock(self, node: r.Clock) -> Handle:
        name = self.add_stage("clock", f"clock.{node.unit_us}", ("@clock",), node.schema, {"unit": node.unit_us})
        return Handle("stage", name, node.schema, ALL)

    # ---- linear ------------------------------------------------------------------------------

    def _view(self, node: r.View) -> Handle:
        below = self.build(node.input)
        if not node.late:
            return below
        # A running view holds changes whose time has not come: they are not stored yet, only its gate has them.
        where = below.where if below.place == "stage" and below.where.how != "all" else ANY
        return Handle("stage", self.output(node.input), node.schema, where)

    def _filter(self, node: r.Filter) -> Handle:
        below = self.build(node.input)
        return self.extend(below, "filter", _name(node), node.schema, {"predicate": node.predicate})

    def _project(self, node: r.Project) -> Handle:
        below = self.build(node.input)
        params = {"items": [[i.name, i.sql] for i in node.items]}
        if below.place == "union":
            branches = tuple(
                self.extend(b, "project", f"{_name(node)}.{i}", node.schema, params, _renamed(b.where, node))
                for i, b in enumerate(below.branches)
            )
            return Handle("union", schema=node.schema, branches=branches)
        return self.extend(below, "project", _name(node), node.schema, params, _renamed(below.where, node))

    def _union(self, node: r.Union) -> Handle:
        flat: list[Handle] = []
        for child in node.inputs:
            handle = self.build(child)
            flat += handle.branches if handle.place == "union" else (handle,)
        return Handle("union", schema=node.schema, branches=tuple(flat))

    def _temporal(self, node: r.Temporal) -> Handle:
        params = {"lower": node.lower, "upper": node.upper}
        return self.extend(self.build(node.input), "temporal", _name(node), node.schema, params)

    def _synchronize(self, node: r.Synchronize) -> Handle:
        params = {"every": node.every_us, "offset": node.offset_us}
        return self.extend(self.build(node.input), "synchronize", _name(node), node.schema, params)

    # ---- stateful ----------------------------------------------------------------------------

    def _windowaggregate(self, node: r.WindowAggregate, whole: bool = False) -> Handle:
        if node.window.until is None:
            return self._landmark(node)
        mode: Mode = "whole" if whole or node.once else "changes"
        query, store, wanted = self._asked(node, mode)
        name = f"{_name(node)}.{mode}"
        self.add_stage("weaved", name, (store.id,), node.schema, wanted)
        columns = dict(query.renames)
        where = ONE if node.counts_rows else _hash([columns[a] for a in query.names])
        return Handle("stage", name, node.schema, where)

    def _fragment_store(self, woven: Woven, store: str) -> Op:
        """The stage operator of a fragment store, fed by its leaf in the readers."""
        planned = woven.stores[store]
        if planned.id not in self.stage:
            leaf = woven.leaves[store]
            for op in (woven.lfta, leaf):
                self.reader.setdefault(op.id, op)
                self.origins[op.id] = f"source:{woven.source}"
            keys = [name for name, _ in planned.params["keys"]]
            ports = [self._exchange(Handle("reader", leaf.id, leaf.schema), _hash(keys))]
            objects = woven.objects.get(store)
            if objects is not None:
                self.reader.setdefault(objects.id, objects)
                self.origins[objects.id] = f"source:{woven.source}"
                ports.append(self._exchange(Handle("reader", objects.id, objects.schema), _hash(keys)))
            self.stage[planned.id] = Op(planned.id, planned.kind, tuple(ports), planned.schema, planned.params)
        return self.stage[planned.id]

    def _numbered_store(self, woven: Woven, store: str, window: r.RowsWindow) -> Op:
        """The same where windows count rows: only one shard can number them, so it keeps their fragments as well."""
        planned = woven.stores[store]
        if planned.id not in self.stage:
            rows = self.deliver(self.build(window.input), ONE)
            name = self.add_stage("numbering", woven.lfta.id, (rows,), window.schema, woven.lfta.params)
            params = {**planned.params, "leaf": woven.leaves[store].id, "object leaf": f"objects.{store}"}
            self.stage[planned.id] = Op(planned.id, "weave_numbered", (name,), planned.schema, params)
        return self.stage[planned.id]

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
        source = self.deliver(records, _hash(node.keys))
        name = self.add_stage("tagger", _name(node), (source,), node.schema, {"keys": list(node.keys)})
        return Handle("stage", name, node.schema, _hash(node.keys))

    def _landmark(self, node: r.WindowAggregate) -> Handle:
        """Nothing leaves: the fragments are the partial aggregates of a grouping that only grows."""
        keys = tuple(Column(k.name, k.type) for k in node.keys)
        query, store, wanted = self._asked(node, "partials")
        needed = {p.name: p for a in query.aggregates for p in parts(a, True)}
        schema = (*keys, Column("__n", "BIGINT"), *(Column(p.name, p.type) for p in needed.values()))
        name = f"{_name(node)}.partials"
        self.add_stage("weaved", name, (store.id,), schema, wanted)
        grouped = self.add_stage("group", _name(node), (name,), node.schema, {
            "keys": [[c.name, c.type] for c in keys], "parts": [[p.name, p.type, p.combine] for p in needed.values()],
            "values": [], "beginning": "first row",
            "answers": [[a.name, _answer(a, True, {})] for a in query.aggregates],
        })
        columns = dict(query.renames)
        return Handle("stage", grouped, node.schema, _hash([columns[a] for a in query.names]))

    def _asked(self, node: r.WindowAggregate, mode: Mode) -> tuple[Asked, Op, dict[str, Any]]:
        """The canonical form of a window aggregate, its fragment store, and what the store is asked for in this mode.
        """
        woven = self.woven[fed_by(node)]
        query = asked(node, woven.source)
        if isinstance(node.input, r.RowsWindow):
            store = self._numbered_store(woven, query.store, node.input)
        else:
            self.build(node.input)
            store = self._fragment_store(woven, query.store)
        return query, store, query_params(query, woven.bits[query.store][query.id], mode)

    def _groupby(self, node: r.GroupBy) -> Handle:
        below = self.build(node.input)
        insert_only = r.insert_only(node.input)
        keys = tuple(Column(k, node.input.type_of(k)) for k in node.keys)
        needed = {p.name: p for a in node.aggregates for p in parts(a, insert_only)}
        part_columns = tuple(Column(p.name, p.type) for p in needed.values())
        partial_schema = (*keys, Column("__n", "BIGINT"), *part_columns)
        once = _single_insertions(node.input)
        params = {
            "keys": list(node.keys), "count": "count(*)" if once else "CAST(sum(__diff) AS BIGINT)",
            "parts": [[p.name, single(p) if once else p.sql] for p in needed.values()],
        }
        need = _hash(node.keys) if node.keys else ONE
        partial = self.extend(below, "partial", f"partial.{node.fingerprint}", partial_schema, params)
        inputs = [self.deliver(partial, need)]
        kept = _kept_values(node, insert_only)
        for i, value in enumerate(kept):
            schema = (*keys, Column("__v", value["type"]), Column("__n", "BIGINT"))
            values = self.extend(below, "values", f"values{i}.{node.fingerprint}", schema,
                                 {"keys": list(node.keys), "value": value["column"]})
            inputs.append(self.deliver(values, need))
        positions: dict[str | None, int] = {value["column"]: i for i, value in enumerate(kept)}
        name = self.add_stage("group", _name(node), tuple(inputs), node.schema, {
            "keys": [[c.name, c.type] for c in keys],
            "parts": [[p.name, p.type, p.combine] for p in needed.values()],
            "values": kept, "beginning": r.beginning(node.input),
            "answers": [[a.name, _answer(a, insert_only, positions)] for a in node.aggregates],
        })
        return Handle("stage", name, node.schema, _delivered(partial, need))

    def _setcombine(self, node: r.SetCombine) -> Handle:
        sides = [self.build(c) for c in (node.left, node.right) if c is not None]
        names, types = node.names, [c.type for c in node.schema]
        wanted = [list(s.names) for s in (node.left, node.right) if s is not None]
        by = _common(sides, wanted)
        chosen = [names[i] for i in by]
        counted_schema = (*node.schema, Column("__l", "BIGINT"), Column("__r", "BIGINT"))
        inputs = []
        for side, handle in enumerate(sides):
            params = {"columns": list(names), "from": wanted[side], "types": types, "side": side}
            renames = dict(zip(wanted[side], names, strict=True))
            counted = self._extend_renamed(handle, f"counted{side}.{node.fingerprint}", counted_schema, params, renames)
            inputs.append(self.deliver(counted, _hash(chosen), exact=True))
        name = self.add_stage("combine", _name(node), tuple(inputs), node.schema, {"kind": node.kind})
        return Handle("stage", name, node.schema, _hash(chosen))

    def _extend_renamed(self, handle: Handle, name: str, schema: Schema, params: dict[str, Any],
                        renames: dict[str, str]) -> Handle:
        if handle.place == "union":
            branches = tuple(
                self._extend_renamed(b, f"{name}.{i}", schema, params, renames) for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=schema, branches=branches)
        return self.extend(handle, "counted", name, schema, params, _mapped(handle.where, renames))

    def _join(self, node: r.Join) -> Handle:
        left, right = self.build(node.left), self.build(node.right)
        pairs = node.on
        by = _common([left, right], [[a for a, _ in pairs], [b for _, b in pairs]])
        lkeys, rkeys = [pairs[i][0] for i in by], [pairs[i][1] for i in by]
        inputs = (
            self.deliver(left, _hash(lkeys) if pairs else ONE, exact=True),
            self.deliver(right, _hash(rkeys) if pairs else ONE, exact=True),
        )
        every = [[a for a, _ in pairs], [b for _, b in pairs]]
        params = {
            "left": _side(node.left, every[0], node.left_ts, node.keep_left_us, not r.never_changes(node.right)),
            "right": _side(node.right, every[1], node.right_ts, node.keep_right_us, not r.never_changes(node.left)),
            "residual": node.residual,
        }
        name = self.add_stage("join", _name(node), inputs, node.schema, params)
        where = Where("hash", tuple(frozenset(p) for p in zip(lkeys, rkeys, strict=True))) if pairs else ONE
        return Handle("stage", name, node.schema, where)

    def _synchronizeon(self, node: r.SynchronizeOn) -> Handle:
        data = self.build(node.input)
        source = self.deliver(data, ANY)
        points = self.deliver(self.build(node.points), ALL)
        name = self.add_stage("synchronize_on", _name(node), (source, points), node.schema, {})
        return Handle("stage", name, node.schema, _delivered(data, ANY))

    def _rowpoints(self, node: r.RowPoints) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        params = {"rows": node.rows, "columns": [[c.name, c.type] for c in node.input.schema]}
        name = self.add_stage("row_points", _name(node), (source,), node.schema, params)
        return Handle("stage", name, node.schema, ONE)

    def _rowswindow(self, node: r.RowsWindow) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        params = {"rows": node.rows, "slide": node.slide}
        name = self.add_stage("rows_window", _name(node), (source,), node.schema, params)
        return Handle("stage", name, node.schema, ONE)

    def _stamp(self, node: r.Stamp) -> Handle:
        below = self.build(node.input)
        need = _hash(node.input.names)
        source = self.deliver(below, need)
        name = self.add_stage("stamp", _name(node), (source,), node.schema, {})
        return Handle("stage", name, node.schema, _delivered(below, need))

    def _rstream(self, node: r.Rstream) -> Handle:
        whole = self._whole_answers(node)
        if whole is not None:
            return whole
        below = self.build(node.input)
        alone = node.period is None and node.points is None
        inputs = [self.deliver(below, ONE if alone else _hash(node.input.names))]
        if node.points is not None:
            inputs.append(self.deliver(self.build(node.points), ALL))
        params = {"period": list(node.period) if node.period else None, "stamp": node.stamp}
        name = self.add_stage("rstream", _name(node), tuple(inputs), node.schema, params)
        return Handle("stage", name, node.schema, ONE if alone else ANY)


    def _whole_answers(self, node: r.Rstream) -> Handle | None:
        """RSTREAM of a window aggregate at its own points: its fragment store makes whole answers, nothing is put
        together again.
        """
        chain: list[r.Filter | r.Project] = []
        below = node.input
        while isinstance(below, (r.Filter, r.Project)):
            chain.append(below)
            below = below.input
        if not isinstance(below, r.WindowAggregate) or below.once or below.window.until is None:
            return None
        if below.counts_rows or node.period != (below.window.slide, below.window.offset):
            return None
        handle = self._windowaggregate(below, whole=True)
        for link in reversed(chain):
            if isinstance(link, r.Filter):
                params: dict[str, Any] = {"predicate": link.predicate}
                handle = self.extend(handle, "filter", f"{_name(link)}.whole", link.schema, params)
            else:
                params = {"items": [[i.name, i.sql] for i in link.items]}
                handle = self.extend(handle, "project", f"{_name(link)}.whole", link.schema, params, ANY)
        items = [["TS", node.stamp], *([n, quoted(n)] for n in node.input.names)]
        return self.extend(handle, "project", _name(node), node.schema, {"items": items}, ANY)


def _name(node: Relation) -> str:
    return f"{type(node).__name__.lower()}.{node.fingerprint}"


def _hash(names: Iterable[str]) -> Where:
    return Where("hash", tuple(frozenset([n]) for n in names))


def _first_names(by: Spread) -> tuple[str, ...]:
    return tuple(sorted(names)[0] for names in by)


def _route(need: Where) -> tuple[Route, tuple[str, ...]]:
    return need.how, _first_names(need.by)


def _satisfies(have: Where, need: Where, exact: bool) -> bool:
    if need.how == "any":
        return have.how != "all"
    if need.how != "hash":
        return have.how == need.how
    if exact:
        return have.how == "hash" and len(have.by) == len(need.by) and all(
            n <= h for h, n in zip(have.by, need.by, strict=True)
        )
    # Rows of equal key are together when the rows are split by some of the key's columns.
    allowed = {name for names in need.by for name in names}
    return have.how == "one" or (have.how == "hash" and all(h & allowed for h in have.by))


def _delivered(handle: Handle, need: Where) -> Where:
    """How the rows of a handle lie once they are delivered as `need` says: as before where that is good enough."""
    if handle.place == "union":
        return (_shared(handle.branches, need) if need.how == "hash" else None) or need
    if handle.place == "reader" or not _satisfies(handle.where, need, exact=False):
        return need
    return _within(handle.where, need) if need.how == "hash" else handle.where


def _shared(branches: tuple[Handle, ...], need: Where) -> Where | None:
    """The one way in which all branches lie already and which is good enough for `need`, if there is one."""
    if any(b.place != "stage" or not _satisfies(b.where, need, exact=False) for b in branches):
        return None
    ways = [_within(b.where, need) for b in branches]
    if any(w.how != ways[0].how or len(w.by) != len(ways[0].by) for w in ways):
        return None
    by = tuple(frozenset.intersection(*names) for names in zip(*(w.by for w in ways), strict=True))
    return Where(ways[0].how, by) if all(by) else None


def _within(where: Where, need: Where) -> Where:
    """A placement named by columns of the needed key only."""
    allowed = {name for names in need.by for name in names}
    return Where(where.how, tuple(names & allowed for names in where.by))


def _renamed(where: Where, node: r.Project) -> Where:
    if where.how != "hash":
        return where
    copies: dict[str, set[str]] = {}
    for item in node.items:
        origin = node.passes(item.name)
        if origin is not None:
            copies.setdefault(origin, set()).add(item.name)
    by = tuple(frozenset(new for old in names for new in copies.get(old, ())) for names in where.by)
    return Where("hash", by) if all(by) else ANY


def _mapped(where: Where, renames: dict[str, str]) -> Where:
    if where.how != "hash":
        return where
    by = tuple(frozenset(renames[n] for n in names if n in renames) for names in where.by)
    return Where("hash", by) if all(by) else ANY


def _common(sides: list[Handle], keys: list[list[str]]) -> list[int]:
    """Positions of the key by which both sides shall be split: as one of them lies already, else all."""
    for handle, names in zip(sides, keys, strict=True):
        if handle.place == "stage" and handle.where.how == "hash":
            found = [next((i for i, n in enumerate(names) if n in by), None) for by in handle.where.by]
            if found and None not in found:
                return [i for i in found if i is not None]
    return list(range(len(keys[0])))


def _side(node: Relation, keys: list[str], stamp: str | None, keep_us: int | None, stored: bool) -> dict[str, Any]:
    return {
        "columns": [[c.name, c.type] for c in node.schema], "keys": keys,
        "stamp": stamp, "keep_us": keep_us, "stored": stored,
    }


def _single_insertions(node: Relation) -> bool:
    """True when every change of the relation inserts one row: a source through selections and projections."""
    if isinstance(node, r.Temporal):
        return node.upper is None and _single_insertions(node.input)
    if isinstance(node, (r.Filter, r.Project, r.Synchronize)):
        return _single_insertions(node.input)
    return isinstance(node, r.Scan)


def _kept_values(node: r.GroupBy, insert_only: bool) -> list[dict[str, Any]]:
    """Columns whose values are kept, and what for: the part that counts them once, the least, the greatest."""
    kept: dict[str, dict[str, Any]] = {}
    for a in node.aggregates:
        if a.keeps_values(insert_only):
            value = kept.setdefault(str(a.argument), {
                "column": a.argument, "type": a.argument_type, "once": None, "low": False, "high": False, "folds": []})
            value["folds"] += [asdict(p) for p in object_parts([a]) if asdict(p) not in value["folds"]]
            if a.distinct:
                value["once"] = parts(a, insert_only)[0].name
            value["low"] |= a.function == "min"
            value["high"] |= a.function == "max"
    return list(kept.values())


def _answer(aggregate: Aggregate, insert_only: bool, positions: dict[str | None, int]) -> str:
    for part in object_parts([aggregate]):
        return f"CAST({quoted(part.name)} AS {aggregate.type})"
    if not aggregate.is_extreme(insert_only):
        return f"CAST({finish(aggregate)} AS {aggregate.type})"
    column = {"min": "__least", "max": "__most"}[aggregate.function]
    return f"CAST({column}{positions[aggregate.argument]} AS {aggregate.type})"
