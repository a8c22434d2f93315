"""Random aggregation joins: a GROUP BY over an inner join of two to six inputs of every kind, and rows that meet.

`facts` of a workload say what was drawn ("window range", "graph cycle", "aggregate SUM"), so that a test can count that
everything is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from hypothesis import strategies as st

from tests.properties.queries import NAMES, Columns, Item, Query, Source, View, predicate, stream_source
from tests.properties.streams import Stream, decimals, formats, maybe, small, times
from tests.share.workloads import few_cuts
from tidemill.plan.sources import Column

TABLE = (Column("k", "INTEGER"), Column("b", "BIGINT"), Column("s", "VARCHAR"), Column("v", "INTEGER"),
         Column("x", "DOUBLE"), Column("d", "DECIMAL(8,2)"))
APPENDED = (*TABLE, Column("tm", "INTEGER"))
KEYED = (*TABLE, Column("op", "VARCHAR"), Column("tm", "INTEGER"))
WINDOWS = ("range", "window", "now", "until", "plain", "rows", "keyed", "static", "grouped", "filtered", "subquery")
GRAPHS = ("chain", "star", "cycle", "clique", "loose")
CALLS = ("COUNT(*)", "COUNT", "SUM", "AVG", "MIN", "MAX", "VARIANCE", "STDDEV_POP", "COUNT(DISTINCT)")
KEYS = ("int", "str", "composite", "mixed", "computed")
OUTPUTS = ("STREAMED", "STREAMED", "STREAMED", "COMPLETE", "RSTREAM")
REFRESHES = ("changes", "changes", "all", "some")
RESIDUALS = ("order", "different", "either", "three", "band", "one")
GROUPINGS = ("none", "column", "joined", "computed", "several", "time", "epoch", "only")
FACTS = {
    *(f"window {w}" for w in WINDOWS), *(f"graph {g}" for g in GRAPHS), *(f"aggregate {c}" for c in CALLS),
    *(f"key {k}" for k in KEYS), *(f"output {o}" for o in OUTPUTS), *(f"refresh {x}" for x in REFRESHES),
    *(f"residual {x}" for x in RESIDUALS), *(f"grouping {g}" for g in GROUPINGS), *(f"inputs {m}" for m in range(2, 7)),
    "several inputs in an aggregate", "FILTER", "HAVING", "NULL", "deletion", "skew", "a view above",
}


@dataclass(frozen=True)
class Taste:
    """What may occur: expressions that fail on some rows; at most so many inputs and rows of a stream."""

    failing: bool = False
    inputs: int = 6
    rows: int = 12


@dataclass(frozen=True)
class Joined(Query):
    """A join in which every input has its own NOW, written ⟨now i⟩: that of its last synchronization point."""

    @property
    def text(self) -> str:
        found = super().text
        for i in range(len(self.items)):
            found = found.replace(f"⟨now {i}⟩", "NOW")
        return found

    def direct(self, now: int) -> str | None:
        found = super().direct(now)
        for i, item in enumerate(self.items):
            found = found and found.replace(f"⟨now {i}⟩", f"({item.moment(now)})")
        return found


@dataclass(frozen=True)
class Workload:
    """Streams, the views that joins read, the joins and what stands on them; `inputs` of the first join."""

    streams: tuple[Stream, ...]
    below: tuple[View, ...]
    views: tuple[View, ...]
    inputs: int
    facts: frozenset[str]

    def recut(self, cuts: list[tuple[tuple[int, ...], int | None]]) -> tuple[Stream, ...]:
        """The streams in other files and batches."""
        return tuple(s if s.static else s.recut(*cut) for s, cut in zip(self.streams, cuts, strict=True))


# ---- rows ----------------------------------------------------------------------------------------

eighths = st.integers(-16, 40).map(lambda n: n / 8)
odd = st.sampled_from([float("inf"), float("-inf"), float("nan"), -0.0])


def records(strange: bool, skewed: bool, full: set[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Few different keys, so that rows meet; in a skewed stream half of the rows have one key; NULLs except in `full`.
    """
    values = {
        "k": st.sampled_from([0, 0, 0, 0, 1, 2, 3]) if skewed else st.integers(0, 3),
        "b": st.sampled_from([0, 1, 2, 3, 300]), "s": st.sampled_from(["a", "a", "b", "b", "", "1"]), "v": small,
        "x": st.one_of(eighths, odd) if strange else eighths, "d": decimals,
    }
    return st.fixed_dictionaries({n: one if n in full else maybe(one) for n, one in values.items()})


@st.composite
def streams(draw: st.DrawFn, name: str, kind: str, most: int, strange: bool, skewed: bool) -> Stream:
    """A stream that only grows, a keyed one with deletions, or a table."""
    count = draw(st.one_of(st.integers(most // 2, most), st.integers(0, most), st.just(most)))
    full = draw(st.sampled_from([{"k", "s", "v"}, {"k", "s"}, {"k"}, {"k", "b", "x"}, {"s", "v", "d"}, set()]))
    record = records(strange, skewed, full)
    rows = [draw(record) for _ in range(count)]
    if kind == "static":
        return Stream(name, TABLE, tuple(rows[:6]), format=draw(formats), static=True)
    lateness = draw(st.sampled_from([0, 0, 2]))
    moments = draw(times(count, lateness, late=False))
    if kind == "keyed":
        operations = st.sampled_from(["insert", "update", "upsert", "delete", None])
        rows = [{**row, "op": draw(operations)} for row in rows]
    columns, key = (KEYED, draw(st.sampled_from([("k",), ("b",), ("k", "s")]))) if kind == "keyed" else (APPENDED, ())
    sizes, batch = draw(few_cuts(count))
    timed = tuple({**row, "tm": t} for row, t in zip(rows, moments, strict=True))
    return Stream(name, columns, timed, key, lateness, draw(formats), sizes, batch)


# ---- inputs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """One input of a join: its FROM item, its condition with NOW, and the view below it if there is one."""

    item: Item
    condition: str = ""
    below: View | None = None

    @property
    def columns(self) -> Columns:
        return self.item.columns

    def of(self, *classes: str) -> list[str]:
        return [n for n, c in self.columns.items() if c in classes and not n.endswith(".tm")]

    @property
    def stamp(self) -> str | None:
        return f"{self.item.alias}.TS" if self.item.source.stamped else None


@st.composite
def windowed(draw: st.DrawFn, source: Source, alias: str, kind: str, number: int) -> Input:
    """A stream in a window."""
    size, slide = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    if kind == "range":
        return Input(Item(source, alias, f"[RANGE {size} SLIDE {slide}]", size=size, slide=slide))
    if kind == "window":
        return Input(Item(source, alias, f"[WINDOW {size}]", size=size))
    if kind == "rows":
        return Input(Item(source, alias, f"[ROWS {size} SLIDE {slide}]", plain=False))
    if kind == "now":
        now = f"⟨now {number}⟩"
        condition = draw(st.sampled_from([
            f"{now} - {size} < {alias}.TS AND {alias}.TS <= {now}", f"{alias}.TS >= {now} - {size}",
            f"{alias}.TS BETWEEN {now} - {size} AND {now} - 1",
        ]))
        return Input(Item(source, alias, sync=f"SYNC EVERY {slide}", every=slide), condition)
    return Input(Item(source, alias, "[WINDOW UNTIL NOW]" if kind == "until" else ""))


@st.composite
def over_a_view(draw: st.DrawFn, source: Source, alias: str, kind: str, number: int) -> Input:
    """A view or subquery over a window of a stream: rows that pass a filter, or groups that change."""
    size = draw(st.integers(2, 8))
    inner = Item(source, "i", f"[WINDOW {size}]", size=size)
    grouped = kind == "grouped" or (kind == "subquery" and draw(st.booleans()))
    if grouped:
        text = "SELECT i.k, i.s, COUNT(*) AS v, SUM(i.v) AS b, MAX(i.d) AS d FROM ⟨0⟩ GROUP BY i.k, i.s"
        columns = {"k": "int", "s": "str", "v": "int", "b": "int", "d": "dec"}
    else:
        columns = {c.name: "int" for c in TABLE} | {"s": "str", "x": "dbl", "d": "dec"}
        test = draw(predicate({f"i.{n}": c for n, c in columns.items()}))
        text = f"SELECT {', '.join(f'i.{n}' for n in columns)} FROM ⟨0⟩ WHERE {test}"
    query = Query(text, (inner,), columns)
    if kind == "subquery":
        return Input(Item(Source(f"({query.text})", columns, query=query), alias))
    view = View(f"w{number}", draw(st.sampled_from(["STREAMED", "COMPLETE"])), query)
    return Input(Item(view.as_source(), alias), below=view)


@st.composite
def inputs(draw: st.DrawFn, kinds: list[str], found: dict[str, Stream], first: int, refresh: str) -> list[Input]:
    """One input for each kind, synchronized as `refresh` says."""
    listed = []
    every = draw(st.integers(2, 4))
    for i, kind in enumerate(kinds):
        number, alias = first + i, "abcdef"[i]
        base = "K" if kind == "keyed" else "D" if kind == "static" else draw(st.sampled_from("AB"))
        source = stream_source(found[base])
        shape = over_a_view if kind in ("grouped", "filtered", "subquery") else windowed
        one = draw(shape(source, alias, kind, number if shape is over_a_view else i))
        if kind != "static" and (refresh == "all" or (refresh == "some" and draw(st.booleans()))):
            one = replace(one, item=replace(one.item, sync=f"SYNC EVERY {every}", every=every))
            if refresh == "some" and draw(st.integers(0, 4)) == 0:
                one = replace(one, item=replace(one.item, sync=f"SYNC EVERY {every} ROWS", every=None, plain=False))
        listed.append(one)
    return listed


# ---- conditions ----------------------------------------------------------------------------------


def edges(graph: str, count: int) -> list[tuple[int, int]]:
    """Pairs of inputs with an equality.

    >>> edges("cycle", 4), edges("star", 3)
    ([(0, 1), (1, 2), (2, 3), (0, 3)], [(0, 1), (0, 2)])
    """
    chain = [(i, i + 1) for i in range(count - 1)]
    return {
        "chain": chain, "star": [(0, i) for i in range(1, count)], "cycle": [*chain, (0, count - 1)],
        "clique": list(combinations(range(count), 2)), "loose": chain[:-1],
    }[graph]


@st.composite
def equality(draw: st.DrawFn, one: Input, other: Input) -> tuple[list[str], str]:
    """(conditions, kind of key) of an edge."""
    a, b = one.item.alias, other.item.alias
    kind = draw(st.sampled_from(["int", "int", "int", "str", "composite", "mixed", "computed"]))
    return {
        "int": [f"{a}.k = {b}.k"], "str": [f"{a}.s = {b}.s"], "composite": [f"{a}.k = {b}.k", f"{b}.s = {a}.s"],
        "mixed": [f"{a}.k = {b}.b"], "computed": [f"{a}.k + 1 = {b}.v % 4"],
    }[kind], kind


@st.composite
def residual(draw: st.DrawFn, found: list[Input]) -> tuple[str, str]:
    """(condition on several inputs, its kind)."""
    one, other = draw(st.permutations(found))[:2]
    a, b = one.item.alias, other.item.alias
    kind = draw(st.sampled_from(RESIDUALS))
    if kind == "band" and one.stamp and other.stamp:
        return f"{one.stamp} BETWEEN {other.stamp} - 4 AND {other.stamp} + 4", kind
    if kind == "three" and len(found) > 2:
        return f"{found[0].item.alias}.k + {found[1].item.alias}.k >= {found[2].item.alias}.k", kind
    if kind == "one":
        return draw(predicate({k: c for i in found for k, c in i.columns.items()})), kind
    return {"different": f"{a}.s <> {b}.s", "either": f"({a}.v > 1 OR {b}.v > 2)"}.get(
        kind, f"{a}.v <= {b}.v + 3"), kind if kind in ("different", "either") else "order"


# ---- answers -------------------------------------------------------------------------------------


@st.composite
def grouping(draw: st.DrawFn, found: list[Input], taste: Taste) -> tuple[list[str], str]:
    """(grouping columns, what is special about them)."""
    kind = draw(st.sampled_from(GROUPINGS))
    one, other = draw(st.permutations(found))[:2]
    a, b = one.item.alias, other.item.alias
    plain = [n for i in found for n in i.of("int", "str", "dec")]
    keys = draw(st.lists(st.sampled_from(plain), min_size=1, max_size=2, unique=True))
    if kind == "none":
        return [], kind
    if kind == "joined":
        keys = [f"{a}.k", f"{b}.k"][: draw(st.integers(1, 2))]
    elif kind == "computed":
        options = [f"{a}.k % 2", f"upper({a}.s)", f"coalesce({a}.k, -1)"]
        options += [f"CAST({a}.b AS TINYINT)"] * taste.failing
        keys[0] = draw(st.sampled_from(options))
    elif kind == "several":
        options = [f"{a}.k + {b}.k", f"{a}.s || {b}.s", f"{a}.v > {b}.v", f"coalesce({a}.k, {b}.b)"]
        keys[0] = draw(st.sampled_from(options))
    elif kind in ("time", "epoch"):
        if one.stamp is None:
            return keys, "column"
        keys[0] = one.stamp if kind == "time" else f"{one.stamp}/{draw(st.integers(2, 4))}"
    return list(dict.fromkeys(keys)), kind


@st.composite
def call(draw: st.DrawFn, found: list[Input], strange: bool, taste: Taste) -> tuple[str, set[str]]:
    """(aggregate, facts)."""
    function = draw(st.sampled_from(CALLS))
    facts = {f"aggregate {function}"}
    one, other = draw(st.permutations(found))[:2]
    a, b = one.item.alias, other.item.alias
    sql = "COUNT(*)"
    if function != "COUNT(*)":
        numbers = [*one.of("int", "dec"), *([] if strange and function in CALLS[6:8] else one.of("dbl"))]
        mixed = [f"{a}.v * {b}.v", f"{a}.v + {b}.k", f"{a}.d * {b}.k", f"CASE WHEN {a}.k > {b}.k THEN {a}.v END"]
        if function in ("COUNT", "MIN", "MAX", "COUNT(DISTINCT)"):
            numbers, mixed = one.of("int", "dec", "dbl", "str"), [*mixed, f"{a}.s || {b}.s"]
        if taste.failing and draw(st.integers(0, 3)) == 0:
            numbers, mixed = [f"CAST({a}.s AS INTEGER)"], [f"CAST({a}.b * {b}.b AS TINYINT)"]
        several = draw(st.integers(0, 3)) == 0
        facts |= {"several inputs in an aggregate"} if several else set()
        argument = draw(st.sampled_from(mixed if several else numbers))
        sql = f"COUNT(DISTINCT {argument})" if function == CALLS[-1] else f"{function}({argument})"
    if draw(st.integers(0, 6)) == 0:
        sql, facts = f"{sql} FILTER (WHERE {draw(predicate(other.columns, depth=0))})", facts | {"FILTER"}
    return sql, facts


@st.composite
def joins(draw: st.DrawFn, found: list[Input], graph: str, strange: bool, taste: Taste) -> tuple[Joined, set[str]]:
    """A grouping over an inner join of the inputs, spelled with commas or with JOIN."""
    facts = {f"graph {graph}"}
    conditions: dict[int, list[str]] = {}  # by the later input of an edge
    for i, j in edges(graph, len(found)):
        tests, kind = draw(equality(found[i], found[j]))
        conditions.setdefault(j, []).extend(tests)
        facts.add(f"key {kind}")
    where = [i.condition for i in found if i.condition]
    # The oracle cannot show a relation without columns, so a loose input has one that somebody reads.
    where += [f"{found[-1].item.alias}.k IS DISTINCT FROM 9"] if graph == "loose" else []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        test, kind = draw(residual(found))
        where.append(test)
        facts.add(f"residual {kind}")
    keys, grouped = draw(grouping(found, taste))
    calls = [draw(call(found, strange, taste)) for _ in range(draw(st.integers(1, 4)))]
    if grouped == "only":
        calls = []
    facts |= {f"grouping {grouped}"}.union(*(more for _, more in calls))
    spelled = [f"⟨{i}⟩" for i in range(len(found))]
    if draw(st.booleans()):
        where = [*(t for tests in conditions.values() for t in tests), *where]
        text = ", ".join(spelled)
    else:
        text = spelled[0] + "".join(f" JOIN {s} ON {' AND '.join(conditions.get(i, ['TRUE']))}"
                                    for i, s in enumerate(spelled) if i)
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(st.sampled_from(["", "", "", "COUNT(*) > 1", "COUNT(*) % 2 = 1", "SUM(a.v) > 2"]))
    facts |= {"HAVING"} if having else set()
    text += f" HAVING {having}" if having else ""
    chosen = list(dict.fromkeys([*keys, *(sql for sql, _ in calls)]))
    if len(chosen) > 1 and draw(st.integers(0, 5)) == 0:
        chosen = chosen[1:]
    names = draw(st.sampled_from(NAMES))
    listed = ", ".join(f"{sql} AS {names[i]}" for i, sql in enumerate(chosen))
    plain = grouped != "epoch"  # SQL's division is another one, and an epoch is not there before its end
    columns = {names[0]: "int"}
    return Joined(f"SELECT {listed} FROM {text}", tuple(i.item for i in found), columns, plain, not keys), facts


@st.composite
def workloads(draw: st.DrawFn, taste: Taste = Taste()) -> Workload:  # noqa: B008
    """One or two joins over streams that they share, now and then a view above one of them."""
    strange, skewed = draw(st.integers(0, 3)) == 0, draw(st.booleans())
    counts = [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6]
    sizes = [draw(st.sampled_from([c for c in counts if c <= taste.inputs])), *([2] * draw(st.integers(0, 1)))]
    most = taste.rows if sizes[0] < 5 else taste.rows // 2
    kinds = {"A": "plain", "B": "plain", "K": "keyed", "D": "static"}
    made = {n: draw(streams(n, kind, most, strange, skewed)) for n, kind in kinds.items()}
    facts = {f"inputs {m}" for m in sizes} | ({"skew"} if skewed else set())
    below, views = [], []
    for number, count in enumerate(sizes):
        kinds_here = [draw(st.sampled_from(WINDOWS)) for _ in range(count)]
        refresh = draw(st.sampled_from(REFRESHES))
        found = draw(inputs(kinds_here, made, 10 * number, refresh))
        graph = draw(st.sampled_from(GRAPHS if count > 2 else ("chain", "chain", "chain", "loose")))
        query, more = draw(joins(found, graph, strange, taste))
        output = draw(st.sampled_from(OUTPUTS))
        below += [i.below for i in found if i.below]
        views.append(View(f"v{number}", output, query))
        facts |= more | {f"window {k}" for k in kinds_here} | {f"refresh {refresh}", f"output {output}"}
    if draw(st.integers(0, 5)) == 0 and views[0].output != "RSTREAM":
        name = next(iter(views[0].query.columns))
        text = f"SELECT q.{name}, COUNT(*) AS n FROM v0 AS q GROUP BY q.{name}"
        views.append(View("above", "STREAMED", Query(text, (), {}, plain=False)))
        facts.add("a view above")
    used = " ".join(v.query.text for v in (*below, *views))
    kept = tuple(s for n, s in made.items() if f"{n} " in used)
    rows = [row for s in kept for row in s.rows]
    facts |= {"NULL"} if any(row["k"] is None for row in rows) else set()
    facts |= {"deletion"} if any(row.get("op") == "delete" for row in rows) else set()
    return Workload(kept, tuple(below), tuple(views), sizes[0], frozenset(facts))


def plan_names(count: int) -> list[str]:
    """All plans of a join, LAP first.

    >>> plan_names(2)
    ['00', '01', '10', '11']
    """
    return [format(n, f"0{count}b") for n in range(2**count)]


