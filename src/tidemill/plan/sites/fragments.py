"""From the tree of what is shipped to the SQL text that each site runs, and what the join reads.

A peer gets text, parses and binds it itself, and refuses what is not exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidemill.plan.scalars import quoted
from tidemill.plan.sites.algorithms import Method, build_tree, methods_of
from tidemill.plan.sites.query import SiteInput, SiteQuery
from tidemill.plan.sites.tree import JoinAt, Keys, Leaf, Matching, Ship, leaf_of, site_of
from tidemill.plan.sources import Column

Role = Literal["keys", "rows", "result"]
FINGERPRINT_TYPE = "INTEGER"


@dataclass(frozen=True)
class Fragment:
    """What a site computes and ships: one SELECT over its own streams and the edges that come to it.

    `stamp` is the column that holds the event time of a row. Where `expires_us` is set, a deletion later than stamp +
    expires_us is not shipped: the receiver's window hides the row by then. `answers` is the edge of the keys that say
    which rows are wanted, and `lead_us` how far the fragment's clock may run ahead of it. `key`: the edge is a set.
    `plan` is the tree that the text says.
    """

    edge: str
    role: Role
    site: str
    to: str
    sql: str
    columns: tuple[Column, ...]
    plan: Leaf | Keys | Matching | JoinAt
    stamp: str | None = None
    key: tuple[str, ...] = ()
    append_only: bool = False
    expires_us: int | None = None
    answers: str | None = None
    lead_us: int = 0


@dataclass(frozen=True)
class LocalInput:
    """What stands in FROM at the site of the join in the place of an input: a stream or an edge, and its window."""

    name: str
    window: str

    def text(self, alias: str) -> str:
        """The item of FROM."""
        return " ".join(x for x in (self.name, self.window, "AS", alias) if x)


@dataclass(frozen=True)
class SitePlan:
    """Fragments in an order in which each comes after those it reads; `reads` by alias; `sql` is the join itself."""

    tree: JoinAt
    fragments: tuple[Fragment, ...]
    reads: dict[str, LocalInput]
    sql: str = ""

    @property
    def join_site(self) -> str:
        return self.tree.site

    def rows_edge(self, alias: str) -> Fragment | None:
        """The fragment that brings an input to the join."""
        return next((f for f in self.fragments if f.role == "rows" and f.edge == self.reads[alias].name), None)


def plan_sites(
    query: SiteQuery,
    algorithm: str | Mapping[str, Method],
    *,
    join_site: str | None = None,
    name: str = "q1",
    lead_us: int = 0,
    keys_stay: bool = True,
    output: tuple[Column, ...] = (),
    qualified: bool = False,
) -> SitePlan:
    """The fragments of one of the seven algorithms, or of a method for each input.

    `name` begins the names of all edges. With `keys_stay` a join value of an append-only input stays known once it has
    come; otherwise it leaves with its last row, and so do rows that were shipped for it. Only a plan whose keys stay
    may lead. Where the join is not at the querying site, its answer (of columns `output`) is shipped too. In
    `qualified` texts an edge has the name of the site that it comes from before its own.
    """
    if isinstance(algorithm, str):
        methods, site = methods_of(query, algorithm)
    else:
        methods, site = dict(algorithm), query.site
    tree = build_tree(query, methods, join_site or site)
    made = _Maker(query, name, lead_us if keys_stay else 0, keys_stay, qualified)
    for each in tree.inputs:
        made.read(each, tree.site)
    sql = query.text
    for alias, local in made.reads.items():
        sql = sql.replace(f"⟨{alias}⟩", local.text(alias))
    if tree.site != query.site:
        edge = f"{name}_result"
        made.fragments.append(Fragment(edge, "result", tree.site, query.site, sql, output, tree))
    return SitePlan(tree, tuple(made.fragments), made.reads, sql)


@dataclass
class _Maker:
    query: SiteQuery
    name: str
    lead_us: int
    keys_stay: bool
    qualified: bool = False
    fragments: list[Fragment] = field(default_factory=list)
    reads: dict[str, LocalInput] = field(default_factory=dict)

    def read(self, tree: Leaf | Ship, join_site: str) -> None:
        """What the join reads in the place of an input."""
        alias = leaf_of(tree).alias
        item = self.query.input(alias)
        if isinstance(tree, Leaf):
            self.reads[alias] = LocalInput(item.stream, item.window)
            return
        assert not isinstance(tree.input, (Keys, JoinAt))
        made = self._rows(tree.input, item, join_site)
        self.fragments.append(made)
        self.reads[alias] = LocalInput(made.edge, item.window if item.row_local else "")

    def _rows(self, tree: Leaf | Matching, item: SiteInput, to: str) -> Fragment:
        edge = f"{self.name}_{item.alias}_rows"
        if isinstance(tree, Leaf):
            sql = self._select(item, item.columns, "" if item.row_local else item.window, [])
            return self._fragment(edge, item, to, sql, tree)
        keys, joined, staying = self._keys_item(tree.keys, item)
        lead = self.lead_us if self._may_lead(item, tree, to, staying) else 0
        conditions, window = [], "" if item.row_local else item.window
        if item.row_local and item.retention_us is not None:
            conditions.append(f"{item.alias}.TS >= NOW - {item.retention_us + lead} MICROSECONDS")
        on = _matches(item, tree.columns, tree.keys)
        sql = self._select(item, item.columns, window, conditions, f" JOIN {joined} AS wanted ON {on}")
        expires = None if item.retention_us is None or not item.row_local else item.retention_us + lead
        return self._fragment(edge, item, to, sql, tree, expires, keys, lead, staying)

    def _fragment(
        self,
        edge: str,
        item: SiteInput,
        to: str,
        sql: str,
        tree: Leaf | Matching,
        expires_us: int | None = None,
        answers: str | None = None,
        lead_us: int = 0,
        staying: bool = True,
    ) -> Fragment:
        grows = item.append_only and item.row_local and staying
        return Fragment(
            edge, "rows", item.site, to, sql, item.columns, tree, item.stamp, (), grows, expires_us, answers, lead_us
        )

    def _may_lead(self, item: SiteInput, tree: Matching, to: str, staying: bool) -> bool:
        """The receiver must know which keys it sent, and no row may leave but by its stamp."""
        sent = isinstance(tree.keys, Ship) and site_of(tree.keys.input, self.query) == to
        return sent and staying and item.append_only and item.row_local

    def _keys_item(self, tree: Keys | Matching | Ship, item: SiteInput) -> tuple[str | None, str, bool]:
        """(edge of the keys, what stands in FROM, whether a key that has come stays)."""
        if not isinstance(tree, Ship):
            sql, staying = self._keys_sql(tree)
            return None, f"({sql})", staying
        made = self._shipped_keys(tree, f"{self.name}_{item.alias}_keys")
        return made.edge, self._edge_name(made), made.append_only

    def _edge_name(self, made: Fragment) -> str:
        """An edge in FROM."""
        return f"{quoted(made.site)}.{quoted(made.edge)}" if self.qualified else made.edge

    def _shipped_keys(self, tree: Ship, edge: str) -> Fragment:
        """The fragment of keys that are shipped, behind those that it reads itself."""
        assert isinstance(tree.input, (Keys, Matching)), "only keys are shipped to rows"
        sql, staying = self._keys_sql(tree.input)
        inner = tree.input if isinstance(tree.input, Keys) else tree.input.input
        assert isinstance(inner, Keys)
        columns = _key_columns(self.query.input(inner.input.alias), inner)
        names = tuple(c.name for c in columns)
        made = Fragment(
            edge, "keys", site_of(inner, self.query), tree.to, sql, columns, tree.input, key=names, append_only=staying
        )
        self.fragments.append(made)
        return made

    def _keys_sql(self, tree: Keys | Matching) -> tuple[str, bool]:
        """SELECT DISTINCT of join values, perhaps only of those that another edge has."""
        if isinstance(tree, Keys):
            return self._distinct(tree)
        assert isinstance(tree.input, Keys) and isinstance(tree.keys, Ship)
        sql, staying = self._distinct(tree.input)
        other = self._shipped_keys(tree.keys, f"{self.name}_{leaf_of(tree.keys).alias}_known")
        on = " AND ".join(f"own.k{i} = wanted.k{i}" for i in range(len(tree.columns)))
        listed = ", ".join(f"own.k{i} AS k{i}" for i in range(len(tree.columns)))
        return (
            f"SELECT {listed} FROM ({sql}) AS own JOIN {self._edge_name(other)} AS wanted ON {on}",
            staying and other.append_only,
        )

    def _distinct(self, tree: Keys) -> tuple[str, bool]:
        """D(X). Of an append-only input all values so far are a superset of those in any window of it."""
        item = self.query.input(tree.input.alias)
        staying = self.keys_stay and item.append_only
        present = [f"{item.alias}.{quoted(c)} IS NOT NULL" for c in tree.columns]
        values = _key_values(item, tree)
        listed = ", ".join(f"{value} AS k{i}" for i, value in enumerate(values))
        return self._text(f"DISTINCT {listed}", item, "" if staying else item.window, present), staying

    def _select(
        self, item: SiteInput, columns: tuple[Column, ...], window: str, conditions: list[str], joined: str = ""
    ) -> str:
        listed = ", ".join(f"{item.alias}.{quoted(c.name)} AS {quoted(c.name)}" for c in columns)
        listed += f", {item.alias}.TS AS {quoted(item.stamp_as)}" if item.stamp_as else ""
        return self._text(listed, item, window, conditions, joined)

    def _text(self, listed: str, item: SiteInput, window: str, conditions: list[str], joined: str = "") -> str:
        found = [*conditions, *([f"({item.filter})"] if item.filter else [])]
        where = f" WHERE {' AND '.join(found)}" if found else ""
        named = " ".join(x for x in (item.stream, window, "AS", item.alias) if x)
        return f"SELECT {listed} FROM {named}{joined}{where}"


def _key_columns(item: SiteInput, tree: Keys) -> tuple[Column, ...]:
    if tree.fingerprint:
        return (Column("k0", FINGERPRINT_TYPE),)
    return tuple(Column(f"k{i}", item.type_of(c)) for i, c in enumerate(tree.columns))


def _key_values(item: SiteInput, tree: Keys) -> list[str]:
    """The join columns, or one fingerprint of them all."""
    columns = [f"{item.alias}.{quoted(c)}" for c in tree.columns]
    return [fingerprint_sql(columns)] if tree.fingerprint else columns


def _matches(item: SiteInput, columns: tuple[str, ...], keys: Keys | Matching | Ship) -> str:
    inner = keys.input if isinstance(keys, Ship) else keys
    own = [f"{item.alias}.{quoted(c)}" for c in columns]
    if isinstance(inner, Keys) and inner.fingerprint:
        own = [fingerprint_sql(own)]
    return " AND ".join(f"{column} = wanted.k{i}" for i, column in enumerate(own))


def fingerprint_sql(columns: list[str]) -> str:
    """31 bits of the md5 of the columns as text: the same in every version of the expression engine.

    >>> fingerprint_sql(['A."ip"'])
    'CAST(CAST(\\'0x\\' || substr(md5(CAST(A."ip" AS VARCHAR)), 1, 8) AS BIGINT) % 2147483648 AS INTEGER)'
    """
    texts = [f"CAST({c} AS VARCHAR)" for c in columns]
    text = texts[0] if len(texts) == 1 else f"concat_ws('|', {', '.join(texts)})"
    return f"CAST(CAST('0x' || substr(md5({text}), 1, 8) AS BIGINT) % 2147483648 AS INTEGER)"
