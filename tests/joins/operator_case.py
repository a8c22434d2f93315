"""A join query of one operator as tests draw it: its parameters for any plan, its twin's answer, a run over batches."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tests.joins import operator_twin as twin
from tidemill.plan import physical as p
from tidemill.plan.aggregates import Aggregate, Part, parts
from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.duckdb import duck
from tidemill.runtime.joins.join_aggregate import JoinAggregate
from tidemill.runtime.state.shard_state import ShardState

KINDS = {
    "INTEGER": pa.int32(),
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "HUGEINT": pa.decimal128(38, 0),
    "BIGINT": pa.int64(),
}


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
    append_only: bool = False
    function: str = "sum"
    says_reads: bool = True  # the plan says which columns expressions read; older ones do not

    def attributes(self, i: int) -> list[str]:
        """The join attributes of an input."""
        return sorted({c for e in self.on for n, c in ((e[0], e[1]), (e[2], e[3])) if n == i})

    def keys(self, i: int) -> tuple[Column, ...]:
        """K_i."""
        names = [Column(c, self.types[c]) for c in self.attributes(i)]
        names += [Column(f"g{i}", "INTEGER")] if i in self.grouped or self.residual or self.mixed else []
        return (*names, *([Column("v0", "INTEGER")] if self.valued and i == 0 else []))

    def args(self, i: int) -> tuple[Column, ...]:
        """Arguments that are folded early."""
        return (Column(f"a{i}", self.types.get(f"a{i}", "INTEGER")),) if i in self.summed else ()

    def parts(self, i: int) -> list[Part]:
        """The parts of an input."""
        found = [
            Aggregate(self.function, c.name, c.type, "s", c.type if self.function in ("min", "max") else "HUGEINT")
            for c in self.args(i)
        ]
        return [part for a in found for part in parts(a, self.append_only)]

    def op(
        self,
        early: list[bool],
        orders: list[list[int]] | None = None,
        method: str = "hash",
        stored: list[bool] | None = None,
    ) -> p.JoinAggregate:
        """The operator of one plan."""
        m = self.inputs
        orders = orders or [[j for j in range(m) if j != i] for i in range(m)]
        inputs = [
            p.JoinInput(
                self.keys(i),
                self.args(i),
                tuple(p.InputPart(part.name, part.type, part.combine, part.sql) for part in self.parts(i)),
                early[i],
                tuple(orders[i]),
                stored[i] if stored else True,
            )
            for i in range(m)
        ]
        found = [
            p.OutputPart(part.name, part.type, part.combine, i, part.sql) for i in self.summed for part in self.parts(i)
        ]
        if self.mixed:
            term = f'(coalesce("g{self.mixed[0]}", 0) * coalesce("g{self.mixed[1]}", 1))'
            sql = f"CAST(coalesce(sum(CAST({term} AS HUGEINT) * __diff), 0) AS HUGEINT)"
            found.append(p.OutputPart("both", "HUGEINT", "sum", -1, sql))
        shift = " + 1" if self.shifted else ""
        outputs = p.JoinOutputs(
            tuple(p.OutputKey(f"k{i}", "INTEGER", quoted(f"g{i}") + shift) for i in self.grouped),
            tuple(found),
            (p.OutputValues("x.v", quoted("v0"), "INTEGER"),) if self.valued else (),
        )
        residual = f'coalesce("g0", 0) <= coalesce("g{m - 1}", 1)' if self.residual else None
        computed = [k.sql for k in outputs.keys] + [part.sql for part in found if part.input < 0]
        computed += [v.sql for v in outputs.values] + ([residual] if residual else [])
        outputs = replace(
            outputs, reads={sql: tuple(re.findall(r'"(\w+)"', sql)) for sql in computed} if self.says_reads else {}
        )
        schema = (
            *(Column(f"k{i}", "INTEGER") for i in self.grouped),
            Column("__n", "BIGINT"),
            *(Column(part.name, part.type) for part in found),
        )
        ports, on = tuple(f"p{i}" for i in range(m)), tuple(p.Equality(*e) for e in self.on)
        return p.JoinAggregate("x", ports, schema, tuple(inputs), on, residual, method, outputs)

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
    data = {c.name: pa.array([row[c.name] for row, _, _ in changes], KINDS[c.type]) for c in columns}
    data["__time"] = pa.array([t for _, t, _ in changes], pa.int64())
    data["__diff"] = pa.array([d for _, _, d in changes], pa.int64())
    group = [*(quoted(c.name) for c in (query.keys(i) if early else columns)), "__time"]
    sums = [f"{p.sql} AS {quoted(p.name)}" for p in query.parts(i)] if early else []
    chosen = ", ".join([*group, "CAST(sum(__diff) AS BIGINT) AS __n", *sums])
    inner = duck.source("feed", columns, "__time", "__diff")
    return duck.run(f"SELECT {chosen} FROM {inner} GROUP BY {', '.join(group)}", feed=pa.table(data))


@dataclass
class Run:
    """The operator over several batches with stored state, its output added up."""

    query: Query
    state: ShardState = field(default_factory=lambda: ShardState.empty("nowhere"))
    out: Counter = field(default_factory=Counter)
    values: Counter = field(default_factory=Counter)
    note: JoinCounts = field(default_factory=lambda: JoinCounts((), 0))
    row_errors: list[tuple[list[dict[str, Any]], str]] = field(default_factory=list)

    def step(self, op: p.JoinAggregate, tables: list[pa.Table | None], frontier: int) -> None:
        """One batch."""
        operator = JoinAggregate(op)
        operator.on_row_error = lambda op, rows, why: self.row_errors.append((rows.to_pylist(), why))
        result = operator.step([Batch(t, frontier) for t in tables], self.state)
        assert result.frontier == frontier
        assert isinstance(operator.note, JoinCounts)
        self.note = operator.note
        self.state = ShardState.load(self.state.dump(), "nowhere")
        names = [part.name for part in op.outputs.parts]
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
            into[key] = tuple(a + b for a, b in zip(into[key] or [0] * len(found), found, strict=True))  # type: ignore[arg-type, assignment]

    def result(self) -> dict[tuple, tuple]:
        """Added-up partials by (keys, time)."""
        return {k: v for k, v in self.out.items() if any(v)}  # type: ignore[arg-type, misc]

    def counted(self) -> dict[tuple, tuple]:
        """Added-up value counts by (keys, value, time)."""
        return {k: v for k, v in self.values.items() if any(v)}  # type: ignore[arg-type, misc]
