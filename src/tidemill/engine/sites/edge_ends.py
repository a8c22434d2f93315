"""The ends of edges that this site has: what it lends to other sites and what it reads from them for a join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.edges import LENT, new_edge
from tidemill.engine.sites.exports import find_other_site, local_site
from tidemill.engine.sites.imports import Imports, Known
from tidemill.engine.sites.placing import PlacedItem
from tidemill.engine.sites.service import Service
from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import IMPORTS
from tidemill.sql.catalog import Catalog, Entry


class EdgeEnds:
    """Begins edges for the fragments of a plan."""

    def __init__(self, paths: Paths, catalog: Catalog, workload: Workload, imports: Imports, service: Service) -> None:
        self._paths, self.catalog, self.workload = paths, catalog, workload
        self._imports, self._service = imports, service

    def lend(self, site: str, edge: str, text: str, **options: Any) -> None:
        """Begin an edge to another site."""
        self._service.add(new_edge(self.workload, site, edge, text, **{LENT: True, **options}))

    def read(self, site: str, found: Description, text: str, **origin: Any) -> Entry:
        """Begin to read a fragment of another site."""
        return self._imports.add(find_other_site(self.catalog, site), found, text, **origin)

    def read_whole(self, item: PlacedItem, statement: Any, known: Known, named: dict[str, str]) -> None:
        """Read a stream or view of another site as it is."""
        self.import_whole(item.table, statement, known, named)

    def ask_names(self, statement: Any) -> Known:
        """What the names of other sites in a statement are."""
        return self._imports.ask_names(statement)

    def import_whole(self, table: exp.Table, statement: Any, known: Known, named: dict[str, str]) -> None:
        """Read a name of another site as it is."""
        self._imports.import_whole(table, statement, *known[id(table)], named)

    def forget_unread(self) -> None:
        """Forget what nothing reads."""
        self._imports.forget_unread()

    def describe_answer(self, statement: Any, known: Known, items: Mapping[str, PlacedItem]) -> Description:
        """What the answer of a whole query is."""
        named: dict[str, str] = {}
        for item in items.values():
            if id(item.table) in known:
                self.read_whole(item, statement, known, named)
        planned = self.workload.plan_query(statement.query, "streamed", {**statement.options, IMPORTS: named})
        bound = planned.bound
        if bound.rhythm.points is not None:
            raise PlanProblem(
                "TM716", "this query cannot be joined as it is asked for", detail="it has points of its own"
            )
        key = bound.keys
        schema = tuple(c for c in planned.node.schema if not c.name.startswith("__"))
        return Description(
            "answer",
            schema,
            self.workload.unit_us,
            key or (),
            is_view=True,
            keyed=key is not None,
            domain=bound.domain,
            period=bound.rhythm.period,
        )

    def new_name(self) -> str:
        """The beginning of the names of all edges of a plan; no other database has it."""
        me = local_site(self.catalog)
        assert me is not None
        return self.catalog.next_id(f"{me.name}.{self._paths.database[:6]}.q")
