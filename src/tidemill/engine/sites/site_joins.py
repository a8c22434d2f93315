"""Joins between sites as they run: which fragments this site lends, which it reads, and what its view becomes.

The site that asks plans. Each fragment has this site at one of its ends: what leaves is an edge that begins with the
view, what comes is a source. A peer gets the SQL text of a fragment and binds it itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.changeable import count_us, may_change
from tidemill.engine.sites.choosing import Ask, Asked, Choosing, FindLink, Weighed, width
from tidemill.engine.sites.edge_ends import EdgeEnds
from tidemill.engine.sites.edges import bind_edge
from tidemill.engine.sites.exports import AT, MAX_LATENCY, SITE_JOIN, SITE_JOINS, local_site
from tidemill.engine.sites.fragments import describe_export
from tidemill.engine.sites.imports import Imports, Known
from tidemill.engine.sites.placing import PlacedItem, place_items
from tidemill.engine.sites.realisation import Placement, Realisation
from tidemill.engine.sites.reducers import Passed
from tidemill.engine.sites.remarks import SITE_COSTS
from tidemill.engine.sites.service import Service
from tidemill.engine.views.history import HISTORY, OPTION, begins_with_history
from tidemill.engine.views.ways import FIRST, SITE_PLAN, WAYS
from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem, TidemillError
from tidemill.plan.sites import ALGORITHMS, Method, SiteQuery, build_tree
from tidemill.plan.sites.algorithms import MethodName
from tidemill.plan.sites.tree import crossings
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import IMPORTS
from tidemill.sql.bind.scalar import in_us
from tidemill.sql.catalog import Catalog
from tidemill.sql.lexical.durations import duration_from_text

SAFE = 0.05  # `auto` uses join values where they add at most this share
_MOST_MIXED = 3  # inputs of other sites of which all combinations of methods are priced
Found = tuple[SiteQuery, dict[str, PlacedItem]]
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
        ask: Ask,
        find_link: FindLink,
    ) -> None:
        self.catalog, self.workload = catalog, workload
        self._service, self._find_link = service, find_link
        self.choosing = Choosing(service.measures, ask, find_link, workload.unit_us)
        self._ends = EdgeEnds(paths, catalog, workload, imports, service)

    def plan(self, statement: Any, known: Known) -> dict[str, Any] | None:
        """The options of a statement that say how its join is done, and what each way would cost; without streams to
        read where everything is shipped here. None where it is no join between sites.
        """
        if any(found.edge for _, found in known.values()):
            return None  # another site's plan: it says itself what it reads
        found = self.items_of(statement, known)
        weighed = self._weigh(*found, statement) if found is not None else None
        placement = self._choose(statement, found, weighed)
        options = {} if placement is None else self.realise(statement, known, placement)
        if weighed is not None:
            self._measure(weighed)
            options[SITE_COSTS] = weighed.show("sp_s" if placement is None else placement.algorithm)
            options |= self._options_of_change(statement, *found) if found is not None else {}
        return options or None

    def _options_of_change(self, statement: Any, query: SiteQuery, items: dict[str, PlacedItem]) -> dict[str, Any]:
        """What lets another plan take over later; {} where the plan stays."""
        wanted, unit = self.find_wanted(statement)[0], self.workload.unit_us
        fixed = wanted != "auto" or AT in statement.options or begins_with_history(statement.options)
        if fixed or self.catalog.settings.get(OPTION) == HISTORY or "unbounded_state" in statement.options:
            return {}
        if not may_change(statement.query, query, items, unit):
            return {}
        near = sorted({item.found.name for item in items.values() if item.site == query.site})
        return {WAYS: {**FIRST, "counts": [count_us(item, unit) for item in items.values()], "near": near}}

    # ---- another plan ----------------------------------------------------------------------------

    def ask_names(self, statement: Any) -> Known:
        """What the names of other sites in a statement are; these are asked."""
        return self._ends.ask_names(statement)

    def weigh_again(
        self, query: SiteQuery, items: dict[str, PlacedItem], statement: Any, asked: Asked, passed: Passed
    ) -> Weighed | None:
        """The prices of all ways of a join that stands, by statistics that were asked for, and what passes now."""
        weighed = self._weigh(query, items, statement, asked, passed)
        if weighed is not None:
            self._measure(weighed)
        return weighed

    def realise_again(self, statement: Any, known: Known, placement: Placement | None) -> dict[str, Any]:
        """Make the fragments of another plan; without a placement everything is shipped here."""
        if placement is not None:
            return self.realise(statement, known, placement)
        named: dict[str, str] = {}
        for table in statement.query.find_all(exp.Table):
            if id(table) in known:
                self._ends.import_whole(table, statement, known, named)
        return {IMPORTS: named}

    def algorithm_of(self, options: dict[str, Any]) -> str:
        """The name of the plan in force of a view."""
        return str(options.get(SITE_PLAN, {"algorithm": "sp_s"})["algorithm"])

    def bind_edges(self, name: str) -> None:
        """Bind what leaves for other sites and reads a view."""
        for entry in self.catalog.dependents(name):
            if entry.kind == "edge":
                self.workload.shipped[entry.id] = bind_edge(self.workload, entry)

    def forget_unread(self) -> None:
        """Forget the parts of plans that nothing reads."""
        self._ends.forget_unread()

    def realise(self, statement: Any, known: Known, placement: Placement) -> dict[str, Any]:
        """Make the fragments of a plan; the options that a view needs for it."""
        return Realisation(self._ends, statement, known, placement).options()

    def _weigh(
        self,
        query: SiteQuery,
        items: dict[str, PlacedItem],
        statement: Any,
        asked: Asked | None = None,
        passed: Passed | None = None,
    ) -> Weighed | None:
        """The prices of all ways to join; None where there is but one."""
        ways = self._ways(query, items, statement)
        if sum(isinstance(way, Placement) for way in ways.values()) < 2:
            return None
        return self.choosing.weigh(query, items, ways, self._limit(statement), asked, passed or {})

    def _ways(self, query: SiteQuery, items: dict[str, PlacedItem], statement: Any) -> dict[str, Placement | str]:
        """All algorithms, and where several inputs are elsewhere each combination of methods."""
        at = statement.options.get(AT)
        whole = {i.alias: Method("whole") for i in query.inputs if i.site != query.site}
        found: dict[str, Placement | str] = {}
        for name in ALGORITHMS:
            if name == "sp_s" and at is None:
                found[name] = Placement(query, items, whole, query.site, name)
            else:
                found[name] = self._place_by_name(query, items, name, at, statement)
        if at is None and isinstance(found["sm_s1"], Placement) and 1 < len(whole) <= _MOST_MIXED:
            for mixed in self._mixed_placements(query, items):
                found[mixed.algorithm] = mixed
        return found

    def _mixed_placements(self, query: SiteQuery, items: dict[str, PlacedItem]) -> Iterator[Placement]:
        """Joins here in which the inputs of other sites come in different ways."""
        far = [i.alias for i in query.inputs if i.site != query.site]
        names: tuple[MethodName, ...] = ("whole", "keys", "both", "bloom")
        for chosen in product(names, repeat=len(far)):
            methods = {a: _method(query, items, a, n, query.site) for a, n in zip(far, chosen, strict=True)}
            if len(set(chosen)) > 1 and all(methods[a].name == n for a, n in zip(far, chosen, strict=True)):
                label = ", ".join(f"{a} {n}" for a, n in zip(far, chosen, strict=True))
                yield Placement(query, items, methods, query.site, f"mixed ({label})")

    def _measure(self, weighed: Weighed) -> None:
        """Sample the join values of this site's streams, for the next look at the prices."""
        way = next(w for w in weighed.ways.values() if isinstance(w, Placement))
        for equality in way.query.equalities:
            for alias in (equality.left, equality.right):
                item = way.items[alias]
                if item.site == way.query.site and not item.found.is_view:
                    self._service.measures.measure(item.found.name, equality.columns_of(alias))

    # ---- the choice ------------------------------------------------------------------------------

    def _choose(self, statement: Any, found: Found | None, weighed: Weighed | None) -> Placement | None:
        wanted, given = self.find_wanted(statement)
        at = statement.options.get(AT)
        if wanted == "auto" and weighed is not None and not weighed.assumed:
            return self.best(weighed)
        if wanted == "auto" and at is None:
            return self._safe(found, statement)
        if wanted == "sp_s" and at is None:
            return None
        why = "it is not a join of streams and views of sites by equal columns"
        if found is not None:
            placement = self._place_by_name(*found, wanted, at, statement)
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

    def find_wanted(self, statement: Any) -> tuple[str, bool]:
        """The algorithm that a statement, or the setting, asks for, and whether it was the statement."""
        given = str(statement.options.get(SITE_JOIN, "")).lower()
        wanted = given or str(self.catalog.settings.get(SITE_JOIN, "auto"))
        if wanted not in SITE_JOINS:
            raise PlanProblem("TM242", f'there is no join algorithm "{wanted}"', hint=f"use {', '.join(SITE_JOINS)}")
        return wanted, bool(given)

    def best(self, weighed: Weighed) -> Placement | None:
        """The placement of the best way; None where everything is shipped here."""
        way = weighed.ways[weighed.best]
        assert isinstance(way, Placement)
        return None if way.algorithm == "sp_s" and way.site == way.query.site else way

    def _safe(self, found: Found | None, statement: Any) -> Placement | None:
        """Before anything is known of join values: these in the place of whole streams where that cannot cost much. A
        value crosses once and a row at most once, so what is added is at most a value for each row of this site. None
        where the added part may be more than a twentieth of the rows, by the rates so far.
        """
        if found is None or MAX_LATENCY in statement.options:
            return None
        query, items = found
        placement = self._place_by_name(query, items, "sm_s1", None, statement)
        if not isinstance(placement, Placement):
            return None
        added = saved = 0.0
        for alias, method in placement.methods.items():
            if method.name != "whole" and method.by is not None:
                equality = next(e for e in query.reducers(alias) if e.other(alias) == method.by)
                near, types = items[method.by], query.input(method.by)
                rate = self._service.measures.rate_of(near.found.name)
                if not rate or not items[alias].found.rate or not items[alias].row_local:
                    return None
                added += rate * sum(width(types.type_of(c)) for c in equality.columns_of(method.by))
                saved += items[alias].found.rate * sum(width(c.type) for c in query.input(alias).columns)
        return placement if added <= SAFE * saved else None

    def _limit(self, statement: Any) -> float | None:
        """Seconds that answers may be late."""
        if MAX_LATENCY not in statement.options:
            return None
        return _length(str(statement.options[MAX_LATENCY]), self.workload.unit_us)

    def _too_late(self, placement: Placement, statement: Any) -> str:
        """Why the answers would be later than `max_latency` says: the crossings alone take longer, by the round trips
        that were measured. "" where they would not.
        """
        limit = self._limit(statement)
        if limit is None:
            return ""
        crossed = crossings(build_tree(placement.query, placement.methods, placement.site))
        crossed += placement.site != placement.query.site
        trips = [self._find_link(site)[0] or 0.0 for site in placement.query.sites]
        late = crossed * max(trips, default=0.0) / 2
        return f"{crossed} crossings take {late:.3f} s, and {limit:.3f} s are allowed" if late > limit else ""

    def items_of(self, statement: Any, known: Known) -> Found | None:
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

    def _place_by_name(
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
            if near.site == site and (near.append_only or items[other].may_travel):
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
