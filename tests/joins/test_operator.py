"""The aggregation join gives what its twin gives, for every plan, method, cut into batches and change of plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.joins import operator_twin as twin
from tests.properties.effort import effort
from tidemill.plan.aggregates import Aggregate, Part, parts
from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators import meeting as meetings
from tidemill.runtime.operators import partials as outputs
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.operators.join_aggregate import JoinAggregate
from tidemill.runtime.state import Shelf

END = 9
STRINGS = ("a", "b", "", None)
GRAPHS = {
    "chain": lambda m: [(i, i + 1) for i in range(m - 1)],
    "star": lambda m: [(0, i) for i in range(1, m)],
    "cycle": lambda m: [(i, (i + 1) % m) for i in range(m)] if m > 2 else [(0, 1)],
    "clique": lambda m: [(i, j) for i in range(m) for j in range(i)],
    "none": lambda m: [],
}


@dataclass
class Query:
    """A join of inputs with columns x… (join attributes), g (grouping) and a (argument), and what comes out."""

    inputs: int
    on: list[tuple[int, str, int, str]]
    types: dict[str, str]  # join attributes
    grouped: list[int]  # inputs whose g is a grouping attribute
    summed: list[int]  # inputs whose a is summed
    residual: bool = False
    mixed: bool = False  # also a sum that reads two inputs
    valued: bool = False  # also the values of the first input's v

    def attributes(self, i: int) -> list[str]:
        return sorted({c for e in self.on for n, c in ((e[0], e[1]), (e[2], e[3])) if n == i})

    def keys(self, i: int) -> list[list[str]]:
        names = [[c, self.types[c]] for c in self.attributes(i)]
        names += [[f"g{i}", "INTEGER"]] if i in self.grouped or self.residual or self.mixed else []
        return names + ([["v0", "INTEGER"]] if self.valued and i == 0 else [])

    def args(self, i: int) -> list[list[str]]:
        return [[f"a{i}", "INTEGER"]] if i in self.summed else []

    def parts(self, i: int) -> list[Part]:
        wanted = Aggregate("sum", f"a{i}", "INTEGER", "s", "HUGEINT")
        return list(parts(wanted, False)) if i in self.summed else []

    def mixed_parts(self) -> list[Part]:
        if not self.mixed:
            return []
        term = f'(coalesce("g0", 0) * coalesce("g{self.inputs - 1}", 1))'
        return [Part("both", f"CAST(coalesce(sum(CAST({term} AS HUGEINT) * __diff), 0) AS HUGEINT)", "HUGEINT")]

    def op(self, early: list[bool], orders: list[list[int]], method: str = "hash") -> Op:
        """The operator of one plan."""
        columns = [{"keys": self.keys(i), "args": self.args(i),
                    "parts": [[p.name, p.type, p.combine, p.sql] for p in self.parts(i)],
                    "early": early[i], "order": orders[i], "stored": True} for i in range(self.inputs)]
        last = self.inputs - 1
        params = {
            "inputs": columns, "on": [list(e) for e in self.on], "method": method,
            "residual": f'coalesce("g0", 0) <= coalesce("g{last}", 1)' if self.residual else None,
            "outputs": {
                "keys": [[f"k{i}", "INTEGER", quoted(f"g{i}")] for i in self.grouped],
                "parts": [*([p.name, p.type, p.combine, i, p.sql] for i in self.summed for p in self.parts(i)),
                          *([p.name, p.type, p.combine, -1, p.sql] for p in self.mixed_parts())],
                "values": [["x.v", quoted("v0"), "INTEGER"]] if self.valued else [],
            },
        }
        schema = [Column(f"k{i}", "INTEGER") for i in self.grouped] + [Column("__n", "BIGINT")]
        return Op("x", "join_aggregate", tuple(f"p{i}" for i in range(self.inputs)), tuple(schema), params)

    def expected(self, changes: list[list[twin.Change]], valued: bool = False) -> dict[tuple, tuple]:
        last = self.inputs - 1

        def number(value: Any, nothing: int) -> int:
            return nothing if value is None else value

        def terms(row: twin.Row) -> list[Any]:
            found = []
            for i in self.summed if not valued else []:
                found += [None if row[f"a{i}"] is None else 1, row[f"a{i}"]]
            return found + ([number(row["g0"], 0) * number(row[f"g{last}"], 1)] if self.mixed and not valued else [])

        return twin.partials(
            changes, self.on,
            lambda row: (not self.residual or number(row["g0"], 0) <= number(row[f"g{last}"], 1))
            and (not valued or row["v0"] is not None),
            lambda row: (*(row[f"g{i}"] for i in self.grouped), *([row["v0"]] if valued else [])), terms)


def arrives(query: Query, i: int, changes: list[twin.Change], early: bool) -> pa.Table | None:
    """The changes as the linear operator `partial` sends them, in one of the two forms."""
    if not changes:
        return None
    kinds = {"INTEGER": pa.int32(), "VARCHAR": pa.string(), "DOUBLE": pa.float64(), "HUGEINT": pa.decimal128(38, 0)}
    columns = [*query.keys(i), *query.args(i)]
    data = {n: pa.array([row[n] for row, _, _ in changes], kinds[t]) for n, t in columns}
    data["__time"] = pa.array([t for _, t, _ in changes], pa.int64())
    data["__diff"] = pa.array([d for _, _, d in changes], pa.int64())
    group = [*(quoted(n) for n, _ in (query.keys(i) if early else columns)), "__time"]
    sums = [f"{p.sql} AS {quoted(p.name)}" for p in query.parts(i)] if early else []
    chosen = ", ".join([*group, "CAST(sum(__diff) AS BIGINT) AS __n", *sums])
    inner = duck.source("feed", [Column(n, t) for n, t in columns], "__time", "__diff")
    return duck.run(f"SELECT {chosen} FROM {inner} GROUP BY {', '.join(group)}", feed=pa.table(data))


@dataclass
class Run:
    """The operator over several batches, its output added up."""

    query: Query
    shelf: Shelf = field(default_factory=lambda: Shelf("nowhere"))
    out: Counter = field(default_factory=Counter)
    values: Counter = field(default_factory=Counter)
    note: dict[str, Any] | None = None

    def step(self, op: Op, tables: list[list[pa.Table | None]], frontier: int) -> None:
        """One batch; each input may bring several tables, of either form."""
        rounds = max(len(t) for t in tables)
        for turn in range(rounds):
            # All but the last part of a batch close nothing: they wait on the agenda.
            until = frontier if turn == rounds - 1 else -1
            inputs = [Batch(t[turn] if turn < len(t) else None, until) for t in tables]
            operator = JoinAggregate(op)
            result = operator.step(inputs, self.shelf)
            self.note = operator.note
            self.shelf = Shelf.load(self.shelf.dump(), "nowhere")
            self._add(self.out, result.rows, [p[0] for p in op.params["outputs"]["parts"]])
            for found in (result.picks or {}).values():
                self._add(self.values, found, [])

    def _add(self, into: Counter, rows: pa.Table | None, sums: list[str]) -> None:
        for row in rows.to_pylist() if rows is not None else []:
            found = tuple(int(row.pop(n)) for n in ["__n", *sums])
            assert any(found)
            time = row.pop("__time")
            into[(*row.values(), time)] = tuple(
                a + b for a, b in zip(into[(*row.values(), time)] or (0,) * len(found), found, strict=True))

    def result(self) -> dict[tuple, tuple]:
        return {k: v for k, v in self.out.items() if any(v)}


@st.composite
def queries(draw, inputs=st.integers(2, 4), graphs=st.sampled_from(sorted(GRAPHS)), plain=False) -> Query:
    m = draw(inputs)
    on, types = [], {}
    shape = draw(graphs)
    for i, j in GRAPHS[shape](m):
        width = draw(st.sampled_from([1, 1, 2]))
        for w in range(width):
            # Sometimes the same column takes part in several equalities, so that classes grow.
            shared = draw(st.booleans())
            left, right = (f"x{n}" if shared else f"x{n}_{min(i, j)}{max(i, j)}{w}" for n in (i, j))
            type_ = "INTEGER" if shared else draw(st.sampled_from(["INTEGER", "VARCHAR", "DOUBLE", "HUGEINT"]))
            types |= {left: type_, right: type_}
            on.append((i, left, j, right))
    some = st.lists(st.integers(0, m - 1), unique=True, max_size=2)
    extra = st.just(False) if plain else st.sampled_from([False, False, True])
    return Query(m, on, types, draw(some), draw(some), draw(extra), draw(extra), draw(extra))


VALUES = {"INTEGER": (0, 1, None), "VARCHAR": ("a", "", None), "DOUBLE": (0.0, -0.0, float("inf"), None),
          "HUGEINT": (0, 10**30, None)}


@st.composite
def changes(draw, query: Query, i: int, leave: bool = False) -> list[twin.Change]:
    """Changes in order of time; no row leaves before it came. With `leave` all have left before the end."""
    columns = [*query.keys(i), *query.args(i)]
    pools = [VALUES[t] if n.startswith("x") else (0, 1, 2, None) for n, t in columns]
    limit = {2: 9, 3: 6}.get(query.inputs, 4)
    found, held = [], Counter()
    for time in sorted(draw(st.lists(st.integers(0, END - 2), max_size=limit))):
        gone = [r for r, n in held.items() if n > 0]
        if gone and draw(st.booleans()):
            row, diff = draw(st.sampled_from(sorted(gone, key=str))), -1
        else:
            row, diff = tuple((n, draw(st.sampled_from(p))) for (n, _), p in zip(columns, pools, strict=True)), 1
        held[row] += diff
        found.append((dict(row), time, diff))
    return found + [(dict(row), END - 1, -n) for row, n in held.items() if n and leave]


@st.composite
def plans(draw, query: Query) -> Op:
    m = query.inputs
    orders = [draw(st.permutations([j for j in range(m) if j != i])) for i in range(m)]
    method = draw(st.sampled_from(["hash", "hash", "nested loop"]))
    return query.op([draw(st.booleans()) for _ in range(m)], orders, method)


def orders(m: int) -> list[list[int]]:
    return [[j for j in range(m) if j != i] for i in range(m)]


@effort(60)
@given(data=st.data())
def test_any_plan_cut_and_switch_gives_what_the_twin_gives(data):
    query = data.draw(queries())
    feeds = [data.draw(changes(query, i)) for i in range(query.inputs)]
    run, before = Run(query), 0
    for frontier in [*sorted(data.draw(st.sets(st.integers(1, END - 1), max_size=3))), END]:
        tables: list[list[pa.Table | None]] = []
        for i, feed in enumerate(feeds):
            here = [c for c in feed if before <= c[1] < frontier]
            # Some of it came in a batch before, when its time was still open, in the form of that batch's plan.
            cut = data.draw(st.integers(0, len(here)))
            tables.append([arrives(query, i, piece, data.draw(st.booleans())) for piece in (here[:cut], here[cut:])])
        run.step(data.draw(plans(query)), tables, frontier)
        before = frontier
    assert run.result() == query.expected(feeds)
    if query.valued:
        assert {k[:-1] + (k[-1],): v for k, v in run.values.items() if any(v)} == _moved(query, feeds)


def _moved(query: Query, feeds: list[list[twin.Change]]) -> dict[tuple, tuple]:
    """Value counts: the output has (keys, time, value), the twin (keys, value, time)."""
    return dict(query.expected(feeds, valued=True))


@effort(25)
@given(data=st.data())
def test_every_early_plan_equals_the_late_one(data):
    query = data.draw(queries(st.integers(2, 3), plain=True))
    feeds = [data.draw(changes(query, i)) for i in range(query.inputs)]
    found = []
    for early in product([False, True], repeat=query.inputs):
        run = Run(query)
        op = query.op(list(early), orders(query.inputs))
        run.step(op, [[arrives(query, i, f, early[i])] for i, f in enumerate(feeds)], END)
        found.append(run.result())
    assert all(f == found[0] for f in found)
    assert found[0] == query.expected(feeds)


@effort(25)
@given(data=st.data())
def test_nothing_is_stored_when_all_rows_have_left(data):
    query = replace(data.draw(queries(st.integers(2, 3), plain=True)), summed=[0, 1])
    feeds = [data.draw(changes(query, i, leave=True)) for i in range(query.inputs)]
    run, before = Run(query), 0
    for frontier in [*sorted(data.draw(st.sets(st.integers(1, END - 1), max_size=5))), END]:
        op = data.draw(plans(query))
        tables = [[arrives(query, i, [c for c in f if before <= c[1] < frontier], data.draw(st.booleans()))]
                  for i, f in enumerate(feeds)]
        run.step(op, tables, frontier)
        before = frontier
    assert run.result() == query.expected(feeds)
    assert run.shelf.size() == (0, 0)
