"""Views, and queries of which many are contained in a view: derived from it by changing one thing or several."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

_WINDOWS = ("", "", " [WINDOW 4 SECONDS]", " [WINDOW 9 SECONDS]", " [RANGE 6 SECONDS SLIDE 2 SECONDS]")
_COLUMNS = ("k", "v", "x", "d", "s", "TS")
_JOINED = ("a.k AS ak", "b.k AS bk", "a.v AS av", "b.s AS bs", "b.v AS bv")
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
class Spec:
    """A query in parts."""

    source: str
    window: str = ""
    sync: int = 0
    conditions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    having: str = ""

    @property
    def text(self) -> str:
        """The query."""
        sync = f" SYNC EVERY {self.sync} SECONDS" if self.sync else ""
        where = " WHERE " + " AND ".join(self.conditions) if self.conditions else ""
        shown = [*self.columns, *(f"{k} AS g{i}" for i, k in enumerate(self.keys))]
        shown += [f"{c} AS c{i}" for i, c in enumerate(self.calls)]
        inputs = f"{self.source}{self.window}{sync}"
        if self.source == "both":
            inputs, where = (
                f"A [WINDOW 5 SECONDS]{sync} a, K{sync} b",
                f" WHERE a.k = b.k{where.replace(' WHERE', ' AND')}",
            )
        grouped = f" GROUP BY {', '.join(self.keys)}{self.having}" if self.keys else ""
        return f"SELECT {', '.join(shown)} FROM {inputs}{where}{grouped}"

    def _repr_pretty_(self, printer, cycle: bool) -> None:
        printer.text(self.text)


@st.composite
def conditions(draw, source: str, most: int, high: int):
    """Conditions that must all hold."""
    if source == "both":
        return tuple(draw(st.lists(st.sampled_from(("a.v > 0", "b.v < 4", "b.s = 'b'", "a.v > 1")), max_size=most)))
    found = draw(st.lists(st.sampled_from(_CONDITIONS), max_size=most))
    return tuple(c.format(draw(st.integers(-1, high))) for c in found)


@st.composite
def views(draw):
    """A view that shows much, with few conditions."""
    source = draw(st.sampled_from(("A", "K", "both")))
    spec = Spec(
        source,
        "" if source == "both" else draw(st.sampled_from(_WINDOWS)),
        draw(st.sampled_from((0, 0, 2, 3))),
        draw(conditions(source, 1, 1)),
    )
    if draw(st.booleans()):
        return replace(spec, columns=_JOINED if source == "both" else _COLUMNS)
    if source == "both":
        return replace(spec, keys=("b.s", "a.k"), calls=("count(*)", "sum(a.v)", "max(b.v)"))
    keys = draw(st.permutations(_KEYS))[: draw(st.integers(1, 3))]
    if not spec.window and draw(st.booleans()):
        return replace(spec, sync=0, keys=(*keys[:2], "TS/2"), calls=_CALLS)
    return replace(spec, keys=tuple(keys), calls=_CALLS)


@st.composite
def queries(draw, view: Spec):
    """A query that is the view with some things changed; not every change leaves it contained."""
    spec = view
    if draw(st.booleans()):
        spec = replace(spec, conditions=(*spec.conditions, *draw(conditions(spec.source, 2, 4))))
    if draw(st.integers(0, 5)) == 0:
        spec = replace(spec, conditions=spec.conditions[1:])
    if spec.keys and "TS/2" not in spec.keys and draw(st.integers(0, 4)) == 0:
        shown = _JOINED if spec.source == "both" else _COLUMNS
        return replace(spec, keys=(), calls=(), columns=draw(st.permutations(shown))[:2])
    if not spec.keys and draw(st.integers(0, 3)) == 0:
        both = spec.source == "both"
        calls = ("count(*)",) if both else ("count(*)", "sum(v)")
        spec = replace(spec, columns=(), keys=("b.s",) if both else ("k",), calls=calls)
    if "TS/2" not in spec.keys and draw(st.booleans()):
        spec = replace(spec, sync=draw(st.sampled_from((spec.sync * 2, 6, 0, 5))))
    if spec.window == " [WINDOW 9 SECONDS]" and draw(st.booleans()):
        spec = replace(spec, window=" [WINDOW 4 SECONDS]")
    if spec.columns:
        return replace(spec, columns=tuple(draw(st.permutations(spec.columns))[: draw(st.integers(1, 3))]))
    drawn_keys = draw(st.permutations(spec.keys))[: draw(st.integers(1, len(spec.keys)))]
    keys = [draw(st.sampled_from(("TS/2", "TS/4", "TS/6"))) if key == "TS/2" else key for key in drawn_keys]
    having = draw(st.sampled_from(("", "", " HAVING count(*) > 1")))
    calls = tuple(draw(st.permutations(spec.calls))[: draw(st.integers(1, 3))])
    return replace(spec, keys=tuple(keys), calls=calls, having=having)


@st.composite
def families(draw):
    """Some views, and some queries derived from them."""
    made = draw(st.lists(views(), min_size=1, max_size=3))
    return made, [draw(queries(draw(st.sampled_from(made)))) for _ in range(draw(st.integers(2, 5)))]
