"""Band joins by chance: two or three streams whose time stamps must be near each other, held back in all ways."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.properties.queries import point_views
from tests.properties.query_text import Query, View
from tests.properties.streams import PLAIN, Stream, cuts, formats, times

offsets = st.integers(-4, 5)


@st.composite
def dense(draw, name: str, most: int = 24) -> Stream:
    """Rows with few keys and no NULLs, so that many pairs are in the band."""
    lateness = draw(st.sampled_from([0, 0, 2]))
    moments = draw(times(draw(st.integers(most // 2, most)), lateness, late=False))
    rows = tuple(
        {"k": draw(st.integers(0, 1)), "v": i, "x": 0.5, "d": None, "s": "a", "tm": t} for i, t in enumerate(moments)
    )
    sizes, batch = draw(cuts(len(rows)))
    return Stream(name, PLAIN, rows, (), lateness, draw(formats), sizes, batch or 5)


@st.composite
def band(draw, a: str, b: str) -> str:
    """low <= b.TS - a.TS <= high in one of its spellings; strict bounds, both directions, negative offsets."""
    low = draw(offsets)
    high = low + draw(st.integers(0, 6))
    lower = draw(
        st.sampled_from(
            [
                f"{b}.TS >= {a}.TS + ({low})",
                f"{b}.TS > {a}.TS + ({low})",
                f"{a}.TS + ({low}) <= {b}.TS",
                f"{a}.TS <= {b}.TS - ({low})",
                f"{b}.TS - ({low}) > {a}.TS",
                f"{b}.TS + 2 >= {a}.TS + ({low}) + 2",
            ]
        )
    )
    upper = draw(
        st.sampled_from(
            [
                f"{b}.TS <= {a}.TS + ({high})",
                f"{b}.TS < {a}.TS + ({high})",
                f"{a}.TS + ({high}) >= {b}.TS",
                f"{a}.TS >= {b}.TS - ({high})",
                f"{b}.TS - ({high}) < {a}.TS",
            ]
        )
    )
    return draw(
        st.sampled_from(
            [
                f"{lower} AND {upper}",
                f"{upper} AND {lower}",
                f"{b}.TS BETWEEN {a}.TS + ({low}) AND {a}.TS + ({high})",
                f"{a}.TS BETWEEN {b}.TS - ({high}) AND {b}.TS - ({low})",
            ]
        )
    )


def held(points: list[str]) -> st.SearchStrategy[str]:
    """How an input, or an answer, is held back."""
    ways = ["", "", "SYNC EVERY 3", "SYNC EVERY 4", "SYNC EVERY 7", "SYNC EVERY 2 ROWS", "SYNC EVERY 5 ROWS"]
    return st.sampled_from([*ways, *(f"SYNC ON {name}" for name in points)])


@st.composite
def inner(draw, names: list[str], points: list[str], above: str) -> str:
    """FROM and WHERE of two or three inputs; `above` is a synchronizer over the whole join. Two of them may be an outer
    join.
    """
    aliases = "abc"[: len(names)]
    outer = draw(st.sampled_from(["", "", "LEFT", "RIGHT", "FULL"])) if len(names) == 2 else ""
    items, tests = [], []
    for name, alias in zip(names, aliases, strict=True):
        items.append(f"{name} {draw(held(points))} AS {alias}")
        if not outer and draw(st.integers(0, 5)) == 0:
            tests.append(f"{alias}.TS <= NOW - {draw(st.integers(1, 4))}")
    for i in range(1, len(aliases)):
        tests.append(f"a.k = {aliases[i]}.k")
        tests.append(draw(band(aliases[draw(st.integers(0, i - 1))], aliases[i])))
    columns = ", ".join(f"{x}.v AS {x}v" for x in aliases)
    text = f"SELECT a.k AS k, {columns} FROM {', '.join(items)} WHERE {' AND '.join(tests)}"
    if outer:
        text = f"SELECT a.k AS k, {columns} FROM {items[0]} {outer} JOIN {items[1]} ON {' AND '.join(tests)}"
    if not above:
        return text
    return f"SELECT q.k AS k, {', '.join(f'q.{x}v AS {x}v' for x in aliases)} FROM ({text}) {above} AS q"


@st.composite
def band_workloads(draw):
    """Streams, and one or two band joins over them, perhaps counted by a view."""
    streams = [draw(dense(name)) for name in ("A", "B", "C")[: draw(st.sampled_from([2, 2, 2, 3]))]]
    clocks = draw(point_views(streams))
    points = [v.name for v in clocks]
    names = [s.name for s in streams]
    views = []
    for i in range(draw(st.sampled_from([1, 1, 2]))):
        text = draw(inner(draw(st.permutations(names)), points, draw(st.one_of(st.just(""), held(points)))))
        views.append(View(f"j{i}", "STREAMED", Query(text, (), {}, plain=False)))
    if draw(st.integers(0, 2)) == 0:
        text = f"SELECT j.k AS k, COUNT(*) AS n FROM j0 {draw(held(points))} AS j GROUP BY j.k"
        views.append(View("n", "STREAMED", Query(text, (), {}, plain=False)))
    return streams, [*clocks, *views]
