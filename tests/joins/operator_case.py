"""A join query of one operator as tests draw it: its parameters for any plan, its twin's answer, a run over batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.joins import operator_twin as twin
from tidemill.plan.aggregates import Aggregate, Part, parts
from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.operators.join_aggregate import JoinAggregate
from tidemill.runtime.state import Shelf

KINDS = {"INTEGER": pa.int32(), "VARCHAR": pa.string(), "DOUBLE": pa.float64(), "HUGEINT": pa.decimal128(38, 0),
         "BIGINT": pa.int64()}


@dataclass
class Query:
    """A join of inputs with columns x… (join attributes), g (grouping) and a (argument), and what comes out."""

    inputs: int
    on: list[tuple[int, str, int, str]]
    types: dict[str, str]  # of join attributes and arguments
    grouped: list[int]  # inputs whose g is a grouping attribute
    summed: list[int]  # inputs whose a is summed
    residual: bool = False
    mixed: tuple[int, int] | None = None  # also a sum that reads the g of these inputs
    valued: bool = False  # also the values of the first input's v
    shifted: bool = False  # grouping keys are expressions
    insert_only: bool = False
    function: str = "sum"

    def attributes(self, i: int) -> list[str]:
        """The join attributes of an input."""
        return sorted({c for e in self.on for n, c in ((e[0], e[1]), (e[2], e[3])) if n == i})

    def keys(self, i: int) -> list[list[str]]:
        """K_i."""
        names = [[c, self.types[c]] for c in self.attributes(i)]
        names += [[f"g{i}", "INTEGER"]] if i in self.grouped or self.residual or self.mixed else []
        return names + ([["v0", "INTEGER"]] if self.valued and i == 0 else [])

    def args(self, i: int) -> list[list[str]]:
        """Arguments that are folded early."""
        return [[f"a{i}", self.types.get(f"a{i}", "INTEGER")]] if i in self.summed else []

    def parts(self, i: int) -> list[Part]:
        """The parts of an input."""
        found = [Aggregate(self.function, n, t, "s", t if self.function in ("min", "max") else "HUGEINT")
                 for n, t in self.args(i)]
        return [p for a in found for p in parts(a, self.insert_only)]

    def op(self, early: list[bool], orders: list[list[int]] | None = None, method: str = "hash",
           stored: list[bool] | None = None) -> Op:
        """The operator of one plan."""
        m = self.inputs
        orders = orders or [[j for j in range(m) if j != i] for i in range(m)]
        inputs = [{"keys": self.keys(i), "args": self.args(i),
                   "parts": [[p.name, p.type, p.combine, p.sql] for p in self.parts(i)],
                   "early": early[i], "order": orders[i], "stored": stored[i] if stored else True} for i in range(m)]
        found = [[p.name, p.type, p.combine, i, p.sql] for i in self.summed for p in self.parts(i)]
        if self.mixed:
            term = f'(coalesce("g{self.mixed[0]}", 0) * coalesce("g{self.mixed[1]}", 1))'
            sql = f"CAST(coalesce(sum(CAST({term} AS HUGEINT) * __diff), 0) AS HUGEINT)"
            found.append(["both", "HUGEINT", "sum", -1, sql])
        shift = " + 1" if self.shifted else ""
        params = {
            "inputs": inputs, "on": [list(e) for e in self.on], "method": method,
            "residual": f'coalesce("g0", 0) <= coalesce("g{m - 1}", 1)' if self.residual else None,
            "outputs": {"keys": [[f"k{i}", "INTEGER", quoted(f"g{i}") + shift] for i in self.grouped], "parts": found,
                        "values": [["x.v", quoted("v0"), "INTEGER"]] if self.valued else []},
        }
        schema = (*(Column(f"k{i}", "INTEGER") for i in self.grouped), Column("__n", "BIGINT"),
                  *(Column(p[0], p[1]) for p in found))
        return Op("x", "join_aggregate", tuple(f"p{i}" for i in range(m)), schema, params)

    def expected(self, changes: list[list[twin.Change]], valued: bool = False) -> dict[tuple, tuple]:
        """What the twin gives: the partials, or the value counts."""
        def number(value: Any, nothing: int) -> int:
            return nothing if value is None else value

        def kept(row: twin.Row) -> bool:
            inside = not self.residual or number(row["g0"], 0) <= number(row[f"g{self.inputs - 1}"], 1)
            return inside and (not valued or row["v0"] is not None)

        def key(row: twin.Row) -> tuple:
            shown = [row[f"g{i}"] for i in self.grouped]
            shown = [None if g is None else g + self.shifted for g in shown]
            return (*shown, *([row["v0"]] if valued else []))

        def terms(row: twin.Row) -> list[Any]:
            if valued:
                return []
            found = [x for i in self.summed for x in (None if row[f"a{i}"] is None else 1, row[f"a{i}"])]
            if self.mixed:
                found.append(number(row[f"g{self.mixed[0]}"], 0) * number(row[f"g{self.mixed[1]}"], 1))
            return found

        return twin.partials(changes, self.on, kept, key, terms)


def arrives(query: Query, i: int, changes: list[twin.Change], early: bool) -> pa.Table | None:
    """The changes as the linear operator `partial` sends them, in one of the two forms."""
    if not changes:
        return None
    columns = [*query.keys(i), *query.args(i)]
    data = {n: pa.array([row[n] for row, _, _ in changes], KINDS[t]) for n, t in columns}
    data["__time"] = pa.array([t for _, t, _ in changes], pa.int64())
    data["__diff"] = pa.array([d for _, _, d in changes], pa.int64())
    group = [*(quoted(n) for n, _ in (query.keys(i) if early else columns)), "__time"]
    sums = [f"{p.sql} AS {quoted(p.name)}" for p in query.parts(i)] if early else []
    chosen = ", ".join([*group, "CAST(sum(__diff) AS BIGINT) AS __n", *sums])
    inner = duck.source("feed", [Column(n, t) for n, t in columns], "__time", "__diff")
    return duck.run(f"SELECT {chosen} FROM {inner} GROUP BY {', '.join(group)}", feed=pa.table(data))


@dataclass
class Run:
    """The operator over several batches with a stored shelf, its output added up."""

    query: Query
    shelf: Shelf = field(default_factory=lambda: Shelf("nowhere"))
    out: Counter = field(default_factory=Counter)
    values: Counter = field(default_factory=Counter)
    note: dict[str, Any] = field(default_factory=dict)
    complaints: list[tuple[list[dict[str, Any]], str]] = field(default_factory=list)

    def step(self, op: Op, tables: list[pa.Table | None], frontier: int) -> None:
        """One batch."""
        operator = JoinAggregate(op)
        operator.complain = lambda op, rows, why: self.complaints.append((rows.to_pylist(), why))
        result = operator.step([Batch(t, frontier) for t in tables], self.shelf)
        assert result.frontier == frontier
        assert operator.note is not None
        self.note = operator.note
        self.shelf = Shelf.load(self.shelf.dump(), "nowhere")
        names = [p[0] for p in op.params["outputs"]["parts"]]
        self._add(self.out, result.rows, names, frontier)
        for found in (result.picks or {}).values():
            self._add(self.values, found, [], frontier)

    def _add(self, into: Counter, rows: pa.Table | None, sums: list[str], frontier: int) -> None:
        for row in rows.to_pylist() if rows is not None else []:
            found = [int(row.pop(n)) for n in ["__n", *sums]]
            time = row.pop("__time")
            assert any(found)
            assert time < frontier
            key = (*row.values(), time)
            into[key] = tuple(a + b for a, b in zip(into[key] or [0] * len(found), found, strict=True))

    def result(self) -> dict[tuple, tuple]:
        """Added-up partials by (keys, time)."""
        return {k: v for k, v in self.out.items() if any(v)}

    def counted(self) -> dict[tuple, tuple]:
        """Added-up value counts by (keys, value, time)."""
        return {k: v for k, v in self.values.items() if any(v)}
