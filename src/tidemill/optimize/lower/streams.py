"""Sources, and the operators that treat every row alike: they run where their rows are."""

from __future__ import annotations

from dataclasses import replace

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.placement import ALL, ANY, Handle, name_of, project_placement
from tidemill.optimize.rendering import columns_read, copies, filter_rows, project, select
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.physical import ids
from tidemill.plan.scalars import sql_of
from tidemill.plan.sources import CONSTANTS, SourceSpec, name_reading


class Streams(Edges):
    """Leaves and linear nodes."""

    def place_scan(self, node: r.Scan | r.Delivered) -> Handle:
        spec = self.sources[node.source]
        instance = name_reading(node.source, node.birth) if isinstance(node, r.Scan) and node.static else node.source
        if instance not in self.specs:
            self.specs[instance] = SourceSpec.from_dict({**spec.to_dict(), "name": instance})
        name = ids.scan(instance)
        whole = r.Scan(node.source, spec.columns).schema
        self.reader.setdefault(name, p.Scan(name, (), whole, instance))
        self.origins[name] = ids.source_origin(instance)
        found = Handle("reader", name, whole)
        if node.schema == whole:
            return found
        # The source has columns that were added after this reader began.
        items = copies(c.name for c in node.schema)
        return self.extend(found, project(ids.node("narrow", node.fingerprint), node.schema, items))

    def place_constants(self, node: r.Constants) -> Handle:
        """Numbered rows, as a static table of their own for all queries that begin together."""
        instance = name_reading(node.source, node.birth)
        spec = SourceSpec(instance, CONSTANTS, node.columns, {"rows": node.rows}, static=True)
        self.specs.setdefault(instance, spec)
        name = ids.scan(instance)
        self.reader.setdefault(name, p.Scan(name, (), node.schema, instance))
        self.origins[name] = ids.source_origin(instance)
        return Handle("reader", name, node.schema)

    def place_amended(self, node: r.Amended) -> Handle:
        return self.build(node.input)

    def place_seed(self, node: r.Seed) -> Handle:
        since = node.since if isinstance(node, r.SeedSince) else None
        name = ids.seed(node.view, node.birth, since)
        if name not in self.reader:
            self.reader[name] = p.Seed(name, (), node.schema, node.view, since)
            self.seeds.append((name, node.view))
        self.origins[name] = ids.seed_origin(name)
        return Handle("reader", name, node.schema)

    def place_clock(self, node: r.Clock) -> Handle:
        name = self.add_stage(p.Clock(ids.clock(node.unit_us), (p.CLOCK,), node.schema, node.unit_us))
        return Handle("stage", name, node.schema, ALL)

    def place_view(self, node: r.View) -> Handle:
        below = self.build(node.input)
        if not node.late:
            return below
        # A running view has changes whose time is not closed: they are in the state of its output, not in its table.
        where = below.where if below.place == "stage" and below.where.how != "all" else ANY
        return Handle("stage", self.output(node.input), node.schema, where)

    def place_filter(self, node: r.Filter) -> Handle:
        below = self.build(node.input)
        return self.extend(below, filter_rows(name_of(node), node.schema, node.predicate))

    def place_project(self, node: r.Project) -> Handle:
        below = self.build(node.input)
        items = tuple((i.name, i.value) for i in node.items)
        op, layer = project(name_of(node), node.schema, items), select(items)
        if below.place == "union":
            branches = tuple(
                self.extend(b, replace(op, id=ids.variant(op.id, i)), project_placement(b.where, node), layer)
                for i, b in enumerate(below.branches)
            )
            return Handle("union", schema=node.schema, branches=branches)
        return self.extend(below, op, project_placement(below.where, node), layer)

    def place_unnest(self, node: r.Unnest) -> Handle:
        read = columns_read(node.list)
        op = p.Unnest(name_of(node), (), node.schema, node.list.sql, node.element, node.number, node.outer, read)
        return self.extend(self.build(node.input), op)

    def place_union(self, node: r.Union) -> Handle:
        flat: list[Handle] = []
        for child in node.inputs:
            handle = self.build(child)
            flat += handle.branches if handle.place == "union" else (handle,)
        return Handle("union", schema=node.schema, branches=tuple(flat))

    def place_temporal(self, node: r.Temporal) -> Handle:
        lower, upper = sql_of(node.lower), sql_of(node.upper)
        op = p.Temporal(name_of(node), (), node.schema, lower, upper, columns_read(node.lower, node.upper))
        return self.extend(self.build(node.input), op)

    def place_synchronize(self, node: r.Synchronize) -> Handle:
        op = p.Synchronize(name_of(node), (), node.schema, node.every_us, node.offset_us)
        return self.extend(self.build(node.input), op)

    def place_synchronize_periods(self, node: r.SynchronizePeriods) -> Handle:
        op = p.SynchronizePeriods(name_of(node), (), node.schema, node.periods)
        return self.extend(self.build(node.input), op)
