"""Queries as text: what stands in FROM, templates of queries, and views; `queries` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.properties.streams import UNIT, Stream

# Classes of columns: 'noise' holds floats whose last bits depend on the order of addition, so that nothing may be
# decided by their value.
CLASSES = {"INTEGER": "int", "BIGINT": "int", "DOUBLE": "dbl", "DECIMAL(8,2)": "dec", "VARCHAR": "str"}
Columns = dict[str, str]
# Short names as people and generated SQL like them: neither may get in the way of the other.
NAMES = (
    ("o0", "o1", "o2", "o3", "o4", "o5", "o6"),
    ("k", "i", "n", "d", "l", "r", "m"),
    ("k", "s", "x", "came", "rows", "t", "running"),
)


@dataclass(frozen=True)
class Source:
    """Something that can stand in FROM, with the classes of its columns."""

    name: str
    columns: Columns
    stamped: bool = False  # has a TS of its own
    stream: Stream | None = None
    query: Query | None = None

    def at(self, moment: int) -> str | None:
        """SQL of its rows at a moment in clock units; None when plain SQL has no words for it."""
        if self.query is not None:
            inner = self.query.direct(moment)
            return f"({inner})" if inner is not None else None
        assert self.stream is not None
        rows = f'"rows {self.name}"'
        if self.stream.static:
            return f"(SELECT * FROM {rows})"
        there = f'SELECT *, __ts // {UNIT} AS "TS" FROM {rows} WHERE __ts <= {moment * UNIT}'
        if not self.stream.key:
            return f"({there})"
        keys = ", ".join(self.stream.key)
        last = f"{there} QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY __ts DESC, __seq DESC) = 1"
        return f"(SELECT * FROM ({last}) WHERE lower(op) IS DISTINCT FROM 'delete')"


@dataclass(frozen=True)
class Item:
    """A FROM item: a source with window, synchronization and alias."""

    source: Source
    alias: str
    window: str = ""
    sync: str = ""
    every: int | None = None  # SYNC EVERY
    size: int | None = None  # [WINDOW size] or [RANGE size SLIDE slide]
    slide: int | None = None
    plain: bool = True  # plain SQL can say the same

    @property
    def text(self) -> str:
        return " ".join(x for x in (self.source.name, self.window, self.sync, f"AS {self.alias}") if x)

    @property
    def columns(self) -> Columns:
        return {f"{self.alias}.{n}": c for n, c in self.source.columns.items()}

    def moment(self, now: int) -> int:
        """The moment whose rows this item shows at `now`."""
        return now // self.every * self.every if self.every else now

    def direct(self, now: int) -> str | None:
        moment = self.moment(now)
        inner = self.source.at(moment) if self.plain else None
        if inner is None or self.size is None:
            return f"{inner} AS {self.alias}" if inner else None
        low, high = moment - self.size, moment
        if self.slide is not None:
            high = (moment - self.size) // self.slide * self.slide + self.size
            low = high - self.size
        return f'(SELECT * FROM {inner} WHERE {low} <= "TS" AND "TS" < {high}) AS {self.alias}'


@dataclass(frozen=True)
class Query:
    """A query over items; `columns` are the classes of its output."""

    template: str
    items: tuple[Item, ...]
    columns: Columns
    plain: bool = True
    keyless: bool = False  # one row from the first input row on: plain SQL always has one

    @property
    def text(self) -> str:
        found = self.template
        for i, item in enumerate(self.items):
            found = found.replace(f"⟨{i}⟩", item.text)
        return found

    def direct(self, now: int) -> str | None:
        """The same question about the rows of one moment."""
        found = self.template
        if not self.plain:
            return None
        for i, item in enumerate(self.items):
            inner = item.direct(now)
            if inner is None:
                return None
            found = found.replace(f"⟨{i}⟩", inner)
        return found.replace("NOW", f"({self.items[0].moment(now)})")


@dataclass(frozen=True)
class View:
    """A named query; `output` is STREAMED, COMPLETE or RSTREAM."""

    name: str
    output: str
    query: Query

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.statement)

    @property
    def statement(self) -> str:
        return f"CREATE {self.output} VIEW {self.name} WITH (unbounded_state = true) AS {self.query.text};"

    def as_source(self) -> Source:
        columns = self.query.columns
        if self.output == "RSTREAM":
            # Its rows carry the point as TS; plain SQL has no history.
            opaque = Query(self.query.template, self.query.items, columns, plain=False)
            return Source(self.name, columns, query=opaque)
        query = Query("", (), columns, plain=False) if self.query.keyless else self.query
        return Source(self.name, columns, query=query)


def stream_source(stream: Stream) -> Source:
    """A registered stream or table in FROM."""
    columns = {c.name: CLASSES[c.type] for c in stream.columns if c.name != "op"}
    return Source(stream.name, columns, stamped=not stream.static, stream=stream)
