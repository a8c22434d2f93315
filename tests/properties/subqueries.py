"""Random queries with subqueries in their expressions, nested up to two levels, correlated and not.

Holes ⟨0⟩, ⟨1⟩, … stand for the items of all FROM clauses, as in `queries`: the same text is a view and, over the rows
of a moment, plain SQL.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.properties.queries import item, predicate
from tests.properties.query_text import Columns, Item, Query, Source, View

SIGNS = ("=", "<>", "<", "<=", ">", ">=")


class _Drawing:
    """The items of one query so far: every FROM item has an alias of its own."""

    def __init__(self, draw: st.DrawFn, sources: list[Source], points: list[str]) -> None:
        self.draw, self.sources, self.points = draw, sources, points
        self.items: list[Item] = []

    def item(self) -> tuple[str, Columns]:
        """(hole, columns) of one more item."""
        alias = "abcdefghijklmnop"[len(self.items)]
        found = self.draw(item(self.sources, self.points, alias))
        self.items.append(found)
        return f"⟨{len(self.items) - 1}⟩", {n: c for n, c in found.columns.items() if c in ("int", "str")}

    def pick(self, columns: Columns, kind: str = "int") -> str:
        return self.draw(st.sampled_from([n for n, c in columns.items() if c == kind] or ["1"]))

    def chance(self, one_in: int) -> bool:
        return self.draw(st.integers(0, one_in - 1)) == 0

    # ---- inner queries

    def where(self, own: Columns, outer: Columns, depth: int) -> str:
        """Conditions of a subquery: its own, equalities and comparisons with the outer row, deeper subqueries."""
        tests = []
        if self.chance(2):
            tests.append(self.draw(predicate(own, depth=0)))
        if outer and self.chance(2):
            tests.append(f"{self.pick(own)} = {self.pick(outer)}")
        if outer and self.chance(4):
            sign = self.draw(st.sampled_from(SIGNS))
            tests.append(f"{self.pick(own)} {sign} {self.pick(outer)} + {self.pick(own)} % 2")
        if outer and self.chance(8):
            tests.append(f"{self.pick(outer)} IS DISTINCT FROM {self.pick(own)}")
        if depth and self.chance(3):
            tests.append(self.condition({**own, **(outer if self.chance(3) else {})}, depth - 1))
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def rows(self, outer: Columns, depth: int, what: str | None = None) -> str:
        """A subquery of any number of rows with one whole number, or with `what`."""
        hole, own = self.item()
        value = what or self.pick(own)
        if what is None and outer and self.chance(6):
            value = f"{value} + {self.pick(outer)}"
        text = f"FROM {hole}{self.where(own, outer, depth)}"
        shape = self.draw(st.sampled_from(["plain", "plain", "plain", "distinct", "group", "one row", "union"]))
        if shape == "group" and what is None:
            having = " HAVING count(*) > 1" if self.chance(2) else ""
            return f"(SELECT max({value}) {text} GROUP BY {self.pick(own)}{having})"
        if shape == "one row" and what is None:
            return f"(SELECT min({self.pick(own)}) {text})"
        if shape == "union" and what is None:
            other, more = self.item()
            word = self.draw(st.sampled_from(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]))
            return f"(SELECT {value} {text} {word} SELECT {self.pick(more)} FROM {other}{self.where(more, outer, 0)})"
        return f"(SELECT {'DISTINCT ' if shape == 'distinct' else ''}{value} {text})"

    def single(self, outer: Columns, depth: int) -> str:
        """A subquery of one row: aggregates, with HAVING and an outer column at times."""
        hole, own = self.item()
        name = self.pick(own)
        calls = ["count(*)", f"count({name})", f"sum({name})", f"max({name})", f"count(DISTINCT {name})"]
        calls += [f"coalesce(sum({name}), -1) + 1", f"count(*) FILTER (WHERE {self.draw(predicate(own, depth=0))})"]
        if outer:
            calls.append(f"count(*) + {self.pick(outer)}")
        having = " HAVING count(*) > 1" if self.chance(6) else ""
        return f"(SELECT {self.draw(st.sampled_from(calls))} FROM {hole}{self.where(own, outer, depth)}{having})"

    # ---- what stands in expressions

    def condition(self, columns: Columns, depth: int) -> str:
        """A condition with a subquery over rows of these columns."""
        outer = columns if self.chance(2) else {}
        word = self.draw(st.sampled_from(["EXISTS", "NOT EXISTS", "IN", "NOT IN", "ANY", "ALL", "scalar"]))
        left, sign = self.pick(columns), self.draw(st.sampled_from(SIGNS))
        if word.endswith("EXISTS"):
            return f"{word} {self.rows(columns if self.chance(2) else outer, depth, '1')}"
        if word.endswith("IN"):
            return f"{left} {word} {self.rows(outer, depth)}"
        if word == "scalar":
            return f"{left} {sign} {self.single(outer, depth)}"
        return f"{left} {sign} {word} {self.rows(outer, depth)}"

    def value(self, columns: Columns, depth: int) -> str:
        """A value with a subquery."""
        if self.chance(3):
            return f"CASE WHEN {self.condition(columns, depth)} THEN {self.pick(columns)} ELSE -7 END"
        if self.chance(3):
            return f"({self.condition(columns, depth)})"
        return self.single(columns if self.chance(2) else {}, depth)


@st.composite
def filtered(draw: st.DrawFn, sources: list[Source], points: list[str]) -> Query:
    """Subqueries in WHERE, by themselves, negated, and in OR; in the select list; in ON."""
    here = _Drawing(draw, sources, points)
    hole, columns = here.item()
    rest = hole
    if here.chance(4):
        other, more = here.item()
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"]))
        on = f"{here.pick(columns)} = {here.pick(more)}"
        if here.chance(3):
            on += f" AND {here.condition(more if kind != 'JOIN' else {**columns, **more}, 0)}"
        elif here.chance(2):
            on += f" AND {here.pick(columns)} <= {here.pick(more)} + 1"
        rest += f" {kind} {other} ON {on}"
        columns = columns if kind.startswith(("SEMI", "ANTI")) else {**columns, **more}
    tests = [here.condition(columns, 1) for _ in range(draw(st.integers(0, 2)))]
    if tests and here.chance(3):
        tests[0] = f"({tests[0]} OR {draw(predicate(columns, depth=0))})"
    if tests and here.chance(4):
        tests[-1] = f"NOT ({tests[-1]})"
    rest += f" WHERE {' AND '.join(tests)}" if tests else ""
    chosen = [here.pick(columns), here.pick(columns, "str")]
    if not tests or here.chance(2):
        chosen.append(here.value(columns, 1))
    listed = ", ".join(f"{sql} AS o{i}" for i, sql in enumerate(chosen))
    distinct = "DISTINCT " if here.chance(6) else ""
    return Query(f"SELECT {distinct}{listed} FROM {rest}", tuple(here.items), {})


@st.composite
def lateral(draw: st.DrawFn, sources: list[Source], points: list[str]) -> Query:
    """Subqueries in FROM that read the items before them, one or two of them."""
    here = _Drawing(draw, sources, points)
    rest, columns = here.item()
    for i in range(draw(st.integers(1, 2))):
        shape = draw(st.sampled_from(["rows", "rows", "single", "value"]))
        made = f"(SELECT {here.pick(columns)} + 1)" if shape == "value" else getattr(here, shape, here.rows)(columns, 1)
        kind = draw(st.sampled_from([", LATERAL", " CROSS JOIN LATERAL", " LEFT JOIN LATERAL"]))
        rest += f"{kind} {made} l{i}(x{i})"
        columns = {**columns, f"l{i}.x{i}": "int"}
        if kind.startswith(" LEFT"):
            rest += f" ON {draw(st.sampled_from(['TRUE', f'l{i}.x{i} > {here.pick(columns)}']))}"
    where = f" WHERE {draw(predicate(columns, depth=0))}" if here.chance(2) else ""
    listed = ", ".join(f"{sql} AS o{i}" for i, sql in enumerate(columns))
    return Query(f"SELECT {listed} FROM {rest}{where}", tuple(here.items), {})


@st.composite
def grouped(draw: st.DrawFn, sources: list[Source], points: list[str]) -> Query:
    """Subqueries in HAVING, beside aggregates, in their arguments and in WHERE below them."""
    here = _Drawing(draw, sources, points)
    hole, columns = here.item()
    key = here.pick(columns)
    where = f" WHERE {here.condition(columns, 1)}" if here.chance(2) else ""
    call = draw(st.sampled_from(["count(*)", f"sum({here.pick(columns)})", f"max({here.pick(columns)})"]))
    if here.chance(4):
        call = f"count(*) FILTER (WHERE {here.condition(columns, 0)})"
    chosen = [key, call]
    if here.chance(2):
        chosen.append(here.value({key: "int"}, 0))
    having = ""
    if here.chance(2):
        inner = here.single({key: "int"} if here.chance(2) else {}, 0)
        having = f" HAVING count(*) {draw(st.sampled_from(SIGNS))} {inner}"
    listed = ", ".join(f"{sql} AS o{i}" for i, sql in enumerate(chosen))
    return Query(f"SELECT {listed} FROM {hole}{where} GROUP BY {key}{having}", tuple(here.items), {})


@st.composite
def views(draw: st.DrawFn, sources: list[Source], points: list[str], most: int = 4) -> list[View]:
    """Some views with subqueries."""
    drawn = (filtered, filtered, grouped, lateral)
    shapes = st.one_of(*(shape(sources, points) for shape in drawn))
    return [View(f"v{i}", "STREAMED", draw(shapes)) for i in range(draw(st.integers(most // 2, most)))]
