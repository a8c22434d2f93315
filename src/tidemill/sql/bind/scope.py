"""What the names of a query mean: the inputs of FROM with their columns, time and key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.sql.lexical.tokens import position

Domain = Literal["units", "timestamp"] | None


@dataclass(frozen=True)
class Rhythm:
    """When an input refreshes: every `period`, at the points of a relation, or at every change."""

    period: tuple[int, int] | None = None
    points: r.Relation | None = None


EVERY_CHANGE = Rhythm()


@dataclass(frozen=True)
class Field:
    """A column as the user names it, and the column of the plan node that holds it."""

    name: str
    column: str
    type: str


@dataclass(frozen=True)
class TableWindows:
    """The windows of a table function, `slide_us` apart and `size_us` long, whose bounds are found from the group."""

    slide_us: int
    size_us: int


@dataclass(frozen=True)
class Input:
    """One item of FROM. `ts` is the column with its TS in microseconds, `keys` what identifies a row.

    `event` is the declared column that TS was taken from: the same time again, so no attribute of its own.
    """

    alias: str
    node: r.Relation
    fields: tuple[Field, ...]
    ts: str | None
    keys: tuple[str, ...] | None
    domain: Domain
    rhythm: Rhythm = EVERY_CHANGE
    needs: frozenset[str] = frozenset()
    event: str | None = None
    windows: TableWindows | None = None

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)

    def with_stamp(self) -> Input:
        """The same input with a TS column; a derived relation gets one from the times of its changes."""
        if self.ts is not None:
            return self
        return replace(self, node=r.Stamp(self.node), ts=r.TS)


@dataclass
class Scope:
    """The inputs of one SELECT. After a join all of them are columns of `node`.

    `same` has a pair (a, b) where the join says that column a is b in every row that has an a.
    """

    inputs: list[Input]
    node: r.Relation
    unit_us: int
    needs: set[str] = field(default_factory=set)
    same: list[tuple[str, str]] = field(default_factory=list)
    merged: dict[str, exp.Expression] = field(default_factory=dict)  # columns of USING
    beside: list[Input] = field(default_factory=list)  # read by subqueries, SEMI and ANTI joins: no columns of theirs
    dates: bool = True  # those of event times in GROUP BY are epochs
    numbers: Iterator[int] = field(default_factory=lambda: count(1))  # of columns that subqueries add

    @property
    def domain(self) -> Domain:
        return merge_domains(i.domain for i in (*self.inputs, *self.beside))

    def resolve(self, column: exp.Column) -> Field | Input:
        """A field, or the input whose TS is meant."""
        name, table = column.name, column.table
        inputs = [i for i in self.inputs if not table or i.alias.lower() == table.lower()]
        if not inputs and table:
            known = [i.alias for i in self.inputs]
            raise problem(
                f'there is no input named "{table}" in FROM',
                column,
                hint=_find_near(table, known) or f"the inputs here are {', '.join(known)}",
            )
        found = [f for i in inputs if (f := i.field(name))]
        if len(found) > 1:
            owners = ", ".join(i.alias for i in inputs if i.field(name))
            raise problem(
                f'column "{name}" is ambiguous',
                column,
                detail=f"it is in {owners}",
                hint=f"write {inputs[0].alias}.{name}",
            )
        if found:
            return found[0]
        if name.lower() == "ts":
            stamped = [i for i in inputs if i.ts]
            if len(stamped) == 1:
                return stamped[0]
            if len(stamped) > 1:
                raise problem("TS is ambiguous", column, hint=f"write {stamped[0].alias}.TS")
        names = [f.name for i in inputs for f in i.fields]
        raise problem(f'there is no column "{name}"', column, hint=self._hint(name, names))

    def stamp(self, column: exp.Column) -> str | None:
        """The column with the microseconds of TS when `column` is TS, or an event time that its source calls so."""
        if column.name.lower() != "ts":
            return None
        found = self.resolve(column)
        if isinstance(found, Input):
            return found.ts
        return next((i.ts for i in self.inputs if i.event == found.column), None)

    def _hint(self, name: str, known: list[str]) -> str:
        if name.lower() in ("window_start", "window_end"):
            return (
                "it may stand in SELECT and GROUP BY by itself, of a query with one window"
                " [RANGE … SLIDE …]; a view over that one may compute with it"
            )
        here = ", ".join(known[:12])
        return _find_near(name, known) or f"text is written in single quotes: '{name}'; columns here: {here}"


def _find_near(name: str, known: list[str]) -> str | None:
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1)
    return f"did you mean {next(k for k in known if k.lower() == near[0])}?" if near else None


def is_near(name: str, inputs: list[Input]) -> bool:
    """Whether the name may be a misspelled column of an input."""
    return _find_near(name, [f.name for i in inputs for f in i.fields]) is not None


def column_name(node: exp.Column, scope: Scope) -> str:
    """What a selected column is called: as it was written, and TS where the pseudo-column is meant."""
    return node.name if isinstance(scope.resolve(node), Field) else "TS"


def merge_domains(domains: object) -> Domain:
    """Clock units only when every input counts in them; clockStr fits either."""
    found = {d for d in domains if d}  # type: ignore[attr-defined]
    return "timestamp" if "timestamp" in found else ("units" if found else None)


def place_of(name: str, query: exp.Expr) -> tuple[int, int] | None:
    """Where a query first names an input, as far as that is known."""
    tables = (t for t in query.find_all(exp.Table) if t.name.lower() == name.lower())
    return next((p for p in map(position, tables) if p is not None), None)


def problem(
    message: str, node: exp.Expr | None, *, code: str = "TM201", hint: str | None = None, detail: str | None = None
) -> PlanProblem:
    """A planning error that points at `node` where its place is known."""
    place = position(node) if node is not None else None
    line, column = place if place else (None, None)
    return PlanProblem(code, message, detail=detail, hint=hint, line=line, column=column)
