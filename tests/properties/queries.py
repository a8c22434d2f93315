"""Random standing queries, as the text users write and, where SQL has the same words, as SQL over the rows of a moment.

A query is a template whose FROM items are holes ⟨0⟩, ⟨1⟩, …; the engine's text fills them with streams, windows and
synchronization, the direct text with a subquery that says in plain SQL which rows are there at moment T.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.properties.query_text import NAMES, Columns, Item, Query, Source, View, stream_source
from tests.properties.streams import Stream

# ---- expressions ---------------------------------------------------------------------------------


def _of(columns: Columns, *classes: str) -> list[str]:
    return [n for n, c in columns.items() if c in classes]


@st.composite
def predicate(draw: st.DrawFn, columns: Columns, depth: int = 1) -> str:
    """A condition; NULL counts as not satisfied."""
    tests = []
    for n in _of(columns, "int"):
        tests += [f"{n} > 1", f"{n} IS NULL", f"{n} BETWEEN 0 AND 4", f"{n} <> 2", f"{n} % 2 = 0"]
        tests += [f"{n} IN (0, 3, -1)", f"-{n} < 0"]
    for n in _of(columns, "dbl"):
        tests += [f"{n} > 0.5", f"{n} = 0", f"{n} <= -0.25", f"{n} IS NOT NULL", f"isnan({n})"]
    for n in _of(columns, "dec"):
        tests += [f"{n} >= 2.5", f"{n} < 0", f"{n} IS NULL"]
    for n in _of(columns, "str"):
        tests += [f"{n} = 'a'", f"{n} LIKE 'a%'", f"{n} IN ('a', 'b', '')", f"{n} IS NULL"]
        tests += [f"length({n}) > 1", f"{n} < 'b'"]
    ints = _of(columns, "int")
    if len(ints) > 1:
        tests.append(f"{ints[0]} < {ints[-1]}")
    one = draw(st.sampled_from(tests or ["TRUE"]))
    if depth == 0:
        return one
    how = draw(st.sampled_from(["", "", "", "NOT", "AND", "OR"]))
    if how == "NOT":
        return f"NOT ({one})"
    return f"({one} {how} {draw(predicate(columns, depth=0))})" if how else one


@st.composite
def scalar(draw: st.DrawFn, columns: Columns, *, exact: bool = False) -> tuple[str, str]:
    """(expression, class)."""
    options: list[tuple[str, str]] = [(n, c) for n, c in columns.items() if not (exact and c == "noise")]
    for n in _of(columns, "int"):
        options += [
            (f"{n} + 1", "int"),
            (f"{n} * 2 - 3", "int"),
            (f"abs({n})", "int"),
            (f"coalesce({n}, -1)", "int"),
            (f"nullif({n}, 1)", "int"),
            (f"{n} / 2", "dbl"),
            (f"CAST({n} AS DOUBLE)", "dbl"),
            (f"CAST({n} AS VARCHAR)", "str"),
            (f"CASE WHEN {n} > 2 THEN 'big' WHEN {n} IS NULL THEN NULL ELSE 'small' END", "str"),
        ]
    for n in _of(columns, "dbl"):
        options += [(f"{n} * 2", "dbl"), (f"-{n}", "dbl"), (f"coalesce({n}, 0.5)", "dbl"), (f"{n} + 0.25", "dbl")]
    for n in _of(columns, "dec"):
        options += [(f"{n} + 1", "dec"), (f"{n} * 2", "dec"), (f"abs({n})", "dec"), (f"CAST({n} AS INTEGER)", "int")]
    for n in _of(columns, "str"):
        options += [
            (f"upper({n})", "str"),
            (f"{n} || 'z'", "str"),
            (f"coalesce({n}, '?')", "str"),
            (f"length({n})", "int"),
            (f"TRY_CAST({n} AS INTEGER)", "int"),
            (f"substr({n}, 1, 1)", "str"),
        ]
    if not options:
        return "1", "int"
    if draw(st.integers(0, 5)) == 0:
        sql, kind = draw(st.sampled_from(options))
        return f"CASE WHEN {draw(predicate(columns, depth=0))} THEN {sql} END", kind
    return draw(st.sampled_from(options))


@st.composite
def aggregate(draw: st.DrawFn, columns: Columns, odd: bool) -> tuple[str, str]:
    """(aggregate call, class)."""
    options = [("COUNT(*)", "int")]
    for n, kind in columns.items():
        options += [(f"COUNT({n})", "int"), (f"MIN({n})", kind), (f"MAX({n})", kind)]
        if kind != "noise":
            options.append((f"COUNT(DISTINCT {n})", "int"))
        if kind in ("int", "dbl", "dec"):
            options += [(f"SUM({n})", kind), (f"AVG({n})", "noise")]
        if kind == "int":
            options += [(f"STDDEV({n})", "noise"), (f"VARIANCE({n})", "noise"), (f"SUM({n} * 2 + 1)", "int")]
        if kind == "dbl" and not odd:  # DuckDB refuses the variance of an infinity
            options += [(f"STDDEV_POP({n})", "noise"), (f"VAR_POP({n})", "noise")]
    sql, kind = draw(st.sampled_from(options))
    if draw(st.integers(0, 4)) == 0:
        sql = f"{sql} FILTER (WHERE {draw(predicate(columns, depth=0))})"
    return sql, kind


# ---- FROM ----------------------------------------------------------------------------------------


@st.composite
def item(draw: st.DrawFn, sources: list[Source], points: list[str], alias: str) -> Item:
    """A source, perhaps with a window and a synchronization."""
    source = draw(st.sampled_from(sources))
    found = Item(source, alias)
    static = source.stream is not None and source.stream.static
    if static:
        return found
    window = draw(st.sampled_from(["", "", "", "", "WINDOW", "RANGE", "ROWS", "UNTIL"]))
    plain = source.stamped
    if window == "WINDOW":
        size = draw(st.integers(1, 6))
        found = Item(source, alias, f"[WINDOW {size}]", size=size, plain=plain)
    elif window == "RANGE":
        size, slide = draw(st.integers(1, 7)), draw(st.integers(1, 5))
        found = Item(source, alias, f"[RANGE {size} SLIDE {slide}]", size=size, slide=slide, plain=plain)
    elif window == "ROWS":
        rows, slide = draw(st.integers(1, 5)), draw(st.integers(1, 4))
        found = Item(source, alias, f"[ROWS {rows} SLIDE {slide}]", plain=False)
    elif window == "UNTIL":
        found = Item(source, alias, "[WINDOW UNTIL NOW]")
    sync = draw(st.sampled_from(["", "", "", "EVERY", "ROWS", "ON"]))
    if sync == "EVERY":
        every = draw(st.integers(2, 5))
        return Item(source, alias, found.window, f"SYNC EVERY {every}", every, found.size, found.slide, found.plain)
    if sync == "ROWS":
        return Item(source, alias, found.window, f"SYNC EVERY {draw(st.integers(1, 4))} ROWS", plain=False)
    if sync == "ON" and points:
        return Item(source, alias, found.window, f"SYNC ON {draw(st.sampled_from(points))}", plain=False)
    return found


@st.composite
def now_window(draw: st.DrawFn, alias: str) -> str:
    """Conditions with NOW in their spellings."""
    n = draw(st.integers(1, 6))
    ts = f"{alias}.TS"
    return draw(
        st.sampled_from(
            [
                f"NOW - {n} < {ts} AND {ts} <= NOW",
                f"NOW - {n} <= {ts} AND {ts} < NOW",
                f"{ts} > NOW - {n}",
                f"{ts} + {n} >= NOW",
                f"{ts} <= NOW - {n}",
                f"{ts} = NOW - {n}",
                f"{ts} BETWEEN NOW - {n} AND NOW",
            ]
        )
    )


# ---- queries -------------------------------------------------------------------------------------


@st.composite
def selection(draw: st.DrawFn, sources: list[Source], points: list[str], odd: bool, exact: bool = False) -> Query:
    """SELECT [DISTINCT] … FROM one item [WHERE …], keyed columns often kept."""
    found = draw(item(sources, points, "a"))
    columns = dict(found.columns)
    plain = True
    if found.source.stamped and draw(st.integers(0, 3)) == 0:
        columns["a.TS"] = "int"
    elif found.source.query is not None and draw(st.integers(0, 7)) == 0:
        columns["a.TS"], plain = "int", False
    distinct = draw(st.integers(0, 4)) == 0
    count = draw(st.integers(1, 4))
    chosen = [draw(scalar(columns, exact=exact or distinct)) for _ in range(count)]
    if columns.get("a.k", "noise") != "noise" and draw(st.booleans()):
        chosen.insert(0, ("a.k", columns["a.k"]))
    if columns.get("a.s", "noise") != "noise" and draw(st.integers(0, 2)) == 0:
        chosen.append(("a.s", columns["a.s"]))
    conditions = [draw(predicate(columns))] if draw(st.booleans()) else []
    if not found.window and found.source.stamped and draw(st.integers(0, 3)) == 0:
        conditions.append(draw(now_window("a")))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return _select(chosen, "⟨0⟩" + where, (found,), distinct, plain)


def _select(
    chosen: list[tuple[str, str]],
    rest: str,
    items: tuple[Item, ...],
    distinct: bool = False,
    plain: bool = True,
    keyless: bool = False,
) -> Query:
    names = NAMES[sum(map(len, (sql for sql, _ in chosen))) % 3]
    outputs = {names[i]: kind for i, (_, kind) in enumerate(chosen)}
    listed = ", ".join(f"{sql} AS {names[i]}" for i, (sql, _) in enumerate(chosen))
    return Query(f"SELECT {'DISTINCT ' if distinct else ''}{listed} FROM {rest}", items, outputs, plain, keyless)


@st.composite
def grouping(draw: st.DrawFn, sources: list[Source], points: list[str], odd: bool) -> Query:
    """SELECT keys, aggregates FROM one item [WHERE …] GROUP BY … [HAVING …]."""
    found = draw(item(sources, points, "a"))
    columns = found.columns
    keys = draw(st.lists(scalar(columns, exact=True), max_size=2, unique_by=lambda x: x[0]))
    calls = draw(st.lists(aggregate(columns, odd), min_size=1, max_size=3, unique_by=lambda x: x[0]))
    conditions = [draw(predicate(columns))] if draw(st.integers(0, 2)) == 0 else []
    if not found.window and found.source.stamped and draw(st.integers(0, 2)) == 0:
        conditions.append(draw(now_window("a")))
    rest = "⟨0⟩" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
    if keys:
        rest += f" GROUP BY {', '.join(sql for sql, _ in keys)}"
    having = draw(st.sampled_from(["", "", "", "COUNT(*) > 1", "COUNT(*) % 2 = 1"]))
    rest += f" HAVING {having}" if having else ""
    # A quotient of the event time numbers epochs, and its groups are said when one ends: plain SQL does not wait.
    epochs = {f"a.{name} / 2" for name in ("tm", "TS")}
    plain = epochs.isdisjoint(sql for sql, _ in keys)
    return _select([*keys, *calls], rest, (found,), plain=plain, keyless=not keys)


@st.composite
def joining(draw: st.DrawFn, sources: list[Source], points: list[str], odd: bool) -> Query:
    """Two items joined on k and perhaps more; sometimes grouped."""
    able = [s for s in sources if _of(s.columns, "int")]
    a, b = draw(item(able, points, "a")), draw(item(able, points, "b"))
    left, right = draw(st.sampled_from(_keys(a))), draw(st.sampled_from(_keys(b)))
    kind = draw(st.sampled_from(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    on = f"{left} = {right}"
    if draw(st.integers(0, 2)) == 0:
        more = draw(st.sampled_from(["residual", "both"]))
        ints_a, ints_b = _of(a.columns, "int"), _of(b.columns, "int")
        strs_a, strs_b = _of(a.columns, "str"), _of(b.columns, "str")
        if more == "both" and strs_a and strs_b:
            on += f" AND {strs_a[-1]} = {strs_b[-1]}"
        else:
            on += f" AND {ints_a[-1]} <= {ints_b[-1]} + 1"
    columns = {**a.columns, **b.columns}
    where = f" WHERE {draw(predicate(columns))}" if draw(st.integers(0, 2)) == 0 else ""
    rest = f"⟨0⟩ {kind} ⟨1⟩ ON {on}{where}"
    if draw(st.integers(0, 3)) == 0:
        call = draw(aggregate(columns, odd))
        return _select([(left, "int"), call], f"{rest} GROUP BY {left}", (a, b))
    chosen = [(left, "int"), (right, "int"), *(draw(scalar(columns)) for _ in range(draw(st.integers(0, 2))))]
    return _select(chosen, rest, (a, b))


def _keys(found: Item) -> list[str]:
    ints = _of(found.columns, "int")
    return [n for n in ints if n.endswith(".k")] or ints[:1]


@st.composite
def combination(draw: st.DrawFn, sources: list[Source], points: list[str], odd: bool) -> Query:
    """UNION, EXCEPT, INTERSECT, with and without ALL, of two selections with the same classes of columns."""
    a, b = draw(item(sources, points, "a")), draw(item(sources, points, "b"))
    kinds = sorted({c for c in a.columns.values() if c != "noise"} & {c for c in b.columns.values() if c != "noise"})
    word = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]))
    chosen = draw(st.lists(st.sampled_from(kinds or ["int"]), min_size=1, max_size=3))
    halves = []
    for i, side in enumerate((a, b)):
        items = [draw(st.sampled_from(_of(side.columns, kind) or ["1"])) for kind in chosen]
        where = f" WHERE {draw(predicate(side.columns))}" if draw(st.integers(0, 2)) == 0 else ""
        halves.append(f"SELECT {', '.join(f'{sql} AS o{n}' for n, sql in enumerate(items))} FROM ⟨{i}⟩{where}")
    return Query(f" {word} ".join(halves), (a, b), {f"o{n}": kind for n, kind in enumerate(chosen)})


@st.composite
def nested(draw: st.DrawFn, sources: list[Source], points: list[str], odd: bool) -> Query:
    """A grouping or selection over a subquery."""
    inner = draw(st.one_of(*(shape(sources, points, odd) for shape in (selection, grouping, combination))))
    columns = {f"q.{n}": c for n, c in inner.columns.items()}
    if draw(st.booleans()):
        chosen = [draw(scalar(columns)) for _ in range(draw(st.integers(1, 3)))]
        where = f" WHERE {draw(predicate(columns))}" if draw(st.booleans()) else ""
        outer = _select(chosen, f"({inner.template}) AS q{where}", inner.items, plain=inner.plain)
    else:
        keys = [draw(scalar(columns, exact=True))]
        calls = [draw(aggregate(columns, odd))]
        outer = _select(keys + calls, f"({inner.template}) AS q GROUP BY {keys[0][0]}", inner.items, plain=inner.plain)
    return Query(outer.template, outer.items, outer.columns, outer.plain and not inner.keyless)


@st.composite
def difference(draw: st.DrawFn, sources: list[Source]) -> Query:
    """The paper's R(S1) R1 - R(S2) R2 over two streams of the same columns."""
    able = [s for s in sources if s.stream and s.stamped]
    a, b = draw(st.sampled_from([(a, b) for a in able for b in able if a.columns == b.columns]))
    names = [n for n in a.columns if n != "tm"]  # the attributes, without the time
    sub = f"(SELECT {', '.join(names)} FROM ⟨{{}}⟩ EXCEPT ALL SELECT {', '.join(names)} FROM ⟨{{}}⟩)"
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    listed = ", ".join(f"R1.{n} AS o{i}" for i, n in enumerate(chosen))
    columns = {f"o{i}": a.columns[n] for i, n in enumerate(chosen)}
    sides = (Item(a, "R1"), Item(b, "R2"))
    return _Difference(f"SELECT {listed} FROM ⟨D⟩", sides, columns, True, False, sub.format(0, 1))


@dataclass(frozen=True)
class _Difference(Query):
    sub: str = ""

    @property
    def text(self) -> str:
        a, b = self.items
        return self.template.replace("⟨D⟩", f"R({a.source.name}) R1 - R({b.source.name}) R2")

    def direct(self, now: int) -> str | None:
        found = self.template.replace("⟨D⟩", f"{self.sub} AS R1")
        for i, side in enumerate(self.items):
            found = found.replace(f"⟨{i}⟩", str(side.direct(now)))
        return found


@st.composite
def views(
    draw: st.DrawFn,
    streams: list[Stream],
    *,
    odd: bool,
    most: int = 5,
    prefix: str = "v",
    known: list[View] | None = None,
) -> list[View]:
    """Views on streams, on views, on views on views; synchronization views come first."""
    known = known or []
    sources = [stream_source(s) for s in streams] + [v.as_source() for v in known if v.query.columns]
    points = [v.name for v in known if v.name.startswith("sync")]
    clocks = [] if known else draw(point_views(streams))
    points += [v.name for v in clocks]
    found: list[View] = []
    for i in range(draw(st.integers(1, most))):
        deep = [s for s in sources if s.query is not None]
        pool = deep if deep and draw(st.booleans()) else sources  # type: ignore[arg-type]
        shapes = [shape(pool, points, odd) for shape in (selection, grouping, grouping, nested)]
        shapes += [shape(sources, points, odd) for shape in (joining, joining, combination)]
        shapes += [difference(sources)] if any(s.stream and s.stamped for s in sources) else []
        query = draw(st.one_of(*shapes))
        output = draw(st.sampled_from(["STREAMED", "STREAMED", "STREAMED", "STREAMED", "COMPLETE", "RSTREAM"]))
        view = View(f"{prefix}{i}", output, query)
        found.append(view)
        sources.append(view.as_source())
    text = " ".join(v.query.text for v in found)
    used = [v for v in clocks if f"SYNC ON {v.name}" in text or (v.name == "syncEvent" and "SYNC ON syncBoth" in text)]
    return [*used, *found]


def _remainders() -> st.SearchStrategy[str]:
    """Conditions on the remainder of a clock's point; SQL's has the sign of the dividend."""
    lengths, shifts = (
        st.integers(1, 6),
        st.sampled_from(["TimePoint", "TimePoint", "(TimePoint - 1)", "(TimePoint + 2)"]),
    )
    values = st.sampled_from(["0", "0", "0", "1", "1", "2", "3", "-1"])
    equal = st.builds("{0} % {1} = {2}".format, shifts, lengths, values)
    among = st.builds("TimePoint mod {0} IN ({1}, {2})".format, lengths, values, values)
    return st.one_of(equal, equal, equal, among, st.builds("{1} = mod(TimePoint, {0})".format, lengths, values))


clock_conditions = st.recursive(
    _remainders(),
    lambda inner: st.builds("({0} {1} {2})".format, inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=3,
)


@st.composite
def point_views(draw: st.DrawFn, streams: list[Stream]) -> list[View]:
    """Time points: by the clock, by events, and by events of a state."""
    able = [s for s in streams if not s.static]
    every = f"TimePoint % {draw(st.integers(2, 4))} = 0"
    condition = draw(st.one_of(st.just(every), clock_conditions))
    clock = Query(f"SELECT C.TimePoint FROM R(clockStr) C WHERE {condition}", (), {}, plain=False)
    stream = draw(st.sampled_from(able))
    events = Query(f"SELECT R.TS FROM R({stream.name}) R WHERE R.v > 2", (), {}, plain=False)
    text = "SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint % 5 = 1 UNION SELECT S.TS FROM syncEvent S"
    both = Query(text, (), {}, plain=False)
    named = {"syncClock": clock, "syncEvent": events, "syncBoth": both}
    return [View(name, "STREAMED", query) for name, query in named.items()]
