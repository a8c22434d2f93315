"""Drawn joins between sites: streams with ties, NULL and hot keys, deletions; windows; placements; algorithms."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.sites.histories import Join, Window, log_of
from tests.sites.network import Network
from tests.sites.simulation import Input, World
from tidemill.plan.sites import (
    ALGORITHMS,
    Equality,
    Method,
    SiteInput,
    SitePlan,
    SiteQuery,
    earliest_switch,
    plan_sites,
)
from tidemill.plan.sites.algorithms import MethodName
from tidemill.plan.sources import Column

COLUMNS = (Column("k", "INTEGER"), Column("v", "INTEGER"), Column("tm", "INTEGER"))
NAMES = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Case:
    """Inputs, how they are joined, and the choices of a plan; `second` takes over at an agreed time."""

    inputs: tuple[Input, ...]
    join: Join
    first: str | dict[str, Method]
    second: str | dict[str, Method] | None
    lead: int
    keys_stay: bool
    site: str
    seed: int
    loss: float
    patience: float

    def query(self, text: str = "", unit: int = 1) -> SiteQuery:
        band = self.join.band if all(map(_plain, self.inputs)) else None
        return SiteQuery(
            tuple(_site_input(i, unit, band) for i in self.inputs),
            tuple(_equality(self.join, self.inputs, a, b) for a, b in self.join.edges),
            self.site,
            text,
        )

    def plan(self, choice: str | dict[str, Method], text: str = "", unit: int = 1) -> SitePlan:
        query = self.query(text, unit)
        site = None if isinstance(choice, str) else self.site
        return plan_sites(query, choice, join_site=site, lead_us=self.lead * unit, keys_stay=self.keys_stay)


def _plain(item: Input) -> bool:
    """A stream whose rows are there from their stamps on."""
    return not item.keyed and not item.window.kind and item.window.row_local


def _site_input(item: Input, unit: int, band: int | None) -> SiteInput:
    """Between streams without windows a row finds new partners as long as the band allows. A row that a window shows
    later than its stamp would come too late for that.
    """
    kept = item.window.retention if band is None else band
    return SiteInput(
        item.alias,
        f"S{item.alias}",
        item.site,
        COLUMNS,
        "tm",
        item.window.text,
        item.window.row_local,
        not item.keyed,
        None if kept is None else kept * unit,
    )


def _equality(join: Join, inputs: tuple[Input, ...], a: int, b: int) -> Equality:
    left, right = inputs[a].alias, inputs[b].alias
    reduces = {"inner": {left, right}, "left": {right}, "right": {left}, "full": set()}[join.kind]
    return Equality(left, ("k",), right, ("k",), frozenset(reduces))


@st.composite
def inputs_of(draw: st.DrawFn, alias: str, site: str, most: int = 9) -> Input:
    """A stream with a window; a keyed one has no [ROWS n], which needs rows that only come."""
    keyed = draw(st.integers(0, 3)) == 0
    size, slide = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    kinds = ["", "window", "window", "range"] + ([] if keyed else ["rows"])
    window = Window(draw(st.sampled_from(kinds)), size, slide, draw(st.sampled_from([0, 0, 0, 2, 3])))
    key = st.integers(0, 4) if keyed else st.sampled_from([0, 0, 0, 1, 2, 3, 4, None])
    now, rows = 0, []
    for _ in range(draw(st.integers(0, most))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 4]))
        row = (draw(key), draw(st.integers(0, 2)), now)
        rows.append((row, keyed and draw(st.integers(0, 3)) == 0))
    return Input(alias, site, tuple(rows), window, keyed)


@st.composite
def windowed(draw: st.DrawFn, alias: str, site: str, keyed: bool) -> Input:
    """A stream with a short window, and join values that are new again and again; of a keyed one records go soon."""
    window = Window(draw(st.sampled_from(["window", "range"])), draw(st.integers(1, 4)), draw(st.integers(1, 2)))
    now, rows = 0, []
    for _ in range(draw(st.integers(4, 12))):
        now += draw(st.sampled_from([0, 1, 1, 2]))
        row = (draw(st.integers(0, 2 if keyed else 7)), 0, now)
        rows.append((row, keyed and draw(st.booleans())))
    return Input(alias, site, tuple(rows), window, keyed)


@st.composite
def methods(draw: st.DrawFn, inputs: tuple[Input, ...], join: Join) -> dict[str, Method]:
    """A method for each input, by any of its neighbours."""
    found = {}
    for number, item in enumerate(inputs):
        near = [inputs[b if a == number else a].alias for a, b in join.edges if number in (a, b)]
        names: list[MethodName] = ["whole", "keys", "keys", "both", "bloom"]
        name: MethodName = draw(st.sampled_from(names))
        found[item.alias] = Method(name, draw(st.sampled_from(near)))
    return found


@st.composite
def two_sites(draw: st.DrawFn, *, switch: bool = False) -> Case:
    """L at N1 and R at N2, by one of the seven algorithms."""
    inputs = (draw(inputs_of("A", "n1")), draw(inputs_of("B", "n2")))
    kind = draw(st.sampled_from(["inner", "inner", "inner", "left", "right", "full"]))
    join = Join(((0, 1),), kind, draw(st.sampled_from([None, None, 2, 4])))
    names = st.sampled_from(list(ALGORITHMS))
    return draw(_chosen(inputs, join, names, switch))


@st.composite
def leading(draw: st.DrawFn) -> Case:
    """Slow links between fast streams, and clocks that run ahead of the keys."""
    inputs = (draw(windowed("A", "n1", False)), draw(windowed("B", "n2", False)))
    name = draw(st.sampled_from([n for n in ALGORITHMS if not n.startswith("sp")]))
    seed, lead = draw(st.integers(0, 2**32)), draw(st.sampled_from([1, 2, 4, 8]))
    slow = draw(st.sampled_from([0.5, 0.3, 0.15]))
    return Case(inputs, Join(((0, 1),)), name, None, lead, True, "n1", seed, draw(st.sampled_from([0.0, 0.2])), slow)


@st.composite
def bands(draw: st.DrawFn) -> Case:
    """Streams without windows, joined within a band, in closed or leading mode."""
    plain = [draw(windowed(alias, site, False)) for alias, site in (("A", "n1"), ("B", "n2"))]
    inputs = tuple(replace(i, window=Window()) for i in plain)
    join = Join(((0, 1),), draw(st.sampled_from(["inner", "left", "right"])), draw(st.integers(0, 4)))
    stay = draw(st.booleans())
    lead = draw(st.sampled_from([0, 2, 5])) if stay else 0
    name, seed = draw(st.sampled_from(list(ALGORITHMS))), draw(st.integers(0, 2**32))
    return Case(inputs, join, name, None, lead, stay, "n1", seed, 0.1, draw(st.sampled_from([1.0, 0.5, 0.2])))


@st.composite
def leaving(draw: st.DrawFn) -> Case:
    """Records that are deleted while they are in a window, and keys that leave."""
    inputs = (draw(windowed("A", "n1", draw(st.booleans()))), draw(windowed("B", "n2", True)))
    name = draw(st.sampled_from(["sm_s1", "sm_s1", "sm_s2", "bloom", "sm_d1"]))
    seed, stay = draw(st.integers(0, 2**32)), draw(st.booleans())
    return Case(inputs, Join(((0, 1),)), name, None, 0, stay, "n1", seed, 0.1, draw(st.sampled_from([1.0, 0.5])))


@st.composite
def many_sites(draw: st.DrawFn, *, switch: bool = False) -> Case:
    """Three or four inputs on up to four sites, a method for each."""
    count = draw(st.integers(3, 4))
    sites = [f"n{draw(st.integers(1, count))}" for _ in range(count)]
    inputs = tuple(draw(inputs_of(NAMES[i], sites[i], 5)) for i in range(count))
    edges = tuple((draw(st.integers(0, i - 1)), i) for i in range(1, count))
    join = Join(edges)
    return draw(_chosen(inputs, join, methods(inputs, join), switch))


@st.composite
def _chosen(draw: st.DrawFn, inputs: tuple[Input, ...], join: Join, choices: st.SearchStrategy, switch: bool) -> Case:
    stay = draw(st.booleans())
    return Case(
        inputs,
        join,
        draw(choices),
        draw(choices) if switch else None,
        draw(st.sampled_from([0, 0, 2, 5])) if stay else 0,
        stay,
        draw(st.sampled_from([i.site for i in inputs])),
        draw(st.integers(0, 2**32)),
        draw(st.sampled_from([0.0, 0.2, 0.5])),
        draw(st.sampled_from([1.0, 0.6, 0.3])),
    )


def run_case(case: Case) -> tuple[World, list[tuple[int, object, int]]]:
    """(the sites after all is done, the log that one site would have)."""
    chance = random.Random(case.seed)
    network = Network(chance, case.loss, case.patience)
    world = World(case.inputs, case.join, case.query(), network, chance, case.keys_stay)
    world.start(case.plan(case.first))
    switch_in = chance.randint(1, 6) if case.second is not None else None
    for number in range(60):
        if number == switch_in:
            _switch(world, case, chance)
        world.round()
    for _ in range(12):
        world.round(calm=True)
    assert world.given == world.horizon, "some times never closed"
    whole = [i.window.over(i.relation()) for i in case.inputs]
    expected = log_of(lambda t: case.join.at([r(t) for r in whole]), range(world.horizon))
    return world, expected


def _switch(world: World, case: Case, chance: random.Random) -> None:
    """Agree on a time beyond all frontiers, from which the second plan's edges hold all rows that count."""
    assert case.second is not None
    started = 1 + max(world.frontier(i.alias) for i in case.inputs)
    kept = [None if i.keyed else i.window.retention for i in case.inputs]
    agreed = earliest_switch(started, kept, case.lead)
    seeded = agreed is None  # contents are stored: nothing has to be waited for
    world.agreed = (started if agreed is None else agreed) + chance.randint(0, 3)
    world.start(case.plan(case.second), 0 if seeded else started)
