"""Sources, and the operators that treat every row alike: they run where their rows are."""

from __future__ import annotations

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.placement import ALL, ANY, Handle, name_of, renamed
from tidemill.plan import relations as r
from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.sources import SourceSpec


class Streams(Edges):
    """Leaves and linear nodes."""

    def _scan(self, node: r.Scan) -> Handle:
        spec = self.sources[node.source]
        instance = f"{node.source}@{node.birth}" if node.static else node.source
        if instance not in self.specs:
            self.specs[instance] = SourceSpec.from_dict({**spec.to_dict(), "name": instance})
        name = f"scan.{instance}"
        whole = r.Scan(node.source, spec.columns).schema
        self.reader.setdefault(name, Op(name, "scan", (), whole, {"source": instance}))
        self.origins[name] = f"source:{instance}"
        found = Handle("reader", name, whole)
        if node.schema == whole:
            return found
        # The source has columns that came after this reader.
        items = [[c.name, quoted(c.name)] for c in node.schema]
        return self.extend(found, "project", f"narrow.{node.fingerprint}", node.schema, {"items": items})

    def _amended(self, node: r.Amended) -> Handle:
        return self.build(node.input)

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
    def _view(self, node: r.View) -> Handle:
        below = self.build(node.input)
        if not node.late:
            return below
        # A running view holds changes whose time has not come: they are not stored yet, only its gate has them.
        where = below.where if below.place == "stage" and below.where.how != "all" else ANY
        return Handle("stage", self.output(node.input), node.schema, where)

    def _filter(self, node: r.Filter) -> Handle:
        below = self.build(node.input)
        return self.extend(below, "filter", name_of(node), node.schema, {"predicate": node.predicate})

    def _project(self, node: r.Project) -> Handle:
        below = self.build(node.input)
        params = {"items": [[i.name, i.sql] for i in node.items]}
        if below.place == "union":
            branches = tuple(
                self.extend(b, "project", f"{name_of(node)}.{i}", node.schema, params, renamed(b.where, node))
                for i, b in enumerate(below.branches)
            )
            return Handle("union", schema=node.schema, branches=branches)
        return self.extend(below, "project", name_of(node), node.schema, params, renamed(below.where, node))

    def _union(self, node: r.Union) -> Handle:
        flat: list[Handle] = []
        for child in node.inputs:
            handle = self.build(child)
            flat += handle.branches if handle.place == "union" else (handle,)
        return Handle("union", schema=node.schema, branches=tuple(flat))

    def _temporal(self, node: r.Temporal) -> Handle:
        params = {"lower": node.lower, "upper": node.upper}
        return self.extend(self.build(node.input), "temporal", name_of(node), node.schema, params)

    def _synchronize(self, node: r.Synchronize) -> Handle:
        params = {"every": node.every_us, "offset": node.offset_us}
        return self.extend(self.build(node.input), "synchronize", name_of(node), node.schema, params)
