"""Joins between sites as they run: which fragments this site lends, which it reads, and what its view becomes.

The site that asks plans. Each fragment has this site at one of its ends: what leaves is an edge that begins with the
view, what comes is a source. A peer gets the SQL text of a fragment and binds it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.edges import LENT, new_edge
from tidemill.engine.sites.exports import AT, MAX_LATENCY, SITE_JOIN, SITE_JOINS, find_other_site, local_site
from tidemill.engine.sites.fragments import describe_export
from tidemill.engine.sites.imports import Imports, Known
from tidemill.engine.sites.placing import PlacedItem, place_items
from tidemill.engine.sites.realisation import Placement, Realisation
from tidemill.engine.sites.service import Service
from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem, TidemillError
from tidemill.plan.sites import ALGORITHMS, Method, SiteQuery, build_tree
from tidemill.plan.sites.tree import crossings
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import IMPORTS
from tidemill.sql.bind.scalar import in_us
from tidemill.sql.catalog import Catalog, Entry
from tidemill.sql.lexical.durations import duration_from_text

SAFE = 0.05  # `auto` uses join values where they add at most this share
_UNPLACED = ("order", "limit", "offset", "qualify", "with_", "distinct_on")  # a query with these is not sent away


class SiteJoins:
    """Plans the joins of statements."""

    def __init__(
        self,
        paths: Paths,
        catalog: Catalog,
        workload: Workload,
        imports: Imports,
        service: Service,
        round_trip: Callable[[str], float | None],
    ) -> None:
        self._paths, self.catalog, self.workload = paths, catalog, workload
        self._imports, self._service, self._round_trip = imports, service, round_trip

    def plan(self, statement: Any, known: Known) -> dict[str, Any] | None:
        """The options of a statement whose join is done in another way than by shipping everything here; None where
        that is how it is done.
        """
        if any(found.edge for _, found in known.values()):
            return None  # another site's plan: it says itself what it reads
        placement = self._choose(statement, known)
        if placement is None:
            return None
        return Realisation(self, statement, known, placement).options()

    # ---- the choice ------------------------------------------------------------------------------

    def _choose(self, statement: Any, known: Known) -> Placement | None:
        given = str(statement.options.get(SITE_JOIN, "")).lower()
        wanted = given or str(self.catalog.settings.get(SITE_JOIN, "auto"))
        at = statement.options.get(AT)
        if wanted not in SITE_JOINS:
            raise PlanProblem("TM242", f'there is no join algorithm "{wanted}"', hint=f"use {', '.join(SITE_JOINS)}")
        if wanted == "auto" and at is None:
            return self._safe(statement, known)
        if wanted == "sp_s" and at is None:
            return None
        why = "it is not a join of streams and views of sites by equal columns"
        found = self._items(statement, known)
        if found is not None:
            placement = self._named(*found, wanted, at, statement)
            if isinstance(placement, Placement):
                placement = self._too_late(placement, statement) or placement
            if isinstance(placement, Placement):
                return placement
            why = placement
        if given or at is not None:
            raise PlanProblem(
                "TM716",
                "this query cannot be joined as it is asked for",
                detail=why,
                hint="leave out site_join and at, and the rows are shipped here",
            )
        return None

    def _safe(self, statement: Any, known: Known) -> Placement | None:
        """Join values in the place of whole streams where that cannot cost much: a value crosses once and a row at most
        once, so what is added is at most a value for each row of this site. None where the added part may be more than
        a twentieth of the rows, by the rates so far, or where nothing is known of them.
        """
        found = self._items(statement, known)
        if found is None or MAX_LATENCY in statement.options:
            return None
        query, items = found
        placement = self._named(query, items, "sm_s1", None, statement)
        if not isinstance(placement, Placement):
            return None
        added = saved = 0.0
        for alias, method in placement.methods.items():
            if method.name != "whole" and method.by is not None:
                equality = next(e for e in query.reducers(alias) if e.other(alias) == method.by)
                near, types = items[method.by], query.input(method.by)
                rate = self._service.rate_of(near.found.name)
                if not rate or not items[alias].found.rate or not items[alias].row_local:
                    return None
                added += rate * sum(width(types.type_of(c)) for c in equality.columns_of(method.by))
                saved += items[alias].found.rate * sum(width(c.type) for c in query.input(alias).columns)
        return placement if added <= SAFE * saved else None

    def _too_late(self, placement: Placement, statement: Any) -> str:
        """Why the answers would be later than `max_latency` says: the crossings alone take longer, by the round trips
        that were measured. "" where they would not.
        """
        if MAX_LATENCY not in statement.options:
            return ""
        limit = _length(str(statement.options[MAX_LATENCY]), self.workload.unit_us)
        crossed = crossings(build_tree(placement.query, placement.methods, placement.site))
        crossed += placement.site != placement.query.site
        trips = [self._round_trip(site) or 0.0 for site in placement.query.sites]
        late = crossed * max(trips, default=0.0) / 2
        return f"{crossed} crossings take {late:.3f} s, and {limit:.3f} s are allowed" if late > limit else ""

    def _items(self, statement: Any, known: Known) -> tuple[SiteQuery, dict[str, PlacedItem]] | None:
        """The join of a statement with all its items; of local items that cannot be shipped only the names."""
        me = local_site(self.catalog)
        here = me.name if me is not None else "here"
        described: dict[int, tuple[str, Description]] = {i: (site.name, found) for i, (site, found) in known.items()}
        for table in statement.query.find_all(exp.Table):
            if id(table) not in described:
                described[id(table)] = here, self._describe_own(table)
        return place_items(statement.query, here, self.workload.unit_us, described)

    def _describe_own(self, table: exp.Table) -> Description:
        try:
            return describe_export(self.workload, {table.name.lower()}, table.name)
        except TidemillError:
            return Description(table.name, (), self.workload.unit_us, is_view=True)

    def _named(
        self, query: SiteQuery, items: dict[str, PlacedItem], wanted: str, at: Any, statement: Any
    ) -> Placement | str:
        """The placement of an algorithm; a text says why there is none."""
        name, at_left = ALGORITHMS["sp_s" if wanted == "auto" else wanted]
        others = [site for site in query.sites if site != query.site]
        site = query.site if at_left else others[0]
        if at is not None:
            site = next((s for s in query.sites if s.lower() == str(at).lower()), "")
            if not site:
                return f'"{at}" is none of its sites: {", ".join(query.sites)}'
        if site != query.site:
            why = _cannot_be_sent(statement, query, items)
            if why:
                return why
        methods = {i.alias: _method(query, items, i.alias, name, site) for i in query.inputs if i.site != site}
        uses_keys = any(m.name != "whole" for m in methods.values())
        if site == query.site and not uses_keys:
            return "no input has a column that is compared with one of this site, and a window that can be shipped"
        backwards = [i for i in items.values() if i.site != query.site and not i.found.answers_back]
        if local_site(self.catalog) is None or backwards:
            return (
                "the other site cannot read from this one: it needs CREATE SITE … AT there, and CREATE LOCAL SITE here"
            )
        return Placement(query, items, methods, site, wanted)

    # ---- what a realisation needs ------------------------------------------------------------------

    def lend(self, site: str, edge: str, text: str, **options: Any) -> None:
        """Begin an edge to another site."""
        self._service.add(new_edge(self.workload, site, edge, text, **{LENT: True, **options}))

    def read(self, site: str, found: Description, text: str, **origin: Any) -> Entry:
        """Begin to read a fragment of another site."""
        return self._imports.add(find_other_site(self.catalog, site), found, text, **origin)

    def read_whole(self, item: PlacedItem, statement: Any, known: Known, named: dict[str, str]) -> None:
        """Read a stream or view of another site as it is."""
        self._imports.import_whole(item.table, statement, *known[id(item.table)], named)

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


def width(kind: str) -> int:
    """Bytes of a value, at least.

    >>> width("INTEGER"), width("VARCHAR"), width("TIMESTAMP")
    (4, 16, 8)
    """
    sizes = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "FLOAT": 4, "DATE": 4, "HUGEINT": 16, "UUID": 16}
    return 16 if kind.startswith("VARCHAR") else sizes.get(kind, 8)


def _length(text: str, unit_us: int) -> float:
    """A length of time in seconds."""
    try:
        return in_us(duration_from_text(text), unit_us) / 1e6
    except ValueError as error:
        raise PlanProblem(
            "TM213", f"max_latency: {error}", hint="for example WITH (max_latency = '2 seconds')"
        ) from None


def _method(query: SiteQuery, items: Mapping[str, PlacedItem], alias: str, name: Any, site: str) -> Method:
    """How an input gets to the site of the join: by keys where an input there says which rows match."""
    if name != "whole" and items[alias].may_travel:
        for equality in query.reducers(alias):
            other = equality.other(alias)
            near = query.input(other)
            if near.site == site and (near.insert_only or items[other].may_travel):
                return Method(name, other)
    return Method("whole")


def _cannot_be_sent(statement: Any, query: SiteQuery, items: Mapping[str, PlacedItem]) -> str:
    """Why another site cannot answer the whole query; "" where it can."""
    if len(query.sites) > 2:
        return "it reads more than one other site"
    if any(statement.query.args.get(part) for part in _UNPLACED) or statement.options.get("unbounded_state"):
        return "an order, a limit, WITH and unbounded_state are for this site"
    if any(not i.found.columns for i in items.values()):
        return "it reads something that cannot be shipped"
    return ""
