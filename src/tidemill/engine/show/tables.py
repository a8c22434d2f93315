"""SHOW and DESCRIBE: the catalog as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from tidemill.engine.adapt.history import PlanHistory
from tidemill.engine.settings.queries import QueryLimits
from tidemill.engine.settings.zones import zone_of
from tidemill.engine.show.backfilling import backfilling_text, share_read
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem
from tidemill.plan.points import show_relation_points
from tidemill.plan.sources import Schema
from tidemill.runtime.views.store import ViewStore
from tidemill.sql.catalog import CLOCK, VIRTUAL, Catalog, Entry

_KINDS = {
    "sources": ("source",),
    "tables": ("table",),
    "streams": ("stream",),
    "views": ("view",),
    "sinks": ("sink",),
    "queries": ("query",),
    "aggregates": ("aggregate",),
    "functions": ("function",),
    "all": ("source", "table", "stream", "view", "query", "sink", "aggregate", "function", "site"),
}


_INTERNAL = (
    *("used", "dropped", "unpublished", "sharing", "joining", "bits", "plan_history", "querying", "tagging"),
    "first_read",
)
_PLAN_CHANGES = pa.schema(
    [
        ("at", pa.timestamp("us")),
        ("batch", pa.int64()),
        ("version", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("reason", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("predicted_before", pa.float64()),
        ("predicted_after", pa.float64()),
        ("measured_before", pa.float64()),
        ("measured_after", pa.float64()),
    ]
)


def catalog_table(what: str, catalog: Catalog, workload: Workload, store: ViewStore, querying: QueryLimits) -> pa.Table:
    """SHOW …"""
    if what == "dead_letters":
        duck = store.cursor()
        try:
            return duck.sql("SELECT * FROM dead_letters ORDER BY batch").to_arrow_table()
        finally:
            duck.close()
    if what == "settings":
        shown = {k: v for k, v in catalog.settings.items() if k not in _INTERNAL} | workload.sharing.describe()
        shown |= workload.join_planning.describe() | workload.tagging.describe() | querying.describe()
        return pa.table({"name": list(shown), "value": [str(v) for v in shown.values()]})
    if what == "time_zone":
        return pa.table({"TimeZone": [zone_of(catalog)]})
    if what == "plans":
        return plan_changes(workload.history)
    if what == "users":
        return users_table(catalog)
    entries = list(catalog.of(*_KINDS[what]))  # type: ignore[arg-type]
    metas = store.metas()
    return pa.table(
        {
            "name": pa.array([e.name for e in entries], pa.string()),
            "kind": pa.array([e.kind for e in entries], pa.string()),
            "detail": pa.array([_detail(e, workload, metas) for e in entries], pa.string()),
            "reads": pa.array([", ".join(e.needs) for e in entries], pa.string()),
            "definition": pa.array([e.text for e in entries], pa.string()),
        }
    )


def users_table(catalog: Catalog) -> pa.Table:
    """SHOW USERS: names and rights, never verifiers."""
    users = list(catalog.users.values())
    return pa.table(
        {
            "name": pa.array([u.name for u in users], pa.string()),
            "privileges": pa.array([", ".join(u.privileges) for u in users], pa.string()),
            "reads": pa.array([", ".join(u.reads) for u in users], pa.string()),
        }
    )


def plan_changes(history: PlanHistory) -> pa.Table:
    """SHOW PLANS: every change of plan that is kept, the oldest first."""
    return pa.Table.from_pylist([c.describe() for c in history.changes], _PLAN_CHANGES)


def columns_table(name: str, catalog: Catalog, workload: Workload) -> pa.Table:
    """DESCRIBE name: columns, types, which of them are the key; of a view also its synchronization points."""
    if name.lower() == CLOCK:
        return _columns([("TimePoint", "BIGINT")], set())
    entry = catalog.find(name)
    if entry.kind == "aggregate":
        return _columns([("argument", entry.options["accepts"]), ("answer", entry.options["returns"])], set())
    if entry.kind == "function":
        pairs = [(f"argument {i}", kind) for i, kind in enumerate(entry.options["accepts"], 1)]
        return _columns([*pairs, ("answer", entry.options["returns"])], set())
    if entry.output == VIRTUAL:
        bound = workload.bind(workload.virtual_query(entry))
        points = show_relation_points(bound.node, workload.unit_us, bound.domain)
        return _view_columns(bound.schema, bound.keys, f"virtual: {points}")
    if entry.is_stored:
        view = workload.views[entry.name.lower()]
        points = show_relation_points(view.node, workload.unit_us, view.query.domain)
        return _view_columns(view.node.schema, view.stored.keys, points)
    if entry.kind == "sink":
        return columns_table(entry.needs[0], catalog, workload)
    if entry.kind in ("site", "edge"):
        raise CatalogProblem(
            "TM301", f'"{entry.name}" is a {entry.kind} and has no columns', hint="SHOW SITES lists them"
        )
    spec = entry.spec or catalog.find(entry.needs[0], "source").spec
    assert spec is not None
    return _columns([(c.name, c.type) for c in spec.columns], set(entry.key))


def _view_columns(schema: Schema, keys: Iterable[str] | None, points: str) -> pa.Table:
    found = _columns([(c.name, c.type) for c in schema], set(keys or ()))
    return found.append_column("points", pa.array([points] * found.num_rows, pa.string()))


def _columns(pairs: list[tuple[str, str]], keys: set[str]) -> pa.Table:
    return pa.table(
        {
            "column": pa.array([n for n, _ in pairs], pa.string()),
            "type": pa.array([t for _, t in pairs], pa.string()),
            "key": pa.array([n in keys for n, _ in pairs], pa.bool_()),
        }
    )


def _detail(entry: Entry, workload: Workload, metas: Mapping[str, str]) -> str:
    stopped = workload.stopped.get(entry.id) if entry.id else None
    if stopped:
        return f"stopped: {stopped['reason']}"
    if entry.spec is not None:
        return f"{entry.spec.kind} {entry.spec.format or ''}".strip()
    if entry.kind == "stream":
        return f"key {', '.join(entry.key)}" if entry.key else "append-only"
    if entry.kind == "aggregate":
        return f"{entry.options['accepts']} to {entry.options['returns']}"
    if entry.kind == "function":
        return f"{', '.join(entry.options['accepts'])} to {entry.options['returns']}"
    if entry.kind == "sink":
        return str(entry.options.get("path") or entry.options.get("target"))
    if entry.kind == "site":
        return str(entry.options["address"] or "reads from here")
    view = workload.views.get(entry.name.lower())
    text = backfilling_text(share_read(view, metas)) if view is not None else ""
    return f"{entry.output}, {text}" if text else entry.output
