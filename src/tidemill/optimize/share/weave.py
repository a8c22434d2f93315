"""All window aggregates of one source as one plan: the configuration of its readers' hash tables, and its fragment
stores.

This puts the optimizers together: `weaving` (paper 003) decides which queries share fragments, `phantoms` (paper 002)
which finer relations feed them and how the memory is divided. What they decide is data; whatever it is, the answers
are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tidemill.optimize.share.asked import Asked
from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.feeding import FeedingGraph
from tidemill.optimize.share.predicates import program
from tidemill.optimize.share.shape import Settings, Shape, Tree, shape_of
from tidemill.optimize.share.weaving.edges import edges_of
from tidemill.plan.custom import ACCUMULATOR, ObjectPart, object_parts
from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import Op
from tidemill.plan.relations import Item
from tidemill.plan.sources import Column, Schema

_SKETCHED = 32
Mode = Literal["whole", "changes", "partials"]
Bits = dict[str, dict[str, int]]  # fragment store → query → its bit; "next" is the first free one


@dataclass
class Woven:
    """The operators of one source's window aggregates."""

    source: str
    lfta: Op
    leaves: dict[str, Op]  # by store
    objects: dict[str, Op]  # by store: leaves of accumulators, where a query has a user's aggregate
    stores: dict[str, Op]  # by store; inputs and queries are filled in by `lower`
    bits: dict[str, dict[str, int]]  # by store, by query
    shape: Shape


def weave(source: str, schema: Schema, queries: Iterable[Asked], bits: Bits, settings: Settings) -> Woven:
    """One plan for all queries over one source."""
    return _Weaver(source, schema, sorted(queries, key=lambda q: q.id), bits, settings).woven()


class _Weaver:
    def __init__(self, source: str, schema: Schema, queries: list[Asked], bits: Bits, settings: Settings) -> None:
        self.source, self.schema, self.queries, self.settings = source, schema, queries, settings
        self.attributes = _items(a for q in queries for a in q.attributes)
        self.arguments = _items(a for q in queries for a in q.arguments)
        self.predicates = list(dict.fromkeys(q.predicate for q in queries if q.predicate is not None))
        self.parts = {p.name: p for q in queries for p in q.parts}
        self.objects = {p.name: p for q in queries for p in q.objects}
        self.stores: dict[str, list[Asked]] = {}
        for query in queries:
            self.stores.setdefault(query.store, []).append(query)
        self.bits = {store: _bits(bits.setdefault(store, {}), found) for store, found in self.stores.items()}

    def woven(self) -> Woven:
        shape = shape_of(self.source, self.queries, len(self.parts), self.settings)
        leaves = {store: self._leaf(store) for store in self.stores}
        lfta = Op(f"lfta.{self.source}", "lfta", (f"scan.{self.source}",), self.schema, self._params(shape.tree))
        stores = {store: self._store(store) for store in self.stores}
        objects = {store: self._object_leaf(store) for store, found in self.stores.items() if _objects(found)}
        return Woven(self.source, lfta, leaves, objects, stores, self.bits, shape)

    def _params(self, tree: Tree) -> dict[str, Any]:
        attributes, order = list(self.attributes), {q.id: i for i, q in enumerate(self.queries)}
        stores = list(self.stores)
        expressions = [*self.attributes, *self.arguments, *self.objects]
        return {
            "budget": self.settings.budget,
            "attributes": [vars(i) for i in self.attributes.values()],
            "arguments": [vars(i) for i in self.arguments.values()],
            "parts": [_part(p) for p in self.parts.values()],
            "predicates": [{"sql": p, "program": program(p, dict(self.queries[0].types))} for p in self.predicates],
            "queries": [{
                "id": q.id, "bit": self.bits[q.store][q.id],
                "predicate": -1 if q.predicate is None else self.predicates.index(q.predicate),
                "uses": [expressions.index(n) for n in
                         (*q.names, *(a.name for a in q.arguments), *(p.name for p in q.objects))],
                "objects": [p.name for p in q.objects], "parts": [p.name for p in q.parts],
                "edges": [list(e) for e in edges_of([q.window])],
            } for q in self.queries],
            "objects": [asdict(p) for p in self.objects.values()],
            "assumed": len(tree) > 1 and self.source not in self.settings.statistics,
            "candidates": [[attributes.index(a) for a in sorted(names)] for names in self._candidates()],
            "stores": [{
                "op": f"leaf.{store}", "objects": f"objects.{store}", "words": self._words(store),
                "parts": [p.name for p in self._parts(store)],
            } for store in stores],
            "relations": [{
                "label": node.label, "parent": node.parent, "buckets": node.buckets,
                "attributes": [attributes.index(a) for a in node.attributes],
                "edges": [list(e) for e in node.edges],
                "emits": stores.index(node.store) if node.store else -1,
                "queries": [order[q] for q in node.queries], "own": [order[q] for q in node.own],
            } for node in tree],
        }

    def _candidates(self) -> list[frozenset[str]]:
        """Attribute sets whose groups the readers shall count: those asked for, and what could feed them."""
        asked = {frozenset(q.names) for q in self.queries}
        graph = FeedingGraph.of([Relation(names) for names in asked])
        feeders = [r.attributes for r in graph.candidates if r.attributes not in asked]
        return [*sorted(asked, key=sorted), *feeders][:_SKETCHED]

    def _words(self, store: str) -> list[int]:
        return sorted({b // 64 for b in self.bits[store].values()})

    def _parts(self, store: str) -> list[FragmentPart]:
        return list({p.name: p for q in self.stores[store] for p in q.parts}.values())

    def _keys(self, store: str) -> tuple[Column, ...]:
        return tuple(Column(a.name, a.type) for a in self.stores[store][0].attributes)

    def _leaf(self, store: str) -> Op:
        words = tuple(Column(f"__s{w}", "BIGINT") for w in self._words(store))
        parts = tuple(Column(p.name, p.type) for p in self._parts(store))
        return Op(f"leaf.{store}", "leaf", (f"lfta.{self.source}",), (*self._keys(store), *words, *parts))

    def _object_leaf(self, store: str) -> Op:
        words = tuple(Column(f"__s{w}", "BIGINT") for w in self._words(store))
        return Op(f"objects.{store}", "leaf", (f"lfta.{self.source}",), (*self._keys(store), *words, *ACCUMULATOR))

    def _store(self, store: str) -> Op:
        floating = {a.name for q in self.stores[store] for a in q.arguments if a.type in ("DOUBLE", "FLOAT")}
        parts = self._parts(store)
        return Op(f"weave.{store}", "weave", (), self._keys(store), {
            "keys": [[c.name, c.type] for c in self._keys(store)], "words": self._words(store),
            "parts": [[p.name, p.type, p.combine] for p in parts],
            "decoded": [p.name for p in parts if p.lift == "order" and p.argument in floating],
            "objects": [asdict(p) for p in _objects(self.stores[store])], "queries": [],
        })


def query_params(query: Asked, bit: int, mode: Mode) -> dict[str, Any]:
    """One query in one mode as its store's operator reads it: whole answers, changes, or the partial aggregates
    themselves.

    `layers` are SELECTs, each over the one before, that make the rows: ["select", list] or ["where", predicate].
    """
    inner, outer = query.answer() if mode != "partials" else query.partials()
    window = query.window
    return {
        "query": f"{query.id}.{mode}", "bit": bit, "mode": mode,
        "window": [window.slide, window.offset, window.after, window.until],
        "parts": [p.name for p in query.parts], "objects": [p.name for p in query.objects],
        "layers": [["select", inner], ["select", outer]],
    }


def _items(items: Iterable[Item]) -> dict[str, Item]:
    return {i.name: i for i in items}


def _objects(queries: list[Asked]) -> tuple[ObjectPart, ...]:
    return object_parts(a for q in queries for a in q.aggregates)


def _part(part: FragmentPart) -> dict[str, Any]:
    return asdict(part)


def _bits(known: dict[str, int], queries: list[Asked]) -> dict[str, int]:
    """Each query keeps its bit; a new one takes the next, so that no stored fragment has it set."""
    live = {q.id for q in queries}
    for gone in [q for q in known if q not in live and q != "next"]:
        del known[gone]
    for query in queries:
        if query.id not in known:
            known[query.id] = known.get("next", 0)
            known["next"] = known[query.id] + 1
    return {q.id: known[q.id] for q in queries}
