"""Window aggregates with their fragment stores, windows that count rows, points and whole answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.groups import answer_sql
from tidemill.optimize.lower.placement import ALL, ANY, ONE, Handle, by_hash, delivered, name_of
from tidemill.optimize.share.asked import Asked, asked
from tidemill.optimize.share.fed import fed_by, settings_for
from tidemill.optimize.share.shape import Settings
from tidemill.optimize.share.weave import Bits, Mode, Woven, query_params, weave
from tidemill.plan import relations as r
from tidemill.plan.aggregates import parts
from tidemill.plan.node import walk
from tidemill.plan.physical import Op
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.sources import Column


class Windows(Edges):
    """WindowAggregate, RowsWindow, RowPoints, SynchronizeOn, Stamp, Rstream."""

    def weave(self, roots: Iterable[Relation], bits: Bits, sharing: Settings) -> None:
        """Plan the window aggregates of each source together, before anything is placed."""
        nodes = {n.fingerprint: n for root in roots for n in walk(root) if isinstance(n, r.WindowAggregate)}
        by_source: dict[str, list[r.WindowAggregate]] = {}
        for node in nodes.values():
            by_source.setdefault(fed_by(node), []).append(node)
        for source, found in by_source.items():
            schema, known = found[0].input.schema, settings_for(found[0], sharing)
            self.asked |= {n.fingerprint: asked(n, source) for n in found}
            self.woven[source] = weave(source, schema, [self.asked[n.fingerprint] for n in found], bits, known)
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
    def _windowaggregate(self, node: r.WindowAggregate, whole: bool = False) -> Handle:
        if node.window.until is None:
            return self._landmark(node)
        mode: Mode = "whole" if whole or node.once else "changes"
        query, store, wanted = self._asked(node, mode)
        name = f"{name_of(node)}.{mode}"
        self.add_stage("weaved", name, (store.id,), node.schema, wanted)
        columns = dict(query.renames)
        where = ONE if node.counts_rows else by_hash([columns[a] for a in query.names])
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
            ports = [self._exchange(Handle("reader", leaf.id, leaf.schema), by_hash(keys))]
            objects = woven.objects.get(store)
            if objects is not None:
                self.reader.setdefault(objects.id, objects)
                self.origins[objects.id] = f"source:{woven.source}"
                ports.append(self._exchange(Handle("reader", objects.id, objects.schema), by_hash(keys)))
            self.stage[planned.id] = Op(planned.id, planned.kind, tuple(ports), planned.schema, planned.params)
        return self.stage[planned.id]

    def _numbered_store(self, woven: Woven, store: str, window: r.RowsWindow) -> Op:
        """The same where windows count rows: only one shard can number them, so it keeps their fragments as well."""
        planned = woven.stores[store]
        if planned.id not in self.stage:
            rows = self.deliver(self.build(window.input), ONE)
            name = self.add_stage("numbering", woven.lfta.id, (rows,), window.schema, woven.lfta.params)
            self.lying(Handle("stage", name, window.schema, ONE))
            params = {**planned.params, "leaf": woven.leaves[store].id, "object leaf": f"objects.{store}"}
            self.stage[planned.id] = Op(planned.id, "weave_numbered", (name,), planned.schema, params)
        return self.stage[planned.id]
    def _landmark(self, node: r.WindowAggregate) -> Handle:
        """Nothing leaves: the fragments are the partial aggregates of a grouping that only grows."""
        keys = tuple(Column(k.name, k.type) for k in node.keys)
        query, store, wanted = self._asked(node, "partials")
        needed = {p.name: p for a in query.aggregates for p in parts(a, True)}
        schema = (*keys, Column("__n", "BIGINT"), *(Column(p.name, p.type) for p in needed.values()))
        name = f"{name_of(node)}.partials"
        self.add_stage("weaved", name, (store.id,), schema, wanted)
        columns = dict(query.renames)
        where = by_hash([columns[a] for a in query.names])
        self.lying(Handle("stage", name, schema, where))
        grouped = self.add_stage("group", name_of(node), (name,), node.schema, {
            "keys": [[c.name, c.type] for c in keys], "parts": [[p.name, p.type, p.combine] for p in needed.values()],
            "values": [], "beginning": "first row",
            "answers": [[a.name, answer_sql(a, True, {})] for a in query.aggregates],
        })
        return Handle("stage", grouped, node.schema, where)

    def _asked(self, node: r.WindowAggregate, mode: Mode) -> tuple[Asked, Op, dict[str, Any]]:
        """The canonical form of a window aggregate, its fragment store, and what the store is asked for in this mode.
        """
        woven, query = self.woven[fed_by(node)], self.asked[node.fingerprint]
        if isinstance(node.input, r.RowsWindow):
            store = self._numbered_store(woven, query.store, node.input)
        else:
            self.build(node.input)
            store = self._fragment_store(woven, query.store)
        return query, store, query_params(query, woven.bits[query.store][query.id], mode)
    def _synchronizeon(self, node: r.SynchronizeOn) -> Handle:
        data = self.build(node.input)
        source = self.deliver(data, ANY)
        points = self.deliver(self.build(node.points), ALL)
        name = self.add_stage("synchronize_on", name_of(node), (source, points), node.schema, {})
        return Handle("stage", name, node.schema, delivered(data, ANY))

    def _rowpoints(self, node: r.RowPoints) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        params = {"rows": node.rows, "columns": [[c.name, c.type] for c in node.input.schema]}
        name = self.add_stage("row_points", name_of(node), (source,), node.schema, params)
        return Handle("stage", name, node.schema, ONE)

    def _rowswindow(self, node: r.RowsWindow) -> Handle:
        source = self.deliver(self.build(node.input), ONE)
        params = {"rows": node.rows, "slide": node.slide}
        name = self.add_stage("rows_window", name_of(node), (source,), node.schema, params)
        return Handle("stage", name, node.schema, ONE)

    def _stamp(self, node: r.Stamp) -> Handle:
        below = self.build(node.input)
        need = by_hash(node.input.names)
        source = self.deliver(below, need)
        name = self.add_stage("stamp", name_of(node), (source,), node.schema, {})
        return Handle("stage", name, node.schema, delivered(below, need))

    def _rstream(self, node: r.Rstream) -> Handle:
        whole = self._whole_answers(node)
        if whole is not None:
            return whole
        below = self.build(node.input)
        alone = node.period is None and node.points is None
        inputs = [self.deliver(below, ONE if alone else by_hash(node.input.names))]
        if node.points is not None:
            inputs.append(self.deliver(self.build(node.points), ALL))
        params = {"period": list(node.period) if node.period else None, "stamp": node.stamp}
        name = self.add_stage("rstream", name_of(node), tuple(inputs), node.schema, params)
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
                handle = self.extend(handle, "filter", f"{name_of(link)}.whole", link.schema, params)
            else:
                params = {"items": [[i.name, i.sql] for i in link.items]}
                handle = self.extend(handle, "project", f"{name_of(link)}.whole", link.schema, params, ANY)
        items = [["TS", node.stamp], *([n, quoted(n)] for n in node.input.names)]
        return self.extend(handle, "project", name_of(node), node.schema, {"items": items}, ANY)
