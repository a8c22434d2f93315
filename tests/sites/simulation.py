"""Sites in one process: each computes its fragments over closed times only, and ships what changes.

The relations are those of `histories`; what is shipped, when and with which promise is the plan's. An answer is given
once, when its time is closed, and never again: a wrong promise of a frontier shows as a wrong log.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sites.histories import TS, Join, K, Relation, Row, Window, stream
from tests.sites.network import Message, Network
from tidemill.plan.sites import (
    Fragment,
    Keys,
    Leaf,
    Matching,
    Ship,
    SitePlan,
    SiteQuery,
    effective_frontier,
    landing_time,
    switched_frontier,
)
from tidemill.plan.sites.tree import leaf_of

END = 10_000
COLLIDE = 3  # fingerprints are values modulo this: many of them are shared


@dataclass(frozen=True)
class Input:
    """A stream with its site: rows in the order of time, with a flag for deletions."""

    alias: str
    site: str
    rows: tuple[tuple[Row, bool], ...]
    window: Window
    keyed: bool = False

    def relation(self, since: int = 0) -> Relation:
        """The stream as a site sees it that began to look at time `since`; contents of keyed streams are stored."""
        known = [r for r in self.rows if r[0][TS] >= since] if self.window.retention and not self.keyed else self.rows
        return stream(known, self.keyed)


@dataclass
class Edge:
    """What an edge holds at its receiver."""

    fragment: Fragment
    changes: list[tuple[int, Any, int]] = field(default_factory=list)
    told: int = 0
    seen: int = 0
    stamps: dict[int, int] = field(default_factory=dict)  # number of a change: its time as sent
    closed: int = 0  # effective frontier

    def at(self, moment: int) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for time, row, diff in self.changes:
            if time <= moment:
                found[row] += diff
        assert all(n >= 0 for n in found.values()), f"a row of {self.fragment.edge} leaves that is not there"
        return +found


class Plan:
    """A plan at work, from time `since` on: fragments with their frontiers, edges, and the answer of the join."""

    def __init__(self, world: World, plan: SitePlan, since: int, prefix: str) -> None:
        self.world, self.plan, self.since, self.prefix = world, plan, since, prefix
        self.edges = {f.edge: Edge(f) for f in plan.fragments if f.role != "result"}
        self.sent = dict.fromkeys(self.edges, since)
        self.before: dict[str, Counter[Any]] = {e: Counter() for e in self.edges}
        self.added: dict[str, list[int]] = {e: [] for e in self.edges}
        self.leaves = {i.alias: i.relation(since) for i in world.inputs}
        for edge in self.edges:
            world.network.open(prefix + edge)

    # ---- relations ---------------------------------------------------------------------------------

    def keys_at(self, tree: Keys | Matching | Ship, moment: int, edge: str | None, stay: bool) -> set[Any]:
        if isinstance(tree, Ship):
            assert edge is not None
            return set(self.edges[edge].at(moment))
        if isinstance(tree, Matching):
            assert isinstance(tree.input, Keys) and isinstance(tree.keys, Ship)
            return self.keys_at(tree.input, moment, None, stay) & set(self.known_edge(tree.keys).at(moment))
        item = self.world.input(tree.input.alias)
        leaf = self.leaves[item.alias]
        rows = leaf(moment) if stay and not item.keyed else item.window.over(leaf)(moment)
        found = {row[K] for row in rows if row[K] is not None}
        return {k % COLLIDE for k in found} if tree.fingerprint else found

    def known_edge(self, tree: Ship) -> Edge:
        """The edge with the keys that the rows' own site has."""
        return next(e for name, e in self.edges.items() if name.endswith(f"_{leaf_of(tree).alias}_known"))

    def rows_at(self, fragment: Fragment, moment: int) -> Counter[Any]:
        """What the fragment says of one moment."""
        tree = fragment.plan
        if fragment.role == "keys":
            assert isinstance(tree, (Keys, Matching))
            return Counter(self.keys_at(tree, moment, None, self.world.keys_stay))
        assert isinstance(tree, (Leaf, Matching))
        leaf = tree if isinstance(tree, Leaf) else tree.input
        assert isinstance(leaf, Leaf)
        item = self.world.input(leaf.alias)
        relation = self.leaves[item.alias]
        rows = (relation if item.window.row_local else item.window.over(relation))(moment)
        if isinstance(tree, Leaf):
            return rows
        kept = fragment.expires_us
        keys = self.keys_at(tree.keys, moment, fragment.answers, self.world.keys_stay)
        inner = tree.keys.input if isinstance(tree.keys, Ship) else tree.keys
        hashed = isinstance(inner, Keys) and inner.fingerprint
        return Counter(
            {
                row: n
                for row, n in rows.items()
                if row[K] is not None
                and (row[K] % COLLIDE if hashed else row[K]) in keys
                and (kept is None or row[TS] >= moment - kept)
            }
        )

    # ---- what is sent ------------------------------------------------------------------------------

    def frontier_of(self, fragment: Fragment) -> int:
        """The least frontier of what the fragment reads; its keys may be behind by the lead."""
        found = [self._tree_frontier(fragment.plan, fragment)]
        if fragment.answers is not None:
            found.append(self.edges[fragment.answers].closed + fragment.lead_us)
        return min([*found, END])

    def _tree_frontier(self, tree: Any, fragment: Fragment) -> int:
        if isinstance(tree, Leaf):
            return self.world.frontier(tree.alias)
        if isinstance(tree, Keys):
            return self._tree_frontier(tree.input, fragment)
        if isinstance(tree, Matching):
            keys = END
            if not isinstance(tree.keys, Ship):
                keys = self._tree_frontier(tree.keys, fragment)
            elif fragment.role == "keys":
                keys = self.known_edge(tree.keys).closed
            return min(self._tree_frontier(tree.input, fragment), keys)
        raise AssertionError(tree)

    def run_fragment(self, fragment: Fragment) -> None:
        """Ship what changed in the times that are closed now."""
        edge, frontier = fragment.edge, self.frontier_of(fragment)
        begun, changes = self.sent[edge], []
        if frontier <= begun:
            return
        for moment in range(begun, min(frontier, self.world.horizon)):
            now, before = self.rows_at(fragment, moment), self.before[edge]
            for row in {*now, *before}:
                diff = now[row] - before[row]
                late = fragment.expires_us is not None and moment > row[TS] + fragment.expires_us
                if diff and not (diff < 0 and late):
                    changes.append((moment, row, diff))
            self.before[edge] = now
        self.sent[edge] = frontier
        if fragment.role == "keys":
            self.added[edge] += [time for time, _, diff in changes if diff > 0]
        self.world.network.send(self.prefix + edge, changes, frontier, self._seen(fragment, frontier))

    def _seen(self, fragment: Fragment, frontier: int) -> int:
        """Keys before this time have been applied, and what they caused has left."""
        if fragment.answers is None:
            return 0
        keys = self.edges[fragment.answers]
        open_keys = [keys.stamps[i] for i, (time, _, _) in enumerate(keys.changes) if time >= frontier]
        return min([keys.told, *open_keys])

    # ---- what arrives ------------------------------------------------------------------------------

    def land(self, edge: str, message: Message) -> None:
        found = self.edges[edge]
        reader = next((f for f in self.plan.fragments if f.answers == edge), None)
        for time, row, diff in message.changes:
            at = time
            if found.fragment.lead_us:
                assert diff > 0, "a leading edge takes nothing back"
                at = landing_time(row[TS], found.closed)
            elif reader is not None and reader.lead_us:
                at = max(time, self.sent[reader.edge])
            assert at >= found.closed or (reader is not None and reader.lead_us), "a late change"
            found.stamps[len(found.changes)] = time
            found.changes.append((at, row, diff))
        found.told, found.seen = message.frontier, message.seen
        self.close(edge)

    def close(self, edge: str) -> None:
        """Move the edge's frontier as far as what is known allows."""
        found = self.edges[edge]
        frontier = found.told
        if found.fragment.lead_us:
            keys = found.fragment.answers
            assert keys is not None and self.edges[keys].fragment.site == found.fragment.to, "keys of another site"
            frontier = effective_frontier(found.told, self.sent[keys], found.seen, self.added[keys])
        assert frontier >= found.closed, "a frontier goes back"
        found.closed = frontier

    # ---- inputs of the join ------------------------------------------------------------------------

    def input_at(self, alias: str, moment: int) -> Counter[Row]:
        item, read = self.world.input(alias), self.plan.reads[alias]
        if read.name not in self.edges:
            return item.window.over(self.leaves[alias])(moment)
        edge = self.edges[read.name]
        return item.window.over(edge.at)(moment) if item.window.row_local else edge.at(moment)

    def input_frontier(self, alias: str) -> int:
        read = self.plan.reads[alias]
        if read.name not in self.edges:
            return self.world.frontier(alias)
        self.close(read.name)
        return self.edges[read.name].closed


@dataclass
class World:
    """Sites, their streams, the network, one plan and perhaps a second one from an agreed time on."""

    inputs: Sequence[Input]
    join: Join
    query: SiteQuery
    network: Network
    chance: random.Random
    keys_stay: bool = True
    arrived: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    plans: list[Plan] = field(default_factory=list)
    agreed: int = END
    given: int = 0  # answers before this time have been given
    log: list[tuple[int, Any, int]] = field(default_factory=list)
    last: Counter[Any] = field(default_factory=Counter)

    def input(self, alias: str) -> Input:
        return next(i for i in self.inputs if i.alias == alias)

    @property
    def horizon(self) -> int:
        """All changes are before it."""
        stamps = [row[TS] for i in self.inputs for row, _ in i.rows]
        return max(stamps, default=0) + 16

    def frontier(self, alias: str) -> int:
        """The greatest stamp so far: rows of that time may still come."""
        if self.ended:
            return END
        count = self.arrived.get(alias, 0)
        return self.input(alias).rows[count - 1][0][TS] if count else 0

    def start(self, plan: SitePlan, since: int = 0) -> None:
        self.plans.append(Plan(self, plan, since, f"{len(self.plans)}:"))

    def round(self, *, calm: bool = False) -> None:
        """Some rows come, some fragments run, some messages arrive, and what is closed is answered."""
        for item in self.inputs:
            left = len(item.rows) - self.arrived.get(item.alias, 0)
            self.arrived[item.alias] = self.arrived.get(item.alias, 0) + (
                left if calm else min(left, self.chance.choice((0, 0, 1, 2, 4)))
            )
        self.ended = self.ended or calm
        for plan in self.plans:
            for fragment in plan.plan.fragments:
                if fragment.role != "result" and (calm or self.chance.random() < 0.8):
                    plan.run_fragment(fragment)
        for edge, message in self.network.round(calm=calm):
            number, name = edge.split(":", 1)
            self.plans[int(number)].land(name, message)
        self.answer()

    def answer(self) -> None:
        """Give the answers of all times that are closed now."""
        frontier = min(self.horizon, *(self._frontier(i.alias) for i in self.inputs))
        for moment in range(self.given, frontier):
            plan = self.plans[0] if moment < self.agreed or len(self.plans) == 1 else self.plans[1]
            now = self.join.at([plan.input_at(i.alias, moment) for i in self.inputs])
            for row in sorted({*now, *self.last}, key=repr):
                if now[row] != self.last[row]:
                    self.log.append((moment, row, now[row] - self.last[row]))
            self.last = now
        self.given = max(self.given, frontier)

    def _frontier(self, alias: str) -> int:
        first = self.plans[0].input_frontier(alias)
        if len(self.plans) == 1:
            return first
        return switched_frontier(first, self.plans[1].input_frontier(alias), self.agreed)
