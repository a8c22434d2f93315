"""Window aggregates with their fragment stores, windows that count rows, points and whole answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.groups import answer_sql
from tidemill.optimize.lower.placement import ALL, ANY, ONE, Handle, by_hash, name_of, placement_after
from tidemill.optimize.rendering import copies, filter_rows, project, select
from tidemill.optimize.share.reader_plan import Settings
from tidemill.optimize.share.sharing_key import settings_for, sharing_key
from tidemill.optimize.share.weave import Bits, Woven, weave, weave_query
from tidemill.optimize.share.window_queries import canonicalize
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.aggregates import parts
from tidemill.plan.node import walk
from tidemill.plan.physical import ids
from tidemill.plan.relations import Relation
from tidemill.plan.sources import Column, Schema


class Windows(Edges):
    """WindowAggregate, RowsWindow, RowPoints, SynchronizeOn, Stamp, Rstream, ChangeStream, CatchUp, Alternatives."""

    def weave(self, roots: Iterable[Relation], bits: Bits, sharing: Settings) -> None:
        """Plan the window aggregates of each source together, before anything is placed."""
        nodes = {n.fingerprint: n for root in roots for n in walk(root) if isinstance(n, r.WindowAggregate)}
        by_source: dict[str, list[r.WindowAggregate]] = {}
        for node in nodes.values():
            by_source.setdefault(sharing_key(node), []).append(node)
        for source, found in by_source.items():
            schema, known = found[0].input.schema, settings_for(found[0], sharing)
            self.queries |= {n.fingerprint: canonicalize(n, source) for n in found}
            self.woven[source] = weave(source, schema, [self.queries[n.fingerprint] for n in found], bits, known)
        live = {store for w in self.woven.values() for store in w.stores}
        for gone in [store for store in bits if store not in live]:
            # Its fragments may still be in the state when another query comes: no bit is ever given twice.
            bits[gone] = {"next": bits[gone]["next"]}

    def set_store_queries(self) -> None:
        """Give each fragment store the queries whose rows are read; operators that nothing reads are removed."""
        read = {i for op in self.stage.values() for i in op.inputs} | {e.source_op for e in self.loops.values()}
        asked: dict[str, list[p.WeaveQuery]] = {}
        for op in [o for o in self.stage.values() if isinstance(o, p.Weaved)]:
            if op.id in read:
                asked.setdefault(op.inputs[0], []).append(self.store_queries[op.id])
            else:
                del self.stage[op.id]
        for name, queries in asked.items():
            store = self.stage[name]
            assert isinstance(store, p.Weave)
            self.stage[name] = replace(store, queries=(*store.queries, *queries))

    def place_window_aggregate(self, node: r.WindowAggregate, whole: bool = False) -> Handle:
        if node.window.until is None:
            return self._place_landmark(node)
        mode: p.Mode = "whole" if whole or node.once else "changes"
        query = self.queries[node.fingerprint]
        name = self._add_weaved(node, mode, node.schema)
        columns = dict(query.renames)
        where = ONE if node.counts_rows else by_hash([columns[a] for a in query.names])
        return Handle("stage", name, node.schema, where)

    def _fragment_store(self, woven: Woven, store: str) -> str:
        """The stage operator of a fragment store, fed by its leaf in the readers."""
        planned = woven.stores[store]
        if planned.id not in self.stage:
            leaf = woven.leaves[store]
            for op in (woven.lfta, leaf):
                self.reader.setdefault(op.id, op)
                self.origins[op.id] = ids.source_origin(woven.source)
            keys = [c.name for c in planned.keys]
            ports = [self._exchange(Handle("reader", leaf.id, leaf.schema), by_hash(keys))]
            accumulators = woven.accumulators.get(store)
            if accumulators is not None:
                self.reader.setdefault(accumulators.id, accumulators)
                self.origins[accumulators.id] = ids.source_origin(woven.source)
                ports.append(self._exchange(Handle("reader", accumulators.id, accumulators.schema), by_hash(keys)))
            self.stage[planned.id] = replace(planned, inputs=tuple(ports))
        return planned.id

    def _numbered_store(self, woven: Woven, store: str, window: r.RowsWindow) -> str:
        """The same where windows count rows: only one shard can number them, so it keeps their fragments as well."""
        planned = woven.stores[store]
        if planned.id not in self.stage:
            rows = self.deliver(self.build(window.input), ONE)
            numbering = p.Numbering(**{**vars(woven.lfta), "inputs": (rows,), "schema": window.schema})
            name = self.add_stage(numbering)
            self.note_placement(Handle("stage", name, window.schema, ONE))
            leaves = {"leaf": woven.leaves[store].id, "accumulator_leaf": ids.accumulator_leaf(store)}
            self.stage[planned.id] = p.WeaveNumbered(**{**vars(planned), "inputs": (name,), **leaves})
        return planned.id

    def _place_landmark(self, node: r.WindowAggregate) -> Handle:
        """A window that rows never leave: its fragments are the partial aggregates of an append-only grouping."""
        keys = tuple(Column(k.name, k.type) for k in node.keys)
        query = self.queries[node.fingerprint]
        needed = {part.name: part for a in query.aggregates for part in parts(a, True)}
        schema = (*keys, Column("__n", "BIGINT"), *(Column(part.name, part.type) for part in needed.values()))
        name = self._add_weaved(node, "partials", schema)
        columns = dict(query.renames)
        where = by_hash([columns[a] for a in query.names])
        self.note_placement(Handle("stage", name, schema, where))
        grouped = self.add_stage(
            p.Group(
                name_of(node),
                (name,),
                node.schema,
                keys,
                tuple(p.Part(part.name, part.type, part.combine) for part in needed.values()),
                (),
                "first row",
                tuple(p.Item(a.name, answer_sql(a, True, {})) for a in query.aggregates),
            )
        )
        return Handle("stage", grouped, node.schema, where)

    def _add_weaved(self, node: r.WindowAggregate, mode: p.Mode, schema: Schema) -> str:
        """The operator with the rows that a window aggregate's fragment store makes in this mode."""
        woven, query = self.woven[sharing_key(node)], self.queries[node.fingerprint]
        if isinstance(node.input, r.RowsWindow):
            store = self._numbered_store(woven, query.store, node.input)
        else:
            self.build(node.input)
            store = self._fragment_store(woven, query.store)
        name = ids.variant(name_of(node), mode)
        self.store_queries.setdefault(name, weave_query(name, query, woven.bits[query.store][query.id], mode))
        return self.add_stage(p.Weaved(name, (store,), schema))

    def place_synchronize_on(self, node: r.SynchronizeOn) -> Handle:
        data = self.build(node.input)
        source = self.deliver(data, ANY)
        points = self.deliver(self.build(node.points), ALL)
        name = self.add_stage(p.SynchronizeOn(name_of(node), (source, points), node.schema))
        return Handle("stage", name, node.schema, placement_after(data, ANY))

    def place_row_points(self, node: r.RowPoints) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        name = self.add_stage(p.RowPoints(name_of(node), (source,), node.schema, node.rows, node.input.schema))
        return Handle("stage", name, node.schema, ONE)

    def place_rows_window(self, node: r.RowsWindow) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        name = self.add_stage(p.RowsWindow(name_of(node), (source,), node.schema, node.rows, node.slide))
        return Handle("stage", name, node.schema, ONE)

    def place_stamp(self, node: r.Stamp) -> Handle:
        below = self.build(node.input)
        need = by_hash(node.input.names)
        source = self.deliver(below, need)
        name = self.add_stage(p.Stamp(name_of(node), (source,), node.schema))
        return Handle("stage", name, node.schema, placement_after(below, need))

    def place_rstream(self, node: r.Rstream) -> Handle:
        whole = self._place_whole_answers(node)
        if whole is not None:
            return whole
        below = self.build(node.input)
        alone = node.period is None and node.points is None
        inputs = [self.deliver(below, ONE if alone else by_hash(node.input.names))]
        if node.points is not None:
            inputs.append(self.deliver(self.build(node.points), ALL))
        name = self.add_stage(p.Rstream(name_of(node), tuple(inputs), node.schema, node.period, node.stamp.sql))
        return Handle("stage", name, node.schema, ONE if alone else ANY)

    def place_change_stream(self, node: r.ChangeStream) -> Handle:
        below = self.build(node.input)
        # Where no row is taken back, no two changes cancel: they need not meet.
        need = ANY if r.append_only(node.input) else by_hash(node.input.names)
        source = self.deliver(below, need)
        deleted = node.rows == "deleted"
        name = self.add_stage(p.ChangeStream(name_of(node), (source,), node.schema, node.stamp.sql, deleted))
        return Handle("stage", name, node.schema, placement_after(below, need))

    def place_catch_up(self, node: r.CatchUp) -> Handle:
        below = self.build(node.input)
        source = self.deliver(below, ANY)
        name = self.add_stage(p.CatchUp(name_of(node), (source,), node.schema, node.sources, node.moment))
        return Handle("stage", name, node.schema, placement_after(below, ANY))

    def place_alternatives(self, node: r.Alternatives) -> Handle:
        """The rows of each plan stay where they are, if what comes and what goes meet there: the operator keeps what
        is present. Its own rows are in any shard, whichever plan they are from.
        """
        below = [self.build(i) for i in node.inputs]
        needs = [by_hash(node.names) if handle.place == "reader" else ANY for handle in below]
        sources = tuple(self.deliver(handle, need) for handle, need in zip(below, needs, strict=True))
        name = self.add_stage(p.Alternatives(name_of(node), sources, node.schema, node.numbers, node.agreed))
        return Handle("stage", name, node.schema, ANY)

    def _place_whole_answers(self, node: r.Rstream) -> Handle | None:
        """RSTREAM of a window aggregate at the points of its window: the fragment store itself makes whole answers, and
        no operator assembles them from changes.
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
        handle = self.place_window_aggregate(below, whole=True)
        for link in reversed(chain):
            name = ids.variant(name_of(link), "whole")
            if isinstance(link, r.Filter):
                handle = self.extend(handle, filter_rows(name, link.schema, link.predicate))
            else:
                items = tuple((i.name, i.value) for i in link.items)
                handle = self.extend(handle, project(name, link.schema, items), ANY, select(items))
        items = (("TS", node.stamp), *copies(node.input.names))
        return self.extend(handle, project(name_of(node), node.schema, items), ANY, select(items))
