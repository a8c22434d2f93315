"""Random rankings: window functions, first rows of partitions, LIMIT and DISTINCT ON.

A drawn query has two texts. Users write the order that they mean; DuckDB alone is asked with the completed order, so
that its answer does not depend on the order of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.properties.queries import item, predicate
from tests.properties.query_text import Columns, Item, Query, Source, View, stream_source
from tests.properties.streams import Stream

FRAMES = (
    "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
)
DISTANCES = ("RANGE BETWEEN 2 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING")
PEERS = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()")


@dataclass(frozen=True)
class Ranking(Query):
    """A query whose text for DuckDB is `asked`."""

    asked: str = ""

    def direct(self, now: int) -> str | None:
        found = self.asked if self.plain else None
        for i, one in enumerate(self.items):
            inner = one.direct(now)
            if inner is None or found is None:
                return None
            found = found.replace(f"⟨{i}⟩", inner)
        return found


@dataclass(frozen=True)
class Over:
    """PARTITION BY and ORDER BY; `total` completes the order by all columns that are read."""

    partition: tuple[str, ...]
    order: tuple[str, ...]
    total: tuple[str, ...] = ()

    def text(self, frame: str = "", whole: bool = False) -> str:
        order = self.total if whole else self.order
        parts = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        return f"OVER ({' '.join([*parts, frame] if frame else parts)})"


@dataclass(frozen=True)
class Call:
    """A window function: what is called, and the frame behind it."""

    function: str
    frame: str = ""

    def texts(self, over: Over) -> tuple[str, str]:
        """(as users write it, as DuckDB is asked)."""
        plain = f"{self.function} {over.text(self.frame)}"
        if self.function in PEERS:
            return plain, plain
        framed = self.function.partition("(")[0] not in ("row_number", "ntile", "lag", "lead")
        if not framed or self.frame.startswith("ROWS"):
            return plain, f"{self.function} {over.text(self.frame, whole=True)}"
        if self.function.partition("(")[0] in ("first_value", "last_value", "nth_value"):
            inner = f"{self.function[:-1]} ORDER BY {', '.join(over.total)})".replace(" IGNORE NULLS ORDER", " ORDER")
            inner = f"{inner[:-1]} IGNORE NULLS)" if "IGNORE" in self.function else inner
            return plain, f"{inner} {over.text(self.frame)}"
        return plain, plain


@st.composite
def orders(draw: st.DrawFn, names: list[str], most: int = 2) -> tuple[str, ...]:
    """Items of ORDER BY."""
    chosen = draw(st.lists(st.sampled_from(names), max_size=most, unique=True))
    return tuple(f"{n}{draw(st.sampled_from(['', ' DESC', ' NULLS FIRST', ' DESC NULLS FIRST']))}" for n in chosen)


@st.composite
def calls(draw: st.DrawFn, columns: Columns, order: tuple[str, ...]) -> Call:
    """Any window function over these columns."""
    name = draw(st.sampled_from(list(columns)))
    kind = draw(st.sampled_from(["rank", "peers", "rows", "value", "aggregate", "aggregate"]))
    if kind == "rank":
        return Call(draw(st.sampled_from(["row_number()", "rank()", "dense_rank()"])))
    if kind == "peers":
        return Call(draw(st.sampled_from([*PEERS, "ntile(3)"])))
    if kind == "rows":
        n = draw(st.integers(0, 3))
        options = [f"lag({name})", f"lead({name})", f"lag({name}, {n})", f"lead({name}, {n})"]
        options += [f"lag({name}, 1, {name})", f"lag({name} IGNORE NULLS)"]
        return Call(draw(st.sampled_from(options)))
    frames = ["", "", *FRAMES]
    if len(order) == 1 and columns.get(order[0].split()[0]) == "int":
        frames += DISTANCES
    frame = draw(st.sampled_from(frames))
    if kind == "value":
        options = [f"first_value({name})", f"last_value({name})", f"nth_value({name}, 2)"]
        options += [f"first_value({name} IGNORE NULLS)"]
        return Call(draw(st.sampled_from(options)), frame)
    options = ["count(*)", f"count({name})", f"min({name})", f"max({name})"]
    if columns[name] in ("int", "dbl", "dec"):
        options += [f"sum({name})", f"avg({name})"]
    if columns[name] == "int":
        options += [f"count({name}) FILTER (WHERE {name} > 1)", f"count(DISTINCT {name})"]
    function = draw(st.sampled_from(options))
    plain = "EXCLUDE" not in frame or "DISTINCT" not in function
    return Call(function, frame if plain else "")


def complete(order: tuple[str, ...], read: list[str]) -> tuple[str, ...]:
    """The order, then all columns that are read, in the order in which they are declared."""
    known = {key.split()[0] for key in order}
    return (*order, *(name for name in read if name not in known))


@st.composite
def windows(draw: st.DrawFn, sources: list[Source]) -> Ranking:
    """SELECT columns, window functions FROM one item [WHERE …] [QUALIFY …]."""
    found = draw(item(sources, [], "a"))
    columns = _exact(found)
    names = list(columns)
    shown = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    partition = draw(partitions(names))
    order = tuple(o for o in draw(orders(names)) if o.split()[0] not in partition)
    drawn = [draw(calls(columns, order)) for _ in range(draw(st.integers(1, 2)))]
    test = draw(st.sampled_from(["", "", "row_number()", "rank()", "dense_rank()"]))
    where = f" WHERE {draw(predicate(columns))}" if draw(st.integers(0, 2)) == 0 else ""
    text = " ".join([*shown, *partition, *order, *(c.function for c in drawn)])
    over = Over(partition, order, complete(order, [n for n in names if f"{n} " in f"{_spaced(text)} "]))
    texts = [c.texts(over) for c in drawn]
    limit = draw(st.sampled_from(["<= 2", "= 1", "< 3", "BETWEEN 2 AND 3", "> 1"]))
    both = []
    for i in (0, 1):
        chosen = [*shown, *(f"{t[i]} AS f{n}" for n, t in enumerate(texts))]
        qualify = f" QUALIFY {Call(test).texts(over)[i]} {limit}" if test else ""
        both.append(f"SELECT {', '.join(chosen)} FROM ⟨0⟩{where}{qualify}")
    return Ranking(both[0], (found,), _shown(shown, columns), asked=both[1])


def _exact(found: Item) -> Columns:
    """Columns by whose value something may be decided."""
    return {name: kind for name, kind in found.columns.items() if kind != "noise"}


def _shown(names: list[str], columns: Columns) -> Columns:
    return {name[2:]: columns[name] for name in names}


@st.composite
def partitions(draw: st.DrawFn, names: list[str]) -> tuple[str, ...]:
    """Nothing, or one column of few values."""
    able = [n for n in names if n[2:] in ("k", "s", "o0")]
    return tuple(draw(st.lists(st.sampled_from(able), max_size=1))) if able else ()


def _spaced(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._" else " " for c in text)


@st.composite
def first_rows(draw: st.DrawFn, sources: list[Source]) -> Ranking:
    """The first rows of each partition: a condition on the rank in an outer query."""
    found = draw(item([s for s in sources if s.stream], [], "a"))
    names = list(found.columns)
    order = draw(orders(names))
    partition = draw(partitions(names))
    order = tuple(o for o in order if o.split()[0] not in partition)
    shown = [n for n in names if n[2:] in ("k", "v", "s")]
    over = Over(partition, order, complete(order, [n for n in names if n in {*shown, *partition, *_plain(order)}]))
    function = draw(st.sampled_from(["row_number()", "rank()", "dense_rank()"]))
    limit = draw(st.sampled_from(["rn <= 2", "rn = 1", "rn < 4 AND v > 0", "2 <= rn AND rn <= 3", "k = 1 AND rn <= 2"]))
    outer = draw(st.sampled_from(["k, v, s", "k, v, s, rn", "k, rn"]))
    both = [
        f"SELECT {outer} FROM (SELECT {', '.join(shown)}, {t} AS rn FROM ⟨0⟩) q WHERE {limit}"
        for t in Call(function).texts(over)
    ]
    kinds = {"k": "int", "v": "int", "s": "str", "rn": "int"}
    return Ranking(both[0], (found,), {n: kinds[n] for n in outer.split(", ")}, asked=both[1])


def _plain(order: tuple[str, ...]) -> list[str]:
    return [key.split()[0] for key in order]


@st.composite
def limits(draw: st.DrawFn, sources: list[Source]) -> Ranking:
    """ORDER BY … LIMIT … OFFSET, and DISTINCT ON."""
    found = draw(item(sources, [], "a"))
    names = list(_exact(found))
    shown = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    order = draw(orders(names))
    on = draw(st.sampled_from(["", "", *(n for n in names if n in ("a.k", "a.s"))]))
    distinct = f"DISTINCT ON ({on}) " if on else draw(st.sampled_from(["", "", "DISTINCT "]))
    if distinct == "DISTINCT ":
        order = tuple(o for o in order if o.split()[0] in shown)
    limit = f" LIMIT {draw(st.integers(0, 4))}" if not on or draw(st.booleans()) else ""
    limit += f" OFFSET {draw(st.integers(0, 2))}" if limit and draw(st.booleans()) else ""
    head = f"SELECT {distinct}{', '.join(shown)} FROM ⟨0⟩"
    written = f" ORDER BY {', '.join(order)}" if order else ""
    total = complete(order, shown)
    asked = f"{head} ORDER BY {', '.join(total)}{limit}"
    return Ranking(head + written + limit, (found,), _shown(shown, found.columns), asked=asked)


@st.composite
def groups(draw: st.DrawFn, sources: list[Source]) -> Ranking:
    """Window functions over the groups of a grouping."""
    found = draw(item([s for s in sources if s.stream], [], "a"))
    down = draw(st.sampled_from(["", " DESC"]))
    function = draw(st.sampled_from(["rank()", "dense_rank()", "row_number()", "lag(count(*))", "sum(count(*))"]))
    over = Over((), (f"count(*){down}",), (f"count(*){down}", "a.k", "sum(a.v)"))
    limit = draw(st.sampled_from(["", " QUALIFY f <= 2", " ORDER BY n DESC, 1 LIMIT 2"]))
    plain, asked = (
        f"SELECT a.k, count(*) AS n, sum(a.v) AS total, {text} AS f FROM ⟨0⟩ GROUP BY a.k"
        for text in Call(function).texts(over)
    )
    whole = limit.replace(" LIMIT", ", 3, 4 LIMIT")
    return Ranking(plain + limit, (found,), {"k": "int", "n": "int", "total": "int"}, asked=asked + whole)


@st.composite
def views(draw: st.DrawFn, streams: list[Stream], known: list[View] | None = None, prefix: str = "r") -> list[View]:
    """One to three views with rankings over the streams and over known views."""
    sources = [stream_source(s) for s in streams if not s.static]
    above = [v.as_source() for v in known or [] if any(c != "noise" for c in v.query.columns.values())]
    kinds = st.one_of(windows(sources + above), first_rows(sources), limits(sources + above), groups(sources))
    outputs = st.sampled_from(["STREAMED", "STREAMED", "STREAMED", "COMPLETE", "RSTREAM"])
    return [View(f"{prefix}{i}", draw(outputs), draw(kinds)) for i in range(draw(st.integers(1, 3)))]
