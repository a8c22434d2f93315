"""From a query that reads other sites to the join between sites that the planner prices and cuts into fragments.

The join must be a plain SELECT whose items are streams and views. An item whose window decides about each row by its
stamp alone is shipped below the window; of others the site that owns them evaluates window and SYNC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidemill.plan.relations import quoted
from tidemill.plan.sites import Equality, SiteInput, SiteQuery
from tidemill.plan.sources import Column
from tidemill.runtime.sites.protocol import Description
from tidemill.sql.bind.scalar import in_us
from tidemill.sql.dialect.nodes import Now, Sync, WindowSpec
from tidemill.sql.joined_items import item_equalities, joined_items
from tidemill.sql.pushed_conditions import SIGNS, pushed_conditions
from tidemill.sql.scopes import read_columns

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
STAMP = "tidemill_ts"  # the column that a shipped row has its TS in


@dataclass(frozen=True)
class PlacedItem:
    """An item of FROM, the site that owns it, and what is known about it."""

    table: exp.Table
    site: str
    found: Description

    @property
    def alias(self) -> str:
        return self.table.alias_or_name.lower()

    @property
    def window(self) -> WindowSpec | None:
        window: WindowSpec | None = self.table.args.get("window")
        return window

    @property
    def sync(self) -> Sync | None:
        sync: Sync | None = self.table.args.get("sync")
        return sync

    @property
    def row_local(self) -> bool:
        """Whether each row is there by its stamp alone."""
        windowed = self.window is not None and self.window.kind in ("window", "range")
        return windowed and self.sync is None and not self.found.is_view and not self.found.key

    @property
    def may_travel(self) -> bool:
        """Whether the site that owns the item can evaluate its window and SYNC, within bounded state.

        A condition with NOW means the points of a synchronizer, which would then be elsewhere.
        """
        if self.sync is not None and (self.sync.every is None or self._is_beside_now):
            return False
        bounded = self.found.is_view or self.found.key or self.row_local
        return bool(bounded) or (self.window is not None and self.window.kind in ("rows", "window", "range"))

    @property
    def _is_beside_now(self) -> bool:
        query = self.table.find_ancestor(exp.Select)
        return query is not None and query.find(Now) is not None

    def retention_us(self, unit_us: int) -> int | None:
        """So long after its stamp a row counts at most."""
        window = self.window
        if not self.row_local or window is None or window.size is None:
            return None
        slide = in_us(window.slide, unit_us) if window.slide is not None else 0
        return in_us(window.size, unit_us) + (slide or in_us(window.size, unit_us) if window.kind == "range" else 0)

    def period(self, unit_us: int) -> tuple[int, int] | None:
        """The points at which what the owner evaluates changes; None: at any time."""
        if self.sync is not None and self.sync.every is not None:
            return in_us(self.sync.every, unit_us), 0
        window = self.window
        if window is None or window.kind != "range" or window.size is None:
            return self.found.period
        size = in_us(window.size, unit_us)
        slide = in_us(window.slide, unit_us) if window.slide is not None else size
        return slide, size % slide

    @property
    def domain(self) -> str:
        """How times of the item are shown."""
        if self.found.is_view:
            return self.found.domain or "timestamp"
        event = next((c.type for c in self.found.columns if c.name == self.found.event), "TIMESTAMP")
        return "timestamp" if event.startswith(("TIMESTAMP", "DATE")) else "units"


def place_items(
    query: exp.Expression, here: str, unit_us: int, known: Mapping[int, tuple[str, Description]]
) -> tuple[SiteQuery, dict[str, PlacedItem]] | None:
    """The join between sites and its items by alias; `known` has the site and description of each table, by its id.

    None where the query is no plain join, or reads something of which nothing is known.
    """
    tables = joined_items(query)
    if tables is None or not isinstance(query, exp.Select) or any(id(t) not in known for t in tables):
        return None
    items = {i.alias: i for i in (PlacedItem(t, *known[id(t)]) for t in tables)}
    if len(items) < len(tables) or not all(_is_plain(i, query) for i in items.values()):
        return None
    inputs = tuple(_input(i, query, unit_us) for i in items.values())
    types = {i.alias: {c.name.lower(): c for c in i.columns} for i in inputs}
    equalities = []
    for found in item_equalities(query):
        left = [types.get(found.left, {}).get(c.lower()) for c in found.left_columns]
        right = [types.get(found.right, {}).get(c.lower()) for c in found.right_columns]
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
        if len(pairs) == len(left) and all(a.type == b.type for a, b in pairs):
            names = tuple(a.name for a, _ in pairs), tuple(b.name for _, b in pairs)
            equalities.append(Equality(found.left, names[0], found.right, names[1], found.reduces))
    return SiteQuery(inputs, tuple(equalities), here), items


def _is_plain(item: PlacedItem, query: exp.Select) -> bool:
    """A column that is named like the stamp would hide it, and the stamps of a view are those of its changes here."""
    names, alias = {c.name.lower() for c in item.found.columns}, item.table.args.get("alias")
    called = alias.this if alias is not None else item.table.this
    if not _NAME.fullmatch(item.alias) or called.args.get("quoted"):
        return False
    reads_stamp = any(c.name.lower() == "ts" for c in query.find_all(exp.Column))
    return not names & {"ts", STAMP} and not (item.found.is_view and (reads_stamp or item.window is not None))


def _input(item: PlacedItem, query: exp.Select, unit_us: int) -> SiteInput:
    found = item.found
    named = read_columns(query, item.table, [c.name for c in found.columns])
    read = (
        {*named, *found.key, found.event} if not (found.is_view or found.key_null) else {c.name for c in found.columns}
    )
    columns = tuple(c for c in found.columns if c.name in read and c.name != found.operation) or found.columns[:1]
    clauses = [c.sql() for c in (item.sync, item.window) if c is not None]
    return SiteInput(
        alias=item.alias,
        stream=quoted(found.name),
        site=item.site,
        columns=columns,
        window=" ".join(clauses),
        row_local=item.row_local,
        append_only=not found.is_view and not found.key and item.found.operation is None,
        retention_us=item.retention_us(unit_us),
        filter=_filter(item, query),
        stamp_as="" if found.is_view else STAMP,
    )


def _filter(item: PlacedItem, query: exp.Select) -> str:
    """Plain conditions of the query on this item."""
    found = item.found
    types = {c.name: c.type for c in found.columns} if not found.key and not found.is_view else {}
    parts = pushed_conditions(query, item.table, types)
    return " AND ".join(
        f"{item.alias}.{quoted(p.this.name)} {SIGNS[type(p)]} {p.expression.sql('duckdb')}" for p in parts
    )


def shipped_columns(item: PlacedItem, entry: SiteInput) -> tuple[Column, ...]:
    """What crosses of a row."""
    kind = "TIMESTAMP" if item.domain == "timestamp" else "BIGINT"
    return (*entry.columns, *((Column(STAMP, kind),) if entry.stamp_as else ()))
