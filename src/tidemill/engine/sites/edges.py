"""Edges that leave: entries of the catalog, bound to the relation that is shipped.

Another site asks for most of them. What this site lends for a join of its own begins with the view that needs it, so
that no row is missed before the other site asks, and ends with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.fragments import bind_fragment, describe_export, is_plain_text, name_read
from tidemill.engine.sites.placing import STAMP
from tidemill.engine.sites.queries import parse_query, plan_text
from tidemill.engine.workload import Workload
from tidemill.plan.relations import Relation
from tidemill.runtime.sites.protocol import Description
from tidemill.runtime.views.shipping import Expiry
from tidemill.sql.bind.imported_names import EVALUATED, IMPORTS
from tidemill.sql.catalog import Entry

LENT, EXPIRES, QUERY = "lent", "expires", "query"  # options of an edge
_HANDED_ON = (IMPORTS, EVALUATED)


def new_edge(workload: Workload, site: str, edge: str, text: str, **options: Any) -> Entry:
    """An edge to a site that begins now; the caller binds it and adds it to the catalog."""
    made = Entry("edge", f"{site}/{edge}", text, birth=workload.pending, id=workload.catalog.next_id("v"))
    made.options |= {"site": site, "edge": edge, "database": None, QUERY: not is_plain_text(text), **options}
    return made


def bind_edge(workload: Workload, entry: Entry, exported: set[str] | None = None) -> Relation:
    """What an edge ships; `exported` are the names that its reader may read, None where that was checked before."""
    site = workload.catalog.find(entry.options["site"], "site").name
    if not entry.options.get(QUERY):
        allowed = {name_read(entry.text)} if exported is None else exported
        stream, node = bind_fragment(workload, allowed, entry.text, entry.birth)
        entry.needs = (stream.name, site)
        return node
    options = {name: entry.options[name] for name in _HANDED_ON if name in entry.options}
    planned = plan_text(workload, entry.text, {**options, "unbounded_state": LENT in entry.options}, entry.birth)
    entry.needs = (*sorted(planned.bound.needs), site)
    return planned.node


def describe_lent(workload: Workload, entry: Entry) -> Description:
    """What the other site is told about an edge that is lent to it."""
    edge = entry.options["edge"]
    if not entry.options.get(QUERY):
        found = describe_export(workload, {entry.needs[0].lower()}, entry.needs[0])
        node = workload.shipped[entry.id]
        names = {c.name for c in node.schema}
        return replace(found, name=edge, edge=edge, columns=tuple(c for c in found.columns if c.name in names))
    options = {name: entry.options[name] for name in _HANDED_ON if name in entry.options}
    planned = plan_text(workload, entry.text, {**options, "unbounded_state": True}, entry.birth)
    return Description(
        edge,
        planned.node.schema,
        workload.unit_us,
        is_view=True,
        keyed=False,
        domain=entry.options.get("domain", planned.bound.domain),
        period=entry.options.get("period"),
        event=entry.options.get("event"),
        stamp=STAMP if any(c.name == STAMP for c in planned.node.schema) else "",
        edge=edge,
    )


def expiry_of(entry: Entry, unit_us: int) -> Expiry | None:
    """From when on rows of an edge need not be taken back."""
    after = entry.options.get(EXPIRES, -1)
    return Expiry(STAMP, unit_us, after) if after >= 0 else None


def reads_of(text: str) -> list[str]:
    """The names of edges of other sites that a text reads, each with its site."""
    return [f"{t.db}.{t.name}".lower() for t in parse_query(text).query.find_all(exp.Table) if t.db]
