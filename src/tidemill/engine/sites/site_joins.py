"""Joins between sites as they run: which fragments this site lends, which it reads, and what its view becomes.

The site that asks plans. Each fragment has this site at one of its ends: what leaves is an edge that begins with the
view, what comes is a source. A peer gets the SQL text of a fragment and binds it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.edges import EXPIRES, LENT, new_edge, reads_of
from tidemill.engine.sites.exports import AT, SITE_JOIN, SITE_JOINS, find_other_site, local_site
from tidemill.engine.sites.fragments import describe_export, fragment_text
from tidemill.engine.sites.imports import Imports, Known
from tidemill.engine.sites.placing import STAMP, PlacedItem, place_items, shipped_columns
from tidemill.engine.workload import Workload
from tidemill.errors import PlanProblem, TidemillError
from tidemill.plan.sites import ALGORITHMS, Fragment, Leaf, Method, SiteQuery, plan_sites
from tidemill.plan.sites.tree import leaf_of
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import EVALUATED, IMPORTS, PLACED
from tidemill.sql.catalog import Catalog, Entry
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import copy_tree

SITE_PLAN = "site_plan"  # the option of a view: how its join between sites is done
_UNPLACED = ("order", "limit", "offset", "qualify", "with_", "distinct_on")  # a query with these is not sent away


@dataclass(frozen=True)
class Placement:
    """A join between sites, the site where it happens and a method for each input that is elsewhere."""

    query: SiteQuery
    items: Mapping[str, PlacedItem]
    methods: Mapping[str, Method]
    site: str
    algorithm: str


class SiteJoins:
    """Plans the joins of statements; `add_edge` makes an edge part of the workload."""

    def __init__(
        self, paths: Paths, catalog: Catalog, workload: Workload, imports: Imports, add_edge: Callable[[Entry], None]
    ) -> None:
        self._paths, self._catalog, self._workload = paths, catalog, workload
        self._imports, self._add_edge = imports, add_edge

    def plan(self, statement: Any, known: Known) -> dict[str, Any] | None:
        """The options of a statement whose join is done in another way than by shipping everything here; None where
        that is how it is done.
        """
        if any(found.edge for _, found in known.values()):
            return None  # another site's plan: it says itself what it reads
        placement = self._choose(statement, known)
        if placement is None:
            return None
        return _Realisation(self, statement, known, placement).options()

    # ---- the choice ------------------------------------------------------------------------------

    def _choose(self, statement: Any, known: Known) -> Placement | None:
        given = str(statement.options.get(SITE_JOIN, "")).lower()
        wanted = given or str(self._catalog.settings.get(SITE_JOIN, "auto"))
        at = statement.options.get(AT)
        if wanted not in SITE_JOINS:
            raise PlanProblem("TM242", f'there is no join algorithm "{wanted}"', hint=f"use {', '.join(SITE_JOINS)}")
        if wanted in ("auto", "sp_s") and at is None:
            return None
        why = "it is not a join of streams and views of sites by equal columns"
        found = self._items(statement, known)
        if found is not None:
            placement = self._named(*found, wanted, at, statement)
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

    def _items(self, statement: Any, known: Known) -> tuple[SiteQuery, dict[str, PlacedItem]] | None:
        """The join of a statement with all its items; of local items that cannot be shipped only the names."""
        me = local_site(self._catalog)
        here = me.name if me is not None else "here"
        described: dict[int, tuple[str, Description]] = {i: (site.name, found) for i, (site, found) in known.items()}
        for table in statement.query.find_all(exp.Table):
            if id(table) not in described:
                described[id(table)] = here, self._describe_own(table)
        return place_items(statement.query, here, self._workload.unit_us, described)

    def _describe_own(self, table: exp.Table) -> Description:
        try:
            return describe_export(self._workload, {table.name.lower()}, table.name)
        except TidemillError:
            return Description(table.name, (), self._workload.unit_us, is_view=True)

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
        if local_site(self._catalog) is None or backwards:
            return (
                "the other site cannot read from this one: it needs CREATE SITE … AT there, and CREATE LOCAL SITE here"
            )
        return Placement(query, items, methods, site, wanted)

    # ---- what a realisation needs ------------------------------------------------------------------

    def lend(self, site: str, edge: str, text: str, **options: Any) -> None:
        """Begin an edge to another site."""
        self._add_edge(new_edge(self._workload, site, edge, text, **{LENT: True, **options}))

    def read(self, site: str, found: Description, text: str, **origin: Any) -> Entry:
        """Begin to read a fragment of another site."""
        return self._imports.add(find_other_site(self._catalog, site), found, text, **origin)

    def read_whole(self, item: PlacedItem, statement: Any, known: Known, named: dict[str, str]) -> None:
        """Read a stream or view of another site as it is."""
        self._imports.import_whole(item.table, statement, *known[id(item.table)], named)

    def describe_answer(self, statement: Any, known: Known, items: Mapping[str, PlacedItem]) -> Description:
        """What the answer of a whole query is."""
        named: dict[str, str] = {}
        for item in items.values():
            if id(item.table) in known:
                self.read_whole(item, statement, known, named)
        planned = self._workload.plan_query(statement.query, "streamed", {**statement.options, IMPORTS: named})
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
            self._workload.unit_us,
            key or (),
            is_view=True,
            keyed=key is not None,
            domain=bound.domain,
            period=bound.rhythm.period,
        )

    def new_name(self) -> str:
        """The beginning of the names of all edges of a plan; no other database has it."""
        me = local_site(self._catalog)
        assert me is not None
        return self._catalog.next_id(f"{me.name}.{self._paths.database[:6]}.q")


class _Realisation:
    """One plan: its fragments, from the innermost on."""

    def __init__(self, joins: SiteJoins, statement: Any, known: Known, placement: Placement) -> None:
        self._joins, self._statement, self._known, self._placement = joins, statement, known, placement
        self._named: dict[str, str] = {}  # names of other sites → streams here
        self._evaluated: list[str] = []
        self._name = joins.new_name()
        self._rows: dict[str, str] = {}  # alias → edge that brings it to the other site

    def options(self) -> dict[str, Any]:
        """Make the fragments; what the view has to know of them."""
        placement = self._placement
        plan = plan_sites(
            placement.query, dict(placement.methods), join_site=placement.site, name=self._name, qualified=True
        )
        for fragment in plan.fragments:
            if fragment.role != "result":
                self._make(fragment)
        shown = {
            "algorithm": placement.algorithm,
            "at": placement.site,
            "methods": {alias: [m.name, m.by or ""] for alias, m in placement.methods.items()},
        }
        if placement.site != placement.query.site:
            return {PLACED: self._answer(), SITE_PLAN: shown}
        return {IMPORTS: self._named, EVALUATED: self._evaluated, SITE_PLAN: shown}

    def _make(self, fragment: Fragment) -> None:
        here, item = self._placement.query.site, self._placement.items[_alias(fragment)]
        whole = isinstance(fragment.plan, Leaf)
        if fragment.site == here:
            self._rows[item.alias] = fragment.edge if fragment.role == "rows" else self._rows.get(item.alias, "")
            self._lend(fragment, item, whole)
        elif whole:
            self._joins.read_whole(item, self._statement, self._known, self._named)
        else:
            self._read(fragment, item)

    def _lend(self, fragment: Fragment, item: PlacedItem, whole: bool) -> None:
        text, options = fragment.sql, {IMPORTS: self._used(fragment.sql)}
        if whole:
            entry = self._placement.query.input(item.alias)
            found = item.found
            kept = {*(c.name for c in entry.columns), found.operation}
            text = fragment_text(found.name, (c for c in found.columns if c.name in kept or found.is_view))
            options = {}
        elif fragment.role == "rows":
            options |= self._evaluation(item, fragment)
        self._joins.lend(fragment.to, fragment.edge, text, **options)

    def _evaluation(self, item: PlacedItem, fragment: Fragment) -> dict[str, Any]:
        """What the other site must know of rows that it reads."""
        unit = self._joins._workload.unit_us
        period = None if item.row_local else item.period(unit)
        expires = -1 if fragment.expires_us is None else fragment.expires_us
        return {EXPIRES: expires, "domain": item.domain, "period": period, "event": item.found.event}

    def _read(self, fragment: Fragment, item: PlacedItem) -> None:
        lends = [edge for edge in self._used_edges(fragment.sql)]
        unit = self._joins._workload.unit_us
        if fragment.role == "keys":
            found = Description(fragment.edge, fragment.columns, unit, is_view=True, keyed=False, edge=fragment.edge)
            self._joins.read(fragment.site, found, fragment.sql, lends=lends, algorithm="keys")
            self._named[f"{fragment.site}.{fragment.edge}".lower()] = fragment.edge
            return
        entry = self._placement.query.input(item.alias)
        found = Description(
            item.found.name,
            shipped_columns(item, entry),
            unit,
            item.found.key,
            item.found.event,
            is_view=True,
            keyed=bool(item.found.key) if not item.found.is_view else item.found.keyed,
            domain=item.domain,
            period=None if item.row_local else item.period(unit),
            stamp=STAMP if entry.stamp_as else "",
            edge=fragment.edge,
        )
        expires = -1 if fragment.expires_us is None else fragment.expires_us
        origin = {"lends": lends, "expires": expires, "algorithm": self._placement.algorithm}
        self._joins.read(fragment.site, found, fragment.sql, **origin)
        self._named[f"{fragment.site}.{item.found.name}".lower()] = fragment.edge
        self._evaluated += [] if item.row_local else [fragment.edge]

    def _used(self, text: str) -> dict[str, str]:
        """Of the streams here that stand for names of other sites those that a text reads."""
        read = set(reads_of(text))
        return {name: stream for name, stream in self._named.items() if name in read}

    def _used_edges(self, text: str) -> list[str]:
        """The edges that this site lends and a text reads."""
        own = f"{self._placement.query.site}.".lower()
        names = [name.removeprefix(own) for name in reads_of(text) if name.startswith(own)]
        lent = {
            e.options["edge"].lower(): e.options["edge"] for e in self._joins._catalog.of("edge") if LENT in e.options
        }
        return [lent[name] for name in names if name in lent]

    def _answer(self) -> list[str]:
        """Have the other site answer the whole query; the stream of its answer, and its columns."""
        placement = self._placement
        found = self._joins.describe_answer(self._statement, self._known, placement.items)
        text = self._answer_text()
        edge = f"{self._name}_answer"
        lends = self._used_edges(text)
        origin = {"lends": lends, "algorithm": placement.algorithm}
        made = self._joins.read(placement.site, replace(found, edge=edge), text, **origin)
        return [made.name, *(c.name for c in found.columns)]

    def _answer_text(self) -> str:
        """The query as the other site reads it."""
        placement = self._placement
        query = copy_tree(self._statement.query)
        for table in query.find_all(exp.Table):
            item = placement.items[table.alias_or_name.lower()]
            if not table.args.get("alias"):
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            if item.site == placement.site:
                table.set("db", None)
                continue
            table.set("this", exp.to_identifier(self._rows[item.alias], quoted=True))
            table.set("db", exp.to_identifier(placement.query.site, quoted=True))
            if placement.methods[item.alias].name != "whole" and not item.row_local:
                table.set("window", None)
                table.set("sync", None)
        return to_sql(query)


def _alias(fragment: Fragment) -> str:
    """The item whose rows, or keys, a fragment ships."""
    plan = fragment.plan
    assert not hasattr(plan, "equalities"), "an answer has no single input"
    return leaf_of(plan).alias  # type: ignore[arg-type]


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
