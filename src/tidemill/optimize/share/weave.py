"""All window aggregates of one source as one plan: the configuration of its readers' hash tables, and its fragment
stores.

This puts the optimizers together: `weaving` (paper 003) decides which queries share fragments, `phantoms` (paper 002)
which finer relations feed them and how the memory is divided. What they decide is data; whatever it is, the answers
are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.optimize.rendering import select
from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.feeding import FeedingGraph
from tidemill.optimize.share.reader_plan import ReaderPlan, Settings, Tree, plan_reader
from tidemill.optimize.share.weaving.edges import edges_of
from tidemill.optimize.share.window_queries import WindowQuery
from tidemill.plan import physical as p
from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import Mode, ids
from tidemill.plan.predicate_programs import compile_program
from tidemill.plan.relations import Item
from tidemill.plan.sources import Column, Schema
from tidemill.plan.user_aggregates import ACCUMULATOR, UserAggregatePart, user_aggregate_parts

_SKETCHED = 32
Bits = dict[str, dict[str, int]]  # fragment store → query → its bit; "next" is the first free one


@dataclass
class Woven:
    """The operators of one source's window aggregates."""

    source: str
    lfta: p.Lfta
    leaves: dict[str, p.Leaf]  # by store
    accumulators: dict[str, p.Leaf]  # by store: leaves of accumulators, where a query has a user's aggregate
    stores: dict[str, p.Weave]  # by store; inputs and queries are filled in by `lower`
    bits: dict[str, dict[str, int]]  # by store, by query
    plan: ReaderPlan


def weave(source: str, schema: Schema, queries: Iterable[WindowQuery], bits: Bits, settings: Settings) -> Woven:
    """One plan for all queries over one source."""
    return _Weaver(source, schema, sorted(queries, key=lambda q: q.id), bits, settings).weave()


class _Weaver:
    def __init__(self, source: str, schema: Schema, queries: list[WindowQuery], bits: Bits, settings: Settings) -> None:
        self.source, self.schema, self.queries, self.settings = source, schema, queries, settings
        self.attributes = _items(a for q in queries for a in q.attributes)
        self.arguments = _items(a for q in queries for a in q.arguments)
        self.predicates = list(dict.fromkeys(q.predicate for q in queries if q.predicate is not None))
        self.numbers = {predicate: i for i, predicate in enumerate(self.predicates)}
        self.parts = {part.name: part for q in queries for part in q.parts}
        self.accumulators = {part.name: part for q in queries for part in q.accumulators}
        self.stores: dict[str, list[WindowQuery]] = {}
        for query in queries:
            self.stores.setdefault(query.store, []).append(query)
        self.bits = {store: _bits(bits.setdefault(store, {}), found) for store, found in self.stores.items()}

    def weave(self) -> Woven:
        plan = plan_reader(self.source, self.queries, len(self.parts), self.settings)
        leaves = {store: self._leaf(store) for store in self.stores}
        lfta = self._lfta(plan.tree)
        stores = {store: self._store(store) for store in self.stores}
        accumulators = {
            store: self._accumulator_leaf(store) for store, found in self.stores.items() if _accumulators(found)
        }
        return Woven(self.source, lfta, leaves, accumulators, stores, self.bits, plan)

    def _lfta(self, tree: Tree) -> p.Lfta:
        attributes = list(self.attributes)
        types = dict(self.queries[0].types)
        return p.Lfta(
            ids.lfta(self.source),
            (ids.scan(self.source),),
            self.schema,
            attributes=tuple(map(_expression, self.attributes.values())),
            arguments=tuple(map(_expression, self.arguments.values())),
            parts=tuple(self.parts.values()),
            predicates=tuple(
                p.LftaPredicate(test.sql, compile_program(test, types), tuple(sorted(test.columns)))
                for test in self.predicates
            ),
            queries=tuple(map(self._query, self.queries)),
            stores=tuple(self._leaves_of(store) for store in self.stores),
            relations=self._relations(tree),
            candidates=tuple(tuple(attributes.index(a) for a in sorted(names)) for names in self._candidates()),
            accumulators=tuple(self.accumulators.values()),
            assumed=len(tree) > 1 and self.source not in self.settings.statistics,
            budget=self.settings.budget,
        )

    def _query(self, query: WindowQuery) -> p.LftaQuery:
        expressions = [*self.attributes, *self.arguments, *self.accumulators]
        used = (*query.names, *(a.name for a in query.arguments), *(part.name for part in query.accumulators))
        return p.LftaQuery(
            query.id,
            self.bits[query.store][query.id],
            -1 if query.predicate is None else self.numbers[query.predicate],
            tuple(map(expressions.index, used)),
            tuple(edges_of([query.window])),
            tuple(part.name for part in query.accumulators),
            tuple(part.name for part in query.parts),
        )

    def _leaves_of(self, store: str) -> p.LftaStore:
        parts = tuple(part.name for part in self._parts(store))
        return p.LftaStore(ids.leaf(store), ids.accumulator_leaf(store), self._words(store), parts)

    def _relations(self, tree: Tree) -> tuple[p.LftaRelation, ...]:
        attributes, stores = list(self.attributes), list(self.stores)
        order = {q.id: i for i, q in enumerate(self.queries)}
        return tuple(
            p.LftaRelation(
                node.label,
                node.parent,
                node.buckets,
                tuple(map(attributes.index, node.attributes)),
                tuple(node.edges),
                stores.index(node.store) if node.store else -1,
                tuple(order[q] for q in node.queries),
                tuple(order[q] for q in node.own),
            )
            for node in tree
        )

    def _candidates(self) -> list[frozenset[str]]:
        """Attribute sets whose groups the readers shall count: those asked for, and what could feed them."""
        asked = {frozenset(q.names) for q in self.queries}
        graph = FeedingGraph.of([Relation(names) for names in asked])
        feeders = [r.attributes for r in graph.candidates if r.attributes not in asked]
        return [*sorted(asked, key=sorted), *feeders][:_SKETCHED]

    def _words(self, store: str) -> tuple[int, ...]:
        return tuple(sorted({b // 64 for b in self.bits[store].values()}))

    def _parts(self, store: str) -> tuple[FragmentPart, ...]:
        return tuple({part.name: part for q in self.stores[store] for part in q.parts}.values())

    def _keys(self, store: str) -> tuple[Column, ...]:
        return tuple(Column(a.name, a.type) for a in self.stores[store][0].attributes)

    def _leaf(self, store: str) -> p.Leaf:
        words = tuple(Column(f"__s{w}", "BIGINT") for w in self._words(store))
        parts = tuple(Column(part.name, part.type) for part in self._parts(store))
        return p.Leaf(ids.leaf(store), (ids.lfta(self.source),), (*self._keys(store), *words, *parts))

    def _accumulator_leaf(self, store: str) -> p.Leaf:
        words = tuple(Column(f"__s{w}", "BIGINT") for w in self._words(store))
        return p.Leaf(ids.accumulator_leaf(store), (ids.lfta(self.source),), (*self._keys(store), *words, *ACCUMULATOR))

    def _store(self, store: str) -> p.Weave:
        floating = {a.name for q in self.stores[store] for a in q.arguments if a.type in ("DOUBLE", "FLOAT")}
        parts = self._parts(store)
        return p.Weave(
            ids.weave(store),
            (),
            self._keys(store),
            keys=self._keys(store),
            words=self._words(store),
            parts=tuple(p.Part(part.name, part.type, part.combine) for part in parts),
            decoded=tuple(part.name for part in parts if part.lift == "order" and part.argument in floating),
            accumulators=_accumulators(self.stores[store]),
        )


def weave_query(name: str, query: WindowQuery, bit: int, mode: Mode) -> p.WeaveQuery:
    """One query in one mode as its store's operator reads it, for the operator `name` that picks its rows."""
    inner, outer = query.answer() if mode != "partials" else query.partials()
    return p.WeaveQuery(
        name,
        f"{query.id}.{mode}",
        bit,
        mode,
        query.window,
        tuple(part.name for part in query.parts),
        (select(inner), select(outer)),
        tuple(part.name for part in query.accumulators),
    )


def _expression(item: Item) -> p.LftaExpression:
    return p.LftaExpression(item.name, item.sql, item.type, tuple(sorted(item.value.columns)))


def _items(items: Iterable[Item]) -> dict[str, Item]:
    return {i.name: i for i in items}


def _accumulators(queries: list[WindowQuery]) -> tuple[UserAggregatePart, ...]:
    return user_aggregate_parts(a for q in queries for a in q.aggregates)


def _bits(known: dict[str, int], queries: list[WindowQuery]) -> dict[str, int]:
    """Each query keeps its bit; a new one takes the next, so that no stored fragment has it set."""
    live = {q.id for q in queries}
    for gone in [q for q in known if q not in live and q != "next"]:
        del known[gone]
    for query in queries:
        if query.id not in known:
            known[query.id] = known.get("next", 0)
            known["next"] = known[query.id] + 1
    return {q.id: known[q.id] for q in queries}
