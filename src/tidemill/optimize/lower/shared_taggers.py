"""Placing shared taggers, and the finer groupings behind them (`optimize/views`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.placement import Handle, by_hash, placement_after, project_placement
from tidemill.optimize.rendering import columns_read, copies, filter_rows, project
from tidemill.optimize.views.joint_groups import JointGrouping
from tidemill.optimize.views.phantoms import FedGrouping, FinerGrouping, feed_grouping
from tidemill.optimize.views.shared_taggers import SharedTagger, find_rounding, read_shared, take_apart, widen_tagger
from tidemill.optimize.views.tagging import TaggingSettings, choose_finer
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.physical import ids
from tidemill.plan.relations import Item, Relation, quoted
from tidemill.plan.sources import Column

COUNT = Column("__n", "BIGINT")


def numbered_keys(found: JointGrouping) -> tuple[str, ...]:
    """The columns of `NumberedRows` that are the key."""
    return tuple(f"__key{i}" for i in range(len(found.items)))


@dataclass
class SharedTaggers(Edges):
    """Taggers of queries that read a shared one, and partial aggregates from a finer grouping."""

    taggers: dict[str, SharedTagger] = field(default_factory=dict)  # by the fingerprint of a query's own tagger
    finer: dict[str, FinerGrouping] = field(default_factory=dict)  # by that of the shared one
    rounding: frozenset[str] = frozenset()  # own taggers whose values are added up with rounding

    def share_taggers(self, roots: Iterable[Relation], settings: TaggingSettings) -> None:
        """Plan with these taggers, and with the finer groupings that pay for these queries."""
        if settings.taggers:
            roots = list(roots)
            self.taggers, self.finer = settings.taggers, choose_finer(roots, settings)
            self.rounding = find_rounding(roots)

    def place_shared_tag(self, node: r.Tag) -> Handle | None:
        """The rows of a query's own tagger from the shared one; None where it has its own."""
        shared = self.taggers.get(node.fingerprint)
        found = take_apart(node) if shared is not None else None
        if shared is None or found is None:
            return None
        if widen_tagger(found, shared) is node:
            return None  # it has all columns and points already
        handle = self.build(read_shared(found, shared))
        return self._cancel(node, handle) if node.fingerprint in self.rounding else handle

    def _cancel(self, node: r.Tag, handle: Handle) -> Handle:
        """The changes that the query's own tagger would give: a row that goes and comes at one time has not changed.

        Adding a double and taking it away again may leave a rest in the last digit.
        """
        net = p.Finer(
            ids.node("net", node.fingerprint),
            (),
            node.schema,
            node.columns,
            "CAST(sum(__diff) AS BIGINT)",
            (),
            columns_read=node.columns,
        )
        changed = p.Filter(ids.node("changed", node.fingerprint), (), node.schema, "__diff <> 0", ())
        return self.extend(self.extend(handle, net), changed)

    def place_finer_partial(self, node: r.GroupBy) -> Handle | None:
        """Partial aggregates of a grouping from the finer one; None where there is none that feeds it."""
        fed = feed_grouping(node, self.taggers)
        if fed is None:
            return None
        shared = self.taggers[fed.tagger.tag.fingerprint]
        finer = self.finer.get(widen_tagger(fed.tagger, shared).fingerprint)
        return None if finer is None else self._add_up_finer(fed, shared, finer)

    def _add_up_finer(self, fed: FedGrouping, shared: SharedTagger, finer: FinerGrouping) -> Handle:
        """Finer[…] → synchronizer → filter → keys and parts → partial."""
        node, name = fed.node, fed.node.fingerprint
        handle = self._place_finer(finer)
        if fed.tagger.synchronizer is not None and fed.tagger.periods != shared.periods:
            handle = self.extend(handle, self._synchronizer(fed, handle, ids.node("finer_points", name)))
        if fed.tagger.predicate is not None:
            handle = self.extend(handle, filter_rows(ids.node("finer_rows", name), handle.schema, fed.tagger.predicate))
        below = node.input
        assert isinstance(below, r.Project)
        items = {item.name: item for item in below.items}
        keys = tuple(Column(k, items[k].type) for k in node.keys)
        columns = finer.columns
        needed = {part.name: (columns[part.sql][0], part) for part in fed.parts.values()}
        read = {column: Column(column, part.type) for column, part in needed.values()}
        listed = (*((k, items[k].value) for k in node.keys), *copies(read))
        select = project(ids.node("finer_columns", name), (*keys, *read.values()), listed)
        chosen = r.Project(finer.tagger, tuple(items[k] for k in node.keys))
        handle = self.extend(handle, select, project_placement(handle.where, chosen))
        partial = p.Partial(
            ids.node("partial", name),
            (),
            (*keys, COUNT, *(Column(part, found.type) for part, (_, found) in needed.items())),
            tuple(node.keys),
            "CAST(sum(__diff) AS BIGINT)",
            tuple(p.Item(part, _sum(column, found.type)) for part, (column, found) in needed.items()),
            columns_read=(*node.keys, *read),
        )
        return self.extend(handle, partial)

    def _place_finer(self, finer: FinerGrouping) -> Handle:
        """Changes of the shared tagger, added up by the finer keys; once for all that read it."""
        tagger = self.build(finer.tagger)
        columns = [Column(key, finer.tagger.type_of(key)) for key in finer.keys]
        added = finer.columns.values()
        op = p.Finer(
            ids.node("finer", finer.tagger.fingerprint),
            (),
            (*columns, *(Column(name, part.type) for name, part in added)),
            finer.keys,
            "CAST(sum(__diff) AS BIGINT)",
            tuple(p.Item(name, part.sql) for name, part in added),
            columns_read=(*finer.keys, *columns_read(*(part.value for _, part in added))),
        )
        return self.extend(tagger, op)

    def place_numbered_rows(self, found: JointGrouping, shared: SharedTagger) -> Handle:
        """Changes of the shared tagger in the shards of their groups; once for all groupings by the key."""
        wide, names = widen_tagger(found.tagger, shared), numbered_keys(found)
        keys = tuple(Item(k, item.value, item.type) for k, item in zip(names, found.items, strict=True))
        node = r.Project(wide, (*keys, *(Item.of(column) for column in wide.schema)))
        items = tuple((item.name, item.value) for item in node.items)
        op = project(ids.node("keyed", node.fingerprint), node.schema, items)
        tagger = self.build(wide)
        rows = self.extend(tagger, op, project_placement(tagger.where, node))
        need = by_hash(names)
        source, where = self.deliver(rows, need), placement_after(rows, need)
        numbered = p.NumberedRows(ids.node("numbered", node.fingerprint), (source,), node.schema, names)
        return self.note_placement(Handle("stage", self.add_stage(numbered), node.schema, where))

    def _synchronizer(self, fed: FedGrouping, below: Handle, name: str) -> p.Linear:
        node = fed.tagger.synchronizer
        if isinstance(node, r.Synchronize):
            return p.Synchronize(name, (), below.schema, node.every_us, node.offset_us)
        assert node is not None
        return p.SynchronizePeriods(name, (), below.schema, node.periods)


def _sum(column: str, type_name: str) -> str:
    return f"CAST(sum({quoted(column)}) AS {type_name})"
