"""Random queries over session windows, as users write them and as plain SQL over the rows of a moment."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.properties.queries import predicate
from tests.properties.query_text import Item, Query, Source, View, stream_source
from tests.properties.streams import Stream

COUNTS = ("count(*)", "sum(a.v)", "min(a.v)", "max(a.s)", "count(DISTINCT a.v)", "avg(a.v)")


@dataclass(frozen=True)
class SessionItem(Item):
    """A source with [SESSION gap PARTITION BY …]; `implied`: the partition is that of GROUP BY."""

    gap: int = 1
    partition: tuple[str, ...] = ()
    implied: bool = False

    @property
    def text(self) -> str:
        by = f" PARTITION BY {', '.join(self.partition)}" if self.partition and not self.implied else ""
        window = f"[SESSION {self.gap}{by}]"
        return " ".join(x for x in (self.source.name, window, self.sync, f"AS {self.alias}") if x)

    def direct(self, now: int) -> str | None:
        moment = self.moment(now)
        inner = self.source.at(moment) if self.source.stream is not None else None
        if inner is None:
            return None
        by = "".join(f"{p}, " for p in self.partition)
        over = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        begins = f'"TS" - lag("TS") OVER ({over}ORDER BY "TS") < {self.gap}'
        flagged = f"SELECT *, CASE WHEN {begins} THEN 0 ELSE 1 END AS __new FROM {inner}"
        numbered = f'SELECT *, sum(__new) OVER ({over}ORDER BY "TS") AS __s FROM ({flagged})'
        one = f"PARTITION BY {by}__s"
        bounds = f'min("TS") OVER ({one}) AS window_start, max("TS") OVER ({one}) + {self.gap} AS window_end'
        return f"(SELECT * FROM (SELECT *, {bounds} FROM ({numbered})) WHERE window_end <= {moment}) AS {self.alias}"


@st.composite
def session_items(draw: st.DrawFn, sources: list[Source], partition: tuple[str, ...] | None = None) -> SessionItem:
    """One item of FROM with a session window."""
    source = draw(st.sampled_from(sources))
    able = [n for n, kind in source.columns.items() if kind != "noise" and n != "tm"]
    if partition is None:
        partition = tuple(draw(st.lists(st.sampled_from(able), max_size=2, unique=True))) if able else ()
    every = draw(st.sampled_from([None, None, None, 2, 3]))
    sync = f"SYNC EVERY {every}" if every else ""
    return SessionItem(source, "a", sync=sync, every=every, gap=draw(st.integers(1, 5)), partition=partition)


@st.composite
def session_rows(draw: st.DrawFn, sources: list[Source]) -> Query:
    """SELECT columns and bounds FROM a session window [WHERE …]."""
    found = draw(session_items(sources))
    columns = {n: c for n, c in found.columns.items() if c != "noise"} | {"a.window_end": "int"}
    where = f" WHERE {draw(predicate(columns))}" if draw(st.booleans()) else ""
    names = draw(st.lists(st.sampled_from(list(columns)), min_size=1, max_size=3, unique=True))
    shown = list(dict.fromkeys([*names, "a.window_start"]))
    kinds = {n[2:]: columns.get(n, "int") for n in shown}
    return Query(f"SELECT {', '.join(shown)} FROM ⟨0⟩{where}", (found,), kinds)


@st.composite
def session_groups(draw: st.DrawFn, sources: list[Source]) -> Query:
    """An aggregate for each session of each key; the partition is implied, equal to the keys, coarser or finer."""
    keys = tuple(draw(st.lists(st.sampled_from(["k", "s"]), max_size=2, unique=True)))
    implied = draw(st.booleans())
    partition = keys if implied else tuple(draw(st.lists(st.sampled_from(["k", "s"]), max_size=2, unique=True)))
    found = draw(session_items([s for s in sources if s.stream], partition or keys))
    found = SessionItem(**{**vars(found), "implied": implied})
    calls = draw(st.lists(st.sampled_from(COUNTS), min_size=1, max_size=2, unique=True))
    shown = [*(f"a.{k}" for k in keys), *draw(st.sampled_from([[], ["a.window_start"], ["a.window_end"]]))]
    by = ", ".join([*(f"a.{k}" for k in keys), "a.window_start", "a.window_end"])
    where = f" WHERE {draw(predicate({'a.v': 'int', 'a.window_start': 'int'}))}" if draw(st.booleans()) else ""
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1"]))
    kinds = {n[2:]: "str" if n == "a.s" else "int" for n in shown} | {f"c{i}": "noise" for i in range(len(calls))}
    head = f"SELECT {', '.join([*shown, *(f'{c} AS c{i}' for i, c in enumerate(calls))])} FROM ⟨0⟩{where}"
    return Query(f"{head} GROUP BY {by}{having}", (found,), kinds)


@st.composite
def session_views(
    draw: st.DrawFn, streams: list[Stream], known: list[View] | None = None, prefix: str = "r"
) -> list[View]:
    """One to three views of sessions over the streams and over known views."""
    sources = [stream_source(s) for s in streams if not s.static]
    above = [v.as_source() for v in known or [] if any(c != "noise" for c in v.query.columns.values())]
    kinds = st.one_of(session_rows(sources + above), session_groups(sources))
    outputs = st.sampled_from(["STREAMED", "STREAMED", "STREAMED", "COMPLETE"])
    return [View(f"{prefix}{i}", draw(outputs), draw(kinds)) for i in range(draw(st.integers(1, 3)))]


# ---- table functions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowedItem(Item):
    """TUMBLE, HOP or CUMULATE over a stream."""

    function: str = "TUMBLE"
    step: int = 1
    length: int = 1

    @property
    def text(self) -> str:
        lengths = [self.length] if self.function == "TUMBLE" else [self.step, self.length]
        arguments = ", ".join([f"TABLE {self.source.name}", "DESCRIPTOR(tm)", *map(str, lengths)])
        call = f"{self.function}({arguments})"
        return " ".join(x for x in (call, self.sync, f"AS {self.alias}") if x)

    def direct(self, now: int) -> str | None:
        moment = self.moment(now)
        inner = self.source.at(moment)
        if inner is None:
            return None
        apart = self.length if self.function == "CUMULATE" else self.step
        starts = f"SELECT unnest(range(-40, 60)) * {apart} AS window_start"
        ends = f"SELECT {self.length} AS __long"
        if self.function == "CUMULATE":
            ends = f"SELECT unnest(range({self.step}, {self.length + 1}, {self.step})) AS __long"
        windows = f"SELECT window_start, window_start + __long AS window_end FROM ({starts}), ({ends})"
        inside = f'window_start <= "TS" AND "TS" < window_end AND window_end <= {moment}'
        return f"(SELECT * FROM {inner}, ({windows}) WHERE {inside}) AS {self.alias}"


@st.composite
def windowed_queries(draw: st.DrawFn, sources: list[Source]) -> Query:
    """Rows with their windows, or an aggregate for each window and key."""
    function = draw(st.sampled_from(["TUMBLE", "HOP", "HOP", "CUMULATE"]))
    step = draw(st.integers(1, 4))
    length = step if function == "TUMBLE" else step * draw(st.integers(1, 3))
    every = draw(st.sampled_from([None, None, None, step]))
    sync = f"SYNC EVERY {every}" if every else ""
    source = draw(st.sampled_from(sources))
    found = WindowedItem(source, "a", sync=sync, every=every, function=function, step=step, length=length)
    test = st.sampled_from([{"a.v": "int"}, {"a.v": "int", "a.window_start": "int"}])
    where = f" WHERE {draw(predicate(draw(test)))}" if draw(st.booleans()) else ""
    if draw(st.integers(0, 3)) == 0:
        kinds = {"k": "int", "v": "int", "window_start": "int", "window_end": "int"}
        return Query(f"SELECT a.k, a.v, a.window_start, a.window_end FROM ⟨0⟩{where}", (found,), kinds)
    keys = [f"a.{k}" for k in draw(st.lists(st.sampled_from(["k", "s"]), max_size=2, unique=True))]
    bounds = draw(st.sampled_from([["a.window_start", "a.window_end"], ["a.window_end"]]))
    calls = draw(st.lists(st.sampled_from(COUNTS), min_size=1, max_size=2, unique=True))
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1"]))
    shown = [*keys, *bounds]
    head = f"SELECT {', '.join([*shown, *(f'{c} AS c{i}' for i, c in enumerate(calls))])} FROM ⟨0⟩{where}"
    kinds = {n[2:]: "str" if n == "a.s" else "int" for n in shown} | {f"c{i}": "noise" for i in range(len(calls))}
    return Query(f"{head} GROUP BY {', '.join(shown)}{having}", (found,), kinds)


# ---- joins with the past ---------------------------------------------------------------------------


@dataclass(frozen=True)
class PastQuery(Query):
    """A join with the past; `asked` is its text for DuckDB, with the rows of the streams up to a moment."""

    asked: str = ""

    def direct(self, now: int) -> str | None:
        return self.asked.replace("⟨now⟩", str(now * 1_000_000))


@st.composite
def asof_queries(draw: st.DrawFn) -> PastQuery:
    """ASOF JOIN of A and B. Of rows of B with one time any may be meant, so that only their time is shown."""
    kind, test = draw(st.sampled_from(["", "LEFT "])), draw(st.sampled_from([">=", ">"]))
    keys = draw(st.sampled_from([["k"], ["k"], [], ["k", "s"]]))
    equal = "".join(f"a.{k} = b.{k} AND " for k in keys)
    where = draw(st.sampled_from(["", " WHERE a.v > 0", " WHERE b.tm > 3"]))
    user = f"SELECT a.k, a.v, a.tm, b.tm AS was FROM A AS a ASOF {kind}JOIN B AS b ON {equal}a.tm {test} b.TS{where}"
    rows = '(SELECT * FROM "rows {}" WHERE __ts <= ⟨now⟩) AS {}'
    asked = (
        f"SELECT a.k, a.v, a.tm, b.tm AS was FROM {rows.format('A', 'a')} ASOF {kind}JOIN {rows.format('B', 'b')}"
        f" ON {equal}a.__ts {test} b.__ts{where}"
    )
    return PastQuery(user, (), {"k": "int", "v": "int", "tm": "int", "was": "int"}, asked=asked)


@st.composite
def version_queries(draw: st.DrawFn, key: tuple[str, ...]) -> PastQuery:
    """Rows of A with the records of the keyed stream K that were there at their time, one for each key of K."""
    kind = draw(st.sampled_from(["", "LEFT "]))
    extra = draw(st.sampled_from(["", "", " AND a.v < b.v"]))
    user = (
        f"SELECT a.k, a.v, b.v AS w, b.tm AS was FROM A AS a {kind}JOIN K FOR SYSTEM_TIME AS OF a.TS AS b"
        f" ON a.k = b.k{extra}"
    )
    left = '(SELECT * FROM "rows A" WHERE __ts <= ⟨now⟩) AS a'
    record = ", ".join(["a.__seq", *(f"b.{k}" for k in key)])
    records = (
        f'SELECT a.__seq AS __of, b.* FROM {left} JOIN "rows K" AS b ON a.k = b.k AND b.__ts <= a.__ts'
        f" QUALIFY row_number() OVER (PARTITION BY {record} ORDER BY b.__ts DESC, b.__seq DESC) = 1"
    )
    there = f"(SELECT * FROM ({records}) WHERE lower(op) NOT IN ('delete', 'd', 'remove', '-')) AS b"
    asked = f"SELECT a.k, a.v, b.v AS w, b.tm AS was FROM {left} {kind}JOIN {there} ON a.__seq = b.__of{extra}"
    return PastQuery(user, (), {"k": "int", "v": "int", "w": "int", "was": "int"}, asked=asked)


@st.composite
def past_views(draw: st.DrawFn, keyed: Stream) -> list[View]:
    """One to three views that join A with the past of B and of the keyed stream K."""
    kinds = st.one_of(asof_queries(), version_queries(keyed.key))
    return [View(f"r{i}", "STREAMED", draw(kinds)) for i in range(draw(st.integers(1, 3)))]


@st.composite
def windowed_views(draw: st.DrawFn, streams: list[Stream]) -> list[View]:
    """One to three views over table functions."""
    sources = [stream_source(s) for s in streams]
    outputs = st.sampled_from(["STREAMED", "STREAMED", "COMPLETE"])
    return [View(f"r{i}", draw(outputs), draw(windowed_queries(sources))) for i in range(draw(st.integers(1, 3)))]
