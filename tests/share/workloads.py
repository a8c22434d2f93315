"""Random workloads of shared aggregation: one stream with every kind of column, and window aggregates over it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.properties.queries import predicate
from tests.properties.query_text import Query, View
from tests.properties.streams import Stream, counts, maybe, words
from tidemill.plan.sources import Column

COLUMNS = (
    Column("k", "INTEGER"),
    Column("b", "BIGINT"),
    Column("x", "DOUBLE"),
    Column("d", "DECIMAL(8,2)"),
    Column("s", "VARCHAR"),
    Column("f", "BOOLEAN"),
    Column("day", "DATE"),
    Column("tm", "INTEGER"),
)
KINDS = {"a.k": "int", "a.x": "dbl", "a.d": "dec", "a.s": "str"}  # as `predicate` understands them
KEYS = ("a.k", "a.k", "a.s", "a.s", "a.x", "a.d", "a.day", "a.f", "a.b")
COMPUTED_KEYS = (
    "a.k + 1",
    "a.k % 2",
    "upper(a.s)",
    "a.x > 1",
    "coalesce(a.day, DATE '1999-12-31')",
    "a.d * 2",
    "CAST(a.k AS HUGEINT)",
    "CASE WHEN a.f THEN a.s END",
    "a.day + 1",
    "CAST(a.k AS UBIGINT)",
)
FAILING_KEYS = ("CAST(a.b AS INTEGER)", "CAST(a.s AS INTEGER)")
FAILING_TESTS = ("CAST(a.b AS INTEGER) >= 0", "CAST(a.s AS INTEGER) > 0", "a.b + a.b > 0")
FAILING_CALLS = ("SUM(a.b + a.b)", "MAX(CAST(a.s AS INTEGER))", "COUNT(CAST(a.b AS INTEGER))")
FAILING_HAVING = ("CAST(SUM(a.b) AS INTEGER) > 0",)
CALLS = (
    "COUNT(*)",
    "COUNT(*)",
    "COUNT(a.s)",
    "COUNT(a.x)",
    "SUM(a.k)",
    "SUM(a.b)",
    "SUM(a.x)",
    "SUM(a.d)",
    "SUM(a.f)",
    "AVG(a.k)",
    "AVG(a.b)",
    "AVG(a.x)",
    "AVG(a.d)",
    "MIN(a.k)",
    "MAX(a.k)",
    "MIN(a.b)",
    "MAX(a.b)",
    "MIN(a.x)",
    "MAX(a.x)",
    "MIN(a.d)",
    "MAX(a.d)",
    "MIN(a.day)",
    "MAX(a.day)",
    "MAX(a.f)",
    "VARIANCE(a.k)",
    "STDDEV_POP(a.d)",
    "SUM(a.k * 2 + 1)",
    "SUM(a.k) FILTER (WHERE a.s = 'a')",
    "MAX(a.x) FILTER (WHERE a.k > 0)",
    "MIN(a.s)",
)
DISTINCT_CALLS = ("COUNT(DISTINCT a.k)", "COUNT(DISTINCT a.s)", "COUNT(DISTINCT a.x)", "COUNT(DISTINCT a.day)")
APPROXIMATE_CALLS = ("APPROX_COUNT_DISTINCT(a.b)", "APPROX_COUNT_DISTINCT(a.s)")
TESTS = (
    "a.b > 0",
    "a.b < 4611686018427387904",
    "a.f",
    "NOT a.f",
    "a.day > DATE '2000-01-02'",
    "a.k >= 2",
    "a.k IN (0, 3)",
    "NOT a.k = 1",
    "(a.k < 2 OR a.b > 5)",
    "a.TS % 2 = 0",
)
MODERATE = (-3, 0, 1, 2, 2**31, -(2**31) - 1, 2**40)
GREAT = (2**62, 2**62 - 1, -(2**62), 2**63 - 1, -(2**63))
lengths = st.integers(1, 7)


@dataclass(frozen=True)
class Taste:
    """What may occur: expressions that fail on some rows; gaps of hundreds of points."""

    failing: bool = False
    gaps: bool = False
    approximate: bool = True


# ---- rows ----------------------------------------------------------------------------------------

doubles = st.one_of(
    st.integers(-20, 40).map(lambda n: n / 4),
    st.sampled_from([0.0, -0.0, 2.0**62, -(2.0**62), 2.0**100, -0.125]),
    st.sampled_from([math.inf, -math.inf, math.nan]),
)


@st.composite
def moments(draw: st.DrawFn, count: int, lateness: int, gaps: bool) -> list[int]:
    """Event times in arrival order, from before time 0 on, out of order within the lateness."""
    top = draw(st.sampled_from([0, 0, -3, -17]))
    steps = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 5, *([30, 700] if gaps else [9])])
    found = []
    for _ in range(count):
        top += draw(steps)
        found.append(top - draw(st.integers(0, lateness)))
        top = max(top, found[-1])
    return found


@st.composite
def shared_streams(draw: st.DrawFn, taste: Taste, most: int = 24) -> Stream:
    """Rows of every kind, cut into files and batches."""
    lateness = draw(st.sampled_from([0, 0, 2, 4]))
    times = draw(moments(draw(counts(most)), lateness, taste.gaps))
    whole = st.sampled_from([*MODERATE, *GREAT])
    texts = st.one_of(words, st.sampled_from(["1", "-7"]))
    days = st.integers(0, 3).map(lambda n: date(2000, 1, 1) + timedelta(days=n))
    record = {
        "k": st.integers(0, 3),
        "b": whole,
        "x": doubles,
        "d": st.integers(-300, 900).map(lambda n: Decimal(n) / 100),
        "s": texts,
        "f": st.booleans(),
        "day": days,
    }
    full = draw(st.sets(st.sampled_from(sorted(record))))  # columns without NULLs take other paths
    values = st.tuples(*(v if n in full else maybe(v) for n, v in record.items()))
    rows = tuple(dict(zip(record, draw(values), strict=True)) | {"tm": t} for t in times)
    sizes, batch = draw(few_cuts(len(rows)))
    return Stream("A", COLUMNS, rows, (), lateness, draw(st.sampled_from(["parquet", "parquet", "csv"])), sizes, batch)


@st.composite
def few_cuts(draw: st.DrawFn, rows: int) -> tuple[tuple[int, ...], int | None]:
    """(sizes of the files, rows of a batch): few batches, for every batch costs as much as many rows."""
    sizes = draw(st.lists(st.integers(1, max(1, rows)), max_size=2))
    return tuple(sizes), draw(st.sampled_from([None, 4, 7, 12]))


# ---- queries -------------------------------------------------------------------------------------


@st.composite
def window_spelling(draw: st.DrawFn) -> tuple[str, list[str], str | None]:
    """(FROM item, conditions with NOW, key of an epoch)."""
    size, slide, back = draw(st.integers(1, 12)), draw(lengths), draw(st.integers(0, 3))
    how = draw(st.sampled_from(["slide", "slide", "slide", "tumble", "window", "now", "now", "epoch", "landmark"]))
    if how == "slide":
        return f"A [RANGE {size} SLIDE {slide}] AS a", [], None
    if how == "tumble":
        return f"A [RANGE {size}] AS a", [], None
    if how == "window":
        return f"A [WINDOW {size}] SYNC EVERY {slide} AS a", [], None
    if how == "epoch":
        time = draw(st.sampled_from(["a.TS", "a.tm", f"(a.TS - {back})", f"(a.TS + {back})"]))
        return "A AS a", [], f"{time}/{slide}"
    source = f"A SYNC EVERY {slide} AS a"
    after = [draw(st.sampled_from([f"a.TS <= NOW - {back}", f"NOW - {back} > a.TS"]))] if draw(st.booleans()) else []
    if how == "landmark":
        return source, after, None
    until = draw(st.sampled_from([f"NOW - {size + back} < a.TS", f"a.TS >= NOW - {size + back}"]))
    return source, [until, *after], None


@st.composite
def calls(draw: st.DrawFn, taste: Taste) -> list[str]:
    """Aggregates that can stand together."""
    kind = draw(st.sampled_from(["plain"] * 6 + ["distinct", "approximate", "failing"]))
    if kind == "distinct":
        return [draw(st.sampled_from(DISTINCT_CALLS)), *draw(st.sampled_from([[], ["COUNT(*)"], ["SUM(a.k)"]]))]
    if kind == "approximate" and taste.approximate:
        return [draw(st.sampled_from(APPROXIMATE_CALLS)), *draw(st.sampled_from([[], ["COUNT(*)"], ["AVG(a.k)"]]))]
    found = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True))
    return [*found, draw(st.sampled_from(FAILING_CALLS))] if kind == "failing" and taste.failing else found


@st.composite
def window_query(draw: st.DrawFn, taste: Taste) -> str:
    """GROUP BY over a window of A in any spelling."""
    source, conditions, epoch = draw(window_spelling())
    failing = taste.failing and draw(st.integers(0, 2)) == 0
    if draw(st.booleans()):
        tests = st.one_of(st.sampled_from(TESTS), predicate(KINDS))
        conditions = [*conditions, draw(st.sampled_from(FAILING_TESTS) if failing and draw(st.booleans()) else tests)]
    options = [*KEYS, *COMPUTED_KEYS, *(FAILING_KEYS if failing else ())]
    keys = draw(st.lists(st.sampled_from(options), min_size=0 if epoch else 1, max_size=3, unique=True))
    keys = [*([epoch] if epoch else []), *keys]
    chosen = [f"{sql} AS o{i}" for i, sql in enumerate(keys)]
    chosen += [f"{sql} AS c{i}" for i, sql in enumerate(draw(calls(taste)))]
    distinct = any("DISTINCT" in c for c in chosen)
    having = draw(st.sampled_from(["", "", "", "COUNT(*) > 1", "COUNT(*) % 2 = 1"]))
    if failing and not distinct and draw(st.booleans()):
        having = draw(st.sampled_from(FAILING_HAVING))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text = f"SELECT {', '.join(chosen)} FROM {source}{where} GROUP BY {', '.join(keys)}"
    return f"{text} HAVING {having}" if having else text


def view(name: str, output: str, text: str) -> View:
    """A view whose text is known as a whole."""
    return View(name, output, Query(text, (), {}, plain=False))


def bounded(text: str) -> bool:
    """True when groups leave the answer again: only then can RSTREAM cross a long gap."""
    return "[RANGE" in text or "[WINDOW" in text or " < a.TS" in text or "a.TS >= NOW" in text


OUTPUTS = ("STREAMED", "STREAMED", "STREAMED", "COMPLETE", "RSTREAM")
ON_TOP = (
    "SELECT q.o0, q.c0 FROM {0} AS q WHERE q.c0 IS NOT NULL",
    "SELECT q.o0, COUNT(*) AS n FROM {0} AS q GROUP BY q.o0",
    "SELECT p.o0, q.c0 FROM {0} AS p JOIN {0} AS q ON p.o0 = q.o0",
    "SELECT q.o0 FROM {0} AS q EXCEPT SELECT q.o0 FROM {0} AS q WHERE q.c0 IS NULL",
)
NEIGHBOURS = (
    "SELECT a.k, COUNT(*) AS n FROM A AS a GROUP BY a.k",
    "SELECT COUNT(*) AS n FROM A [RANGE 3 SLIDE 2] AS a",
    "SELECT a.k, a.s FROM A [WINDOW 3] AS a",
)


@st.composite
def shared_views(draw: st.DrawFn, taste: Taste, most: int = 8, prefix: str = "v") -> list[View]:
    """Window aggregates, now and then something above one of them or beside them."""
    found: list[View] = []
    for i in range(draw(st.integers(1, most))):
        text = draw(window_query(taste))
        outputs = OUTPUTS if bounded(text) or not taste.gaps else OUTPUTS[:-1]
        found.append(view(f"{prefix}{i}", draw(st.sampled_from(outputs)), text))
    if draw(st.integers(0, 3)) == 0:
        below = draw(st.sampled_from([v for v in found if v.output != "RSTREAM"] or [None]))
        if below is not None:
            text = draw(st.sampled_from(ON_TOP)).format(below.name)
            found.append(view(f"{prefix}top", "STREAMED", text))
    if draw(st.integers(0, 3)) == 0:
        found.append(view(f"{prefix}beside", "STREAMED", draw(st.sampled_from(NEIGHBOURS))))
    return found


@st.composite  # type: ignore[arg-type]
def shared_workloads(draw: st.DrawFn, taste: Taste, **options: Any) -> tuple[Stream, list[View]]:
    """A stream and views over it."""
    return draw(shared_streams(taste)), draw(shared_views(taste, **options))


# ---- settings ------------------------------------------------------------------------------------

WAYS = ("gtweave", "weave_share", "shared", "unshared")
memories = st.one_of(st.just(1), st.integers(1, 60), st.integers(1, 5000), st.just(1 << 20))


@st.composite
def settings_text(draw: st.DrawFn) -> str:
    """SET statements that change the configuration and no answer."""
    phantoms = draw(st.sampled_from(["on", "off"]))
    return (
        f"SET lfta_memory = {draw(memories)}; SET phantoms = '{phantoms}'; SET weaving = {draw(st.sampled_from(WAYS))}"
    )
