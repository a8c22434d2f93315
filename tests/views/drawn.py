"""Views and queries over the same inputs, such that the views contain many of the queries."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

STREAMS = ("A", "K")
_WINDOWS = ("", "", " [WINDOW 4 SECONDS]", " [WINDOW 9 SECONDS]", " [RANGE 6 SECONDS SLIDE 2 SECONDS]")
_SYNCS = ("", "", " SYNC EVERY 2 SECONDS", " SYNC EVERY 4 SECONDS", " SYNC EVERY 3 SECONDS")
_COLUMNS = ("k", "v", "x", "d", "s", "TS")
_KEYS = ("k", "s", "v % 3")
_CALLS = ("count(*)", "count(v)", "sum(v)", "min(x)", "max(v)", "avg(v)", "sum(d)", "count(DISTINCT s)", "max(s)")
_CONDITIONS = (
    "v > {}",
    "v >= {}",
    "v < {}",
    "v <> {}",
    "v IN ({}, 5)",
    "x > {}.5",
    "d <= {}",
    "s > 'a'",
    "s = 'b'",
    "v IS NOT NULL",
    "(v > {} OR s = 'b')",
    "v BETWEEN {} AND 8",
    "NOT (v < {})",
    "v * 2 > {}",
    "TS > {}",
)


@dataclass(frozen=True)
class Drawn:
    """The text of a query and what it was drawn from."""

    text: str

    def _repr_pretty_(self, printer, cycle: bool) -> None:
        printer.text(self.text)


@st.composite
def conditions(draw, view: bool):
    """Conditions that must all hold; those of views are weaker, so that they are often implied."""
    found = draw(st.lists(st.sampled_from(_CONDITIONS), max_size=1 if view else 2))
    if view and draw(st.booleans()):
        found = []
    more = draw(st.sampled_from(((), (), ("v > 0",)) if view else ((), ("v > 0",), ("v > 2",))))
    return [*(c.format(draw(st.integers(-1, 2 if view else 4))) for c in found), *more]


@st.composite
def row_queries(draw, shared, view):
    source, window = shared
    narrow = draw(st.sampled_from((window, window, "", " [WINDOW 4 SECONDS]")))
    shown = _COLUMNS if view else draw(st.lists(st.sampled_from(_COLUMNS), min_size=1, max_size=4, unique=True))
    where = _where(draw(conditions(view)))
    return Drawn(f"SELECT {', '.join(shown)} FROM {source}{narrow}{draw(st.sampled_from(_SYNCS))}{where}")


@st.composite
def group_queries(draw, shared, view):
    source, window = shared
    keys = draw(st.lists(st.sampled_from(_KEYS), min_size=1 + view, max_size=3 if view else 2, unique=True))
    if not window and draw(st.booleans()):
        keys = [*keys[:2], "TS/2" if view else draw(st.sampled_from(("TS/2", "TS/4", "TS/6")))]
    calls = draw(st.lists(st.sampled_from(_CALLS), min_size=6 if view else 1, max_size=9 if view else 3, unique=True))
    items = [f"{key} AS g{i}" for i, key in enumerate(keys)] + [f"{call} AS c{i}" for i, call in enumerate(calls)]
    where = _where(draw(st.sampled_from(([], ["v > 0"]) if view else ([], ["v > 0"], ["k = 1"], ["v > 0", "s = 'b'"]))))
    having = "" if view else draw(st.sampled_from(("", "", " HAVING count(*) > 1")))
    sync = "" if any("/" in key for key in keys) else draw(st.sampled_from(_SYNCS))
    return Drawn(f"SELECT {', '.join(items)} FROM {source}{window}{sync}{where} GROUP BY {', '.join(keys)}{having}")


@st.composite
def join_queries(draw, view):
    sync = draw(st.sampled_from(_SYNCS))
    columns = ("a.k", "b.k AS bk", "a.v", "b.s", "b.v AS bv")
    shown = columns if view else draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
    stronger = (" AND a.v > 1 AND b.v < 4", " AND b.s = 'b'")
    where = draw(st.sampled_from(("", " AND a.v > 0", *(() if view else stronger))))
    first, second = (("A [WINDOW 5 SECONDS]", "a"), ("K", "b"))[:: draw(st.sampled_from((1, -1)))]
    sides = f"{first[0]}{sync} {first[1]}, {second[0]}{sync} {second[1]}"
    if draw(st.booleans()):
        return Drawn(f"SELECT {', '.join(shown)} FROM {sides} WHERE a.k = b.k{where}")
    return Drawn(f"SELECT b.s, count(*) AS n, sum(a.v) AS t FROM {sides} WHERE a.k = b.k{where} GROUP BY b.s")


def _where(conditions: list[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


@st.composite
def families(draw):
    """Some views and some queries of one family: the same inputs, different conditions, columns, groups and points."""
    shared = draw(st.sampled_from(STREAMS)), draw(st.sampled_from(_WINDOWS))

    def drawn(view: bool):
        return st.one_of(row_queries(shared, view), group_queries(shared, view), join_queries(view))

    return draw(st.lists(drawn(True), min_size=1, max_size=3)), draw(st.lists(drawn(False), min_size=1, max_size=4))
