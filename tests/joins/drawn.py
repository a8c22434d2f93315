"""Random aggregation joins: a GROUP BY over an inner join of two to six inputs of every kind, and rows that meet.

A workload is a function of a seed, and of how many rows are kept: hypothesis prefers small and equal choices, of which
most joins are empty. It looks for the fewest rows with which a test fails.
`facts` of a workload say what was drawn ("window range", "graph cycle", "aggregate SUM"), so that a test can count that
everything is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from hypothesis import strategies as st

from tests.joins.rows import TABLE, stream
from tests.joins.shapes import Input, Joined, JoinView, Workload
from tests.properties.query_text import NAMES, Columns, Item, Query, Source, View, stream_source
from tests.properties.streams import Stream

WINDOWS = ("range", "window", "now", "until", "plain", "rows", "keyed", "static", "grouped", "filtered", "subquery")
GRAPHS = ("chain", "star", "cycle", "clique", "loose")
FREQUENT = ("SUM", "SUM", "AVG", "COUNT", "COUNT(*)", "VARIANCE")  # what folds
CALLS = ("COUNT(*)", "COUNT", "SUM", "AVG", "MIN", "MAX", "VARIANCE", "STDDEV_POP", "COUNT(DISTINCT)")
EXTREME = ("MIN", "MIN", "MAX", "MAX", "COUNT(DISTINCT)", "SUM")  # what does not invert, and something beside it
KEYS = ("int", "str", "composite", "mixed", "computed")
OUTPUTS = ("STREAMED", "STREAMED", "STREAMED", "COMPLETE", "RSTREAM")
REFRESHES = ("changes", "changes", "all", "some")
RESIDUALS = ("order", "different", "either", "three", "band", "one")
GROUPINGS = ("none", "column", "joined", "computed", "several", "time", "epoch", "only")
FACTS = {
    *(f"window {w}" for w in WINDOWS),
    *(f"graph {g}" for g in GRAPHS),
    *(f"aggregate {c}" for c in CALLS),
    *(f"key {k}" for k in KEYS),
    *(f"output {o}" for o in OUTPUTS),
    *(f"refresh {x}" for x in REFRESHES),
    *(f"residual {x}" for x in RESIDUALS),
    *(f"grouping {g}" for g in GROUPINGS),
    *(f"inputs {m}" for m in range(2, 7)),
    "several inputs in an aggregate",
    "FILTER",
    "HAVING",
    "NULL",
    "deletion",
    "skew",
    "spread",
    "a view above",
}


@dataclass(frozen=True)
class Taste:
    """What may occur: expressions that fail on some rows; mostly aggregates that do not invert; at most this many
    inputs and rows of a stream.
    """

    failing: bool = False
    extreme: bool = False
    inputs: int = 6
    rows: int = 16


# ---- inputs --------------------------------------------------------------------------------------


def windowed(rng: Random, source: Source, alias: str, kind: str, number: int) -> Input:
    """A stream in a window."""
    size, slide = rng.choice([4, 7, 9, 6, 5, 2]), rng.choice([1, 1, 2, 3])
    if kind == "range":
        return Input(Item(source, alias, f"[RANGE {size} SLIDE {slide}]", size=size, slide=slide))
    if kind == "window":
        return Input(Item(source, alias, f"[WINDOW {size}]", size=size))
    if kind == "rows":
        return Input(Item(source, alias, f"[ROWS {size} SLIDE {slide}]", plain=False))
    if kind == "now":
        now = f"⟨now {number}⟩"
        inside = rng.choice(
            [
                f"{now} - {size} < {alias}.TS AND {alias}.TS <= {now}",
                f"{alias}.TS >= {now} - {size}",
                f"{alias}.TS BETWEEN {now} - {size} AND {now} - 1",
            ]
        )
        return Input(Item(source, alias, sync=f"SYNC EVERY {slide}", every=slide), inside)
    return Input(Item(source, alias, "[WINDOW UNTIL NOW]" if kind == "until" else ""))


def over_a_view(rng: Random, source: Source, alias: str, kind: str, number: int) -> Input:
    """A view or subquery over a window of a stream: rows that pass a filter, or groups that change."""
    size = rng.choice([5, 8, 3])
    inner = Item(source, "i", f"[WINDOW {size}]", size=size)
    grouped = kind == "grouped" or (kind == "subquery" and rng.random() < 0.5)
    if grouped:
        text = "SELECT i.k, i.s, COUNT(*) AS v, SUM(i.v) AS b, MAX(i.d) AS d FROM ⟨0⟩ GROUP BY i.k, i.s"
        columns = {"k": "int", "s": "str", "v": "int", "b": "int", "d": "dec"}
    else:
        columns = {c.name: "int" for c in TABLE} | {"s": "str", "x": "dbl", "d": "dec"}
        test = condition(rng, {f"i.{n}": c for n, c in columns.items()})
        text = f"SELECT {', '.join(f'i.{n}' for n in columns)} FROM ⟨0⟩ WHERE {test}"
    query = Query(text, (inner,), columns)
    if kind == "subquery":
        return Input(Item(Source(f"({query.text})", columns, query=query), alias))
    view = View(f"w{number}", rng.choice(["STREAMED", "COMPLETE"]), query)
    return Input(Item(view.as_source(), alias), below=view)


def inputs(rng: Random, kinds: list[str], found: dict[str, Stream], first: int, refresh: str) -> list[Input]:
    """One input for each kind, synchronized as `refresh` says."""
    listed = []
    every = rng.randint(2, 4)
    for i, kind in enumerate(kinds):
        number, alias = first + i, "abcdef"[i]
        base = "K" if kind == "keyed" else "D" if kind == "static" else rng.choice("AB")
        source = stream_source(found[base])
        shape = over_a_view if kind in ("grouped", "filtered", "subquery") else windowed
        one = shape(rng, source, alias, kind, number if shape is over_a_view else i)
        if kind != "static" and (refresh == "all" or (refresh == "some" and rng.random() < 0.5)):
            one = replace(one, item=replace(one.item, sync=f"SYNC EVERY {every}", every=every))
            if refresh == "some" and rng.randrange(5) == 0:
                one = replace(one, item=replace(one.item, sync=f"SYNC EVERY {every} ROWS", every=None, plain=False))
        listed.append(one)
    return listed


# ---- conditions ----------------------------------------------------------------------------------

CONDITIONS = {
    "int": ("{} > 0", "{} <> 2", "{} BETWEEN 0 AND 4", "{} % 2 = 0", "{} IS NULL"),
    "dbl": ("{} > 0.5", "{} <= 3"),
    "dec": ("{} >= 2.5", "{} IS NOT NULL"),
    "str": ("{} = 'a'", "{} IN ('a', 'b', '')", "{} IS NULL", "{} < 'b'"),
}


def condition(rng: Random, columns: Columns) -> str:
    """A test of one or two columns of one input."""
    tests = [rng.choice(CONDITIONS[columns[n]]).format(n) for n in rng.sample(sorted(columns), 2)]
    return rng.choice([tests[0], tests[0], f"({tests[0]} OR {tests[1]})", f"NOT ({tests[0]})"])


def edges(graph: str, count: int) -> list[tuple[int, int]]:
    """Pairs of inputs with an equality.

    >>> edges("cycle", 4), edges("star", 3)
    ([(0, 1), (1, 2), (2, 3), (0, 3)], [(0, 1), (0, 2)])
    """
    chain = [(i, i + 1) for i in range(count - 1)]
    return {
        "chain": chain,
        "star": [(0, i) for i in range(1, count)],
        "cycle": [*chain, (0, count - 1)],
        "clique": list(combinations(range(count), 2)),
        "loose": chain[:-1],
    }[graph]


def equality(rng: Random, one: Input, other: Input) -> tuple[list[str], str]:
    """(conditions, kind of key) of an edge."""
    a, b = one.item.alias, other.item.alias
    kind = rng.choice(["int"] * 5 + ["str", "composite", "mixed", "computed"])
    return {
        "int": [f"{a}.k = {b}.k"],
        "str": [f"{a}.s = {b}.s"],
        "composite": [f"{a}.k = {b}.k", f"{b}.s = {a}.s"],
        "mixed": [f"{a}.k = {b}.b"],
        "computed": [f"{a}.k % 2 = {b}.b % 2"],
    }[kind], kind


def residual(rng: Random, found: list[Input]) -> tuple[str, str]:
    """(condition on several inputs, its kind)."""
    one, other = rng.sample(found, 2)
    a, b = one.item.alias, other.item.alias
    kind = rng.choice(RESIDUALS)
    if kind == "band" and one.stamp and other.stamp:
        return f"{one.stamp} BETWEEN {other.stamp} - 4 AND {other.stamp} + 4", kind
    if kind == "three" and len(found) > 2:
        return f"{found[0].item.alias}.k + {found[1].item.alias}.k >= {found[2].item.alias}.k", kind
    if kind == "one":
        return condition(rng, one.columns), kind
    return {"different": f"{a}.s <> {b}.s", "either": f"({a}.v > 1 OR {b}.v > 2)"}.get(
        kind, f"{a}.k <= {b}.b + 1"
    ), kind if kind in ("different", "either") else "order"


# ---- answers -------------------------------------------------------------------------------------


def grouping(rng: Random, found: list[Input], taste: Taste) -> tuple[list[str], str]:
    """(grouping columns, what is special about them)."""
    kind = rng.choice(GROUPINGS)
    one, other = rng.sample(found, 2)
    a, b = one.item.alias, other.item.alias
    plain = [n for i in found for n in i.of("int", "str") if n[-1] in "kbs"]
    keys = rng.sample(plain, rng.choice([1, 1, 2]))
    if kind == "none":
        return [], kind
    if kind == "joined":
        keys = [f"{a}.k", f"{b}.k"][: rng.randint(1, 2)]
    elif kind == "computed":
        options = [f"{a}.k % 2", f"upper({a}.s)", f"coalesce({a}.k, -1)"]
        options += [f"CAST({a}.b AS TINYINT)"] * taste.failing
        keys[0] = rng.choice(options)
    elif kind == "several":
        options = [f"{a}.k + {b}.k", f"{a}.s || {b}.s", f"{a}.v > {b}.v", f"coalesce({a}.k, {b}.b)"]
        keys[0] = rng.choice(options)
    elif kind in ("time", "epoch"):
        if one.stamp is None:
            return keys, "column"
        keys[0] = one.stamp if kind == "time" else f"{one.stamp}/{rng.randint(2, 4)}"
    return list(dict.fromkeys(keys)), kind


def call(rng: Random, found: list[Input], strange: bool, taste: Taste) -> tuple[str, set[str]]:
    """(aggregate, facts)."""
    function = rng.choice(EXTREME if taste.extreme else (*CALLS, *FREQUENT))
    facts = {f"aggregate {function}"}
    one, other = rng.sample(found, 2)
    a, b = one.item.alias, other.item.alias
    sql = "COUNT(*)"
    if function != "COUNT(*)":
        numbers = [*one.of("int", "dec"), *([] if strange and function in CALLS[6:8] else one.of("dbl"))]
        # Grouping and joining are by k, b and s: other columns may be folded.
        numbers = [n for n in numbers if n[-1] in "vdx"] * 2 + numbers
        mixed = [f"{a}.v * {b}.v", f"{a}.v + {b}.k", f"{a}.d * {b}.k", f"CASE WHEN {a}.k > {b}.k THEN {a}.v END"]
        if function in ("COUNT", "MIN", "MAX", "COUNT(DISTINCT)"):
            numbers, mixed = [*numbers, *one.of("str")], [*mixed, f"{a}.s || {b}.s"]
        if taste.failing and rng.randrange(6) == 0:
            numbers, mixed = [f"CAST({a}.b AS TINYINT)"], [f"CAST({a}.b + {b}.b AS TINYINT)"]
        several = rng.randrange(4) == 0
        facts |= {"several inputs in an aggregate"} if several else set()
        argument = rng.choice(mixed if several else numbers)
        sql = f"COUNT(DISTINCT {argument})" if function == CALLS[-1] else f"{function}({argument})"
    if rng.randrange(7) == 0:
        sql, facts = f"{sql} FILTER (WHERE {condition(rng, other.columns)})", facts | {"FILTER"}
    return sql, facts


def joins(rng: Random, found: list[Input], graph: str, strange: bool, taste: Taste) -> tuple[Joined, set[str]]:
    """A grouping over an inner join of the inputs, spelled with commas or with JOIN."""
    facts = {f"graph {graph}"}
    conditions: dict[int, list[str]] = {}  # by the later input of an edge
    for i, j in edges(graph, len(found)):
        # Edges that close a circle are mostly on the same column: otherwise little is left.
        closing = j in conditions and rng.random() < 0.7
        tests, kind = (
            ([f"{found[i].item.alias}.k = {found[j].item.alias}.k"], "int")
            if closing
            else equality(rng, found[i], found[j])
        )
        conditions.setdefault(j, []).extend(tests)
        facts.add(f"key {kind}")
    where = [i.condition for i in found if i.condition]
    # The oracle cannot show a relation without columns, so a loose input has one that is read.
    where += [f"{found[-1].item.alias}.k IS DISTINCT FROM 9"] if graph == "loose" else []
    for _ in range(rng.choice([0, 0, 0, 0, 1, 2])):
        test, kind = residual(rng, found)
        where.append(test)
        facts.add(f"residual {kind}")
    keys, grouped = grouping(rng, found, taste)
    calls = [call(rng, found, strange, taste) for _ in range(rng.choice([1, 2, 3]))]
    numbers = [n for one in found for n in one.of("int", "dec", "dbl") if n[-1] in "vdx" and rng.random() < 0.3]
    calls += [(f"{rng.choice(['SUM', 'SUM', 'AVG'])}({n})", set()) for n in numbers]
    if grouped == "only":
        calls = []
    facts |= {f"grouping {grouped}"}.union(*(more for _, more in calls))
    spelled = [f"⟨{i}⟩" for i in range(len(found))]
    if rng.random() < 0.5:
        where = [*(t for tests in conditions.values() for t in tests), *where]
        text = ", ".join(spelled)
    else:
        text = spelled[0] + "".join(
            f" JOIN {s} ON {' AND '.join(conditions.get(i, ['TRUE']))}" for i, s in enumerate(spelled) if i
        )
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    having = rng.choice([*[""] * 9, "COUNT(*) > 1", "COUNT(*) % 2 = 1", "SUM(a.v) > 2"])
    facts |= {"HAVING"} if having else set()
    text += f" HAVING {having}" if having else ""
    chosen = list(dict.fromkeys([*keys, *(sql for sql, _ in calls)]))[: len(NAMES[0])]
    if len(chosen) > 1 and rng.randrange(6) == 0:
        chosen = chosen[1:]
    names = rng.choice(NAMES)
    listed = ", ".join(f"{sql} AS {names[i]}" for i, sql in enumerate(chosen))
    plain = grouped != "epoch"  # SQL's division is another one, and an epoch is not there before its end
    columns = {names[0]: "int"}
    return Joined(f"SELECT {listed} FROM {text}", tuple(i.item for i in found), columns, plain, not keys), facts


def workload(rng: Random, taste: Taste) -> Workload:
    """One or two joins over streams that they share, now and then a view above one of them."""
    strange, skewed = rng.randrange(4) == 0, rng.random() < 0.5
    counts = [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6]
    sizes = [rng.choice([c for c in counts if c <= taste.inputs]), *([2] * rng.randint(0, 1))]
    most = taste.rows if sizes[0] < 4 else taste.rows * 3 // 4 if sizes[0] < 5 else taste.rows // 2
    kinds = {"A": "plain", "B": "plain", "K": "keyed", "D": "static"}
    made = {n: stream(rng, n, kind, most, strange, skewed) for n, kind in kinds.items()}
    facts = {f"inputs {m}" for m in sizes} | ({"skew"} if skewed else set())
    below: list[View] = []
    views: list[View] = []
    for number, count in enumerate(sizes):
        kinds_here = [rng.choice(WINDOWS) for _ in range(count)]
        refresh = rng.choice(REFRESHES)
        found = inputs(rng, kinds_here, made, 10 * number, refresh)
        graph = rng.choice(GRAPHS if count > 2 else ("chain", "chain", "chain", "loose"))
        query, more = joins(rng, found, graph, strange, taste)
        output = rng.choice(OUTPUTS)
        below += [i.below for i in found if i.below]
        spread = rng.choice(["", "", "", "", *(i.item.alias for i in found[:2])])
        views.append(JoinView(f"v{number}", output, query, spread))
        facts |= more | {f"window {k}" for k in kinds_here} | {f"refresh {refresh}", f"output {output}"}
        facts |= {"spread"} if spread else set()
    if rng.randrange(6) == 0 and views[0].output != "RSTREAM":
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


_ANY_TASTE = Taste()


@st.composite
def workloads(draw: st.DrawFn, taste: Taste = _ANY_TASTE) -> Workload:
    """The workload of a seed, mostly with all its rows."""
    found = workload(Random(draw(st.integers(0, 2**48))), taste)
    kept = draw(st.sampled_from([*range(taste.rows), *[taste.rows] * (9 * taste.rows)]))
    return replace(found, streams=tuple(replace(s, rows=s.rows[:kept]) for s in found.streams))


def plan_names(count: int) -> list[str]:
    """All plans of a join, LAP first.

    >>> plan_names(2)
    ['00', '01', '10', '11']
    """
    return [format(n, f"0{count}b") for n in range(2**count)]
