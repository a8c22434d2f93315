"""The fragments of a join between sites, made from the innermost on: what is lent, what is read, and what the view of
the querying site has to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.edge_ends import EdgeEnds
from tidemill.engine.sites.edges import EXPIRES, LENT, reads_of
from tidemill.engine.sites.fragments import fragment_text
from tidemill.engine.sites.imports import Known
from tidemill.engine.sites.placing import STAMP, PlacedItem, shipped_columns
from tidemill.engine.views.ways import SITE_PLAN
from tidemill.plan.sites import Fragment, Leaf, Method, SiteQuery, plan_sites
from tidemill.plan.sites.tree import leaf_of
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.imported_names import EVALUATED, IMPORTS, PLACED, item_of
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import copy_tree


@dataclass(frozen=True)
class Placement:
    """A join between sites, the site where it happens and a method for each input that is elsewhere."""

    query: SiteQuery
    items: Mapping[str, PlacedItem]
    methods: Mapping[str, Method]
    site: str
    algorithm: str


class Realisation:
    """One plan: its fragments, from the innermost on."""

    def __init__(self, ends: EdgeEnds, statement: Any, known: Known, placement: Placement) -> None:
        self._ends, self._statement, self._known, self._placement = ends, statement, known, placement
        self._named: dict[str, str] = {}  # names of other sites → streams here
        self._evaluated: list[str] = []
        self._name = ends.new_name()
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
            self._ends.read_whole(item, self._statement, self._known, self._named)
        else:
            self._read(fragment, item)

    def _lend(self, fragment: Fragment, item: PlacedItem, whole: bool) -> None:
        text, options = fragment.sql, {IMPORTS: self._streams_read(fragment.sql)}
        if whole:
            entry = self._placement.query.input(item.alias)
            found = item.found
            kept = {*(c.name for c in entry.columns), found.operation}
            text = fragment_text(found.name, (c for c in found.columns if c.name in kept or found.is_view))
            options = {}
        elif fragment.role == "rows":
            options |= self._evaluation(item, fragment)
        self._ends.lend(fragment.to, fragment.edge, text, **options)

    def _evaluation(self, item: PlacedItem, fragment: Fragment) -> dict[str, Any]:
        """What the other site must know of rows that it reads."""
        unit = self._ends.workload.unit_us
        period = None if item.row_local else item.period(unit)
        expires = -1 if fragment.expires_us is None else fragment.expires_us
        return {EXPIRES: expires, "domain": item.domain, "period": period, "event": item.found.event}

    def _read(self, fragment: Fragment, item: PlacedItem) -> None:
        lends = [edge for edge in self._used_edges(fragment.sql)]
        unit = self._ends.workload.unit_us
        if fragment.role == "keys":
            found = Description(fragment.edge, fragment.columns, unit, is_view=True, keyed=False, edge=fragment.edge)
            self._ends.read(fragment.site, found, fragment.sql, lends=lends, algorithm="keys")
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
        self._ends.read(fragment.site, found, fragment.sql, **origin)
        self._named[item_of(f"{fragment.site}.{item.found.name}", item.alias)] = fragment.edge
        self._evaluated += [] if item.row_local else [fragment.edge]

    def _streams_read(self, text: str) -> dict[str, str]:
        """Of the streams here that stand for names of other sites those that a text reads."""
        read = set(reads_of(text))
        return {name: stream for name, stream in self._named.items() if name in read}

    def _used_edges(self, text: str) -> list[str]:
        """The edges that this site lends and a text reads."""
        own = f"{self._placement.query.site}.".lower()
        names = [name.removeprefix(own) for name in reads_of(text) if name.startswith(own)]
        lent = {
            e.options["edge"].lower(): e.options["edge"] for e in self._ends.catalog.of("edge") if LENT in e.options
        }
        return [lent[name] for name in names if name in lent]

    def _answer(self) -> list[str]:
        """Have the other site answer the whole query; the stream of its answer, and its columns."""
        placement = self._placement
        found = self._ends.describe_answer(self._statement, self._known, placement.items)
        text = self._answer_text()
        edge = f"{self._name}_answer"
        lends = self._used_edges(text)
        origin = {"lends": lends, "algorithm": placement.algorithm}
        made = self._ends.read(placement.site, replace(found, edge=edge), text, **origin)
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
    return leaf_of(plan).alias
