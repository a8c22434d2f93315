"""Random streams: rows in the order of arrival, the files that hold them, and which of them are late."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tidemill.plan.relations import STATIC_TIME
from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import arrow_schema

UNIT = 1_000_000
PLAIN = (
    Column("k", "INTEGER"),
    Column("v", "INTEGER"),
    Column("x", "DOUBLE"),
    Column("d", "DECIMAL(8,2)"),
    Column("s", "VARCHAR"),
    Column("tm", "INTEGER"),
)
KEYED = (*PLAIN[:5], Column("op", "VARCHAR"), PLAIN[5])
TABLE = (Column("k", "INTEGER"), Column("label", "VARCHAR"), Column("w", "INTEGER"))
UNKNOWN = (None, "truncate")  # operations that make a record bad
Record = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """One source with its tagged stream, or a static table: rows in arrival order, cut into files and batches."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Record, ...]
    key: tuple[str, ...] = ()
    lateness: int = 0
    format: str = "json"
    sizes: tuple[int, ...] = ()  # rows of each file; the last file has the rest
    batch_rows: int | None = None
    static: bool = False
    # Updates of a key in a clock unit, always. Not in the repr: thresholds of the examples are drawn from it.
    shed: int | None = field(default=None, repr=False)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        cut = f"{self.format}, files of {self.sizes}, batches of {self.batch_rows}, lateness {self.lateness}"
        listed = "".join(f"\n  {tuple(row.values())}" for row in self.rows)
        printer.text(f"{self.name} KEY {self.key} ({cut}):{listed}")

    @property
    def source(self) -> str:
        return f"{self.name}Source"

    def statements(self, folder: Path) -> str:
        """REGISTER and CREATE TAGGED STREAM."""
        columns = ", ".join(f"{c.name} {c.type}" for c in self.columns)
        glob = folder / self.name / f"*.{self.format}"
        if self.static:
            return f"REGISTER TABLE {self.name} ({columns}) FROM FILES '{glob}';"
        options = ["timestamp = 'tm'"]
        options += [f"lateness = {self.lateness}"] if self.lateness else []
        options += [f"batch_rows = {self.batch_rows}"] if self.batch_rows else []
        options += ["operation = 'op'"] if any(c.name == "op" for c in self.columns) else []
        options += [f"shed_updates = {self.shed}, shed = 'always'"] if self.shed else []
        key = f" KEY ({', '.join(self.key)})" if self.key else ""
        return (
            f"REGISTER SOURCE {self.source} ({columns}) FROM FILES '{glob}' WITH ({', '.join(options)});\n"
            f"CREATE TAGGED STREAM {self.name} OVER {self.source}{key};"
        )

    def write(self, folder: Path, first: int = 0, last: int | None = None, start: int = 0) -> int:
        """Write rows [first, last) as files numbered from `start`; the number of the next file."""
        place = folder / self.name
        place.mkdir(parents=True, exist_ok=True)
        rows = self.rows[first:last]
        for size in (*self.sizes, len(self.rows)):
            piece, rows = rows[:size], rows[size:]
            if piece or (self.static and start == 0):
                WRITERS[self.format](place / f"{start:04d}.{self.format}", self.columns, piece)
                start += 1
        return start

    def punctual(self) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        """(rows in time, late rows): late is more than the lateness behind a row that came before."""
        good, late, top = [], [], -math.inf
        for seq, row in enumerate(self.rows):
            (late if row["tm"] < top - self.lateness else good).append({**row, "__seq": seq})
            top = max(top, row["tm"])
        return tuple(good), tuple(late)

    def table(self, first: int = 0) -> pa.Table:
        """What queries see, with `__ts` and `__seq`; rows before number `first` left out.

        A row without a known operation moves the clock and is not seen.
        """
        rows = [{**r, "__seq": i} for i, r in enumerate(self.rows)] if self.static else self.punctual()[0]
        rows = [r for r in rows if r["__seq"] >= first and r.get("op", "insert") not in UNKNOWN]
        schema = arrow_schema(self.columns)
        data = {c.name: pa.array([r[c.name] for r in rows], schema.field(c.name).type) for c in self.columns}
        times = [STATIC_TIME if self.static else r["tm"] * UNIT for r in rows]
        order = [r["__seq"] for r in rows]
        return pa.table({**data, "__ts": pa.array(times, pa.int64()), "__seq": pa.array(order, pa.int64())})

    def recut(self, sizes: tuple[int, ...], batch_rows: int | None) -> Stream:
        """The same rows in other files and batches."""
        return replace(self, sizes=sizes, batch_rows=batch_rows)


# ---- files ---------------------------------------------------------------------------------------


def _write_parquet(path: Path, columns: tuple[Column, ...], rows: tuple[Record, ...]) -> None:
    schema = arrow_schema(columns)
    table = pa.table({f.name: pa.array([r[f.name] for r in rows], f.type) for f in schema}, schema=schema)
    pq.write_table(table, path, row_group_size=3 if len(rows) < 100 else 400)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)


def _write_json(path: Path, columns: tuple[Column, ...], rows: tuple[Record, ...]) -> None:
    def plain(value: Any) -> Any:
        # JSON has no NaN, infinity or exact decimal; as text all of them can be read.
        odd = isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value))
        return _text(value) if odd else value

    path.write_text("".join(json.dumps({c.name: plain(r[c.name]) for c in columns}) + "\n" for r in rows))


def _write_csv(path: Path, columns: tuple[Column, ...], rows: tuple[Record, ...]) -> None:
    def field(value: Any) -> str:
        if value is None:
            return ""
        out = io.StringIO()
        csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="").writerow([_text(value)])
        return out.getvalue()

    lines = [",".join(c.name for c in columns), *(",".join(field(r[c.name]) for c in columns) for r in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


WRITERS = {"parquet": _write_parquet, "json": _write_json, "csv": _write_csv}

# ---- strategies ----------------------------------------------------------------------------------

small = st.integers(-4, 9)
# Multiples of a quarter: sums are exact, so float answers do not depend on the order of addition.
quarters = st.integers(-20, 40).map(lambda n: n / 4)
floats = st.one_of(quarters, quarters, quarters, st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]))
finite = st.one_of(quarters, st.sampled_from([0.0, -0.0, 4096.5]))
decimals = st.integers(-500, 2500).map(lambda n: Decimal(n) / 100)
words = st.sampled_from(["a", "b", "c", "", "Ä", "日本", "it's", 'q"q', "A"])
formats = st.sampled_from(["parquet", "json", "json", "csv"])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly a value, sometimes NULL."""
    return st.one_of(values, values, values, values, values, st.none())


def counts(most: int) -> st.SearchStrategy[int]:
    """How many rows: hypothesis likes small numbers, long streams find more."""
    return st.one_of(st.integers(0, most), st.integers(most // 2, most), st.just(most))


@st.composite
def cuts(draw: st.DrawFn, rows: int) -> tuple[tuple[int, ...], int | None]:
    """(sizes of the files, rows of a batch)."""
    sizes = draw(st.lists(st.integers(1, max(1, rows)), max_size=3))
    return tuple(sizes), draw(st.sampled_from([None, None, 1, 2, 3, 4, 7, 10]))


@st.composite
def times(draw: st.DrawFn, count: int, lateness: int, *, late: bool) -> list[int]:
    """Event times in arrival order: ties, gaps, disorder within the lateness, and beyond it if `late`."""
    now, found = 0, []
    for _ in range(count):
        now += draw(st.sampled_from([0, 0, 1, 1, 1, 2, 3]))
        back = draw(st.integers(0, lateness + (3 if late else 0))) if lateness or late else 0
        found.append(max(now - back, 0))
    if not late:
        # A row may be `lateness` behind the greatest time before it, which is what was drawn.
        top, kept = 0, []
        for t in found:
            kept.append(max(t, top - lateness))
            top = max(top, kept[-1])
        found = kept
    return found


@st.composite
def append_only(draw: st.DrawFn, name: str, *, most: int = 14, odd: bool = True, late: bool = False) -> Stream:
    """Rows that only come."""
    lateness = draw(st.sampled_from([0, 0, 2, 4]))
    moments = draw(times(draw(counts(most)), lateness, late=late))
    rows = tuple(draw(_values(odd)) | {"tm": t} for t in moments)
    sizes, batch = draw(cuts(len(rows)))
    return Stream(name, PLAIN, rows, (), lateness, draw(formats), sizes, batch)


@st.composite
def keyed(draw: st.DrawFn, name: str, *, most: int = 14, odd: bool = True, late: bool = False) -> Stream:
    """Records that insert, replace or delete their key."""
    lateness = draw(st.sampled_from([0, 0, 2, 4]))
    moments = draw(times(draw(counts(most)), lateness, late=late))
    operations = st.sampled_from(["insert", "u", "update", "c", "upsert", "delete", "DELETE", *UNKNOWN])
    rows = tuple(draw(_values(odd, keys=True)) | {"op": draw(operations), "tm": t} for t in moments)
    sizes, batch = draw(cuts(len(rows)))
    key = draw(st.sampled_from([("k",), ("k",), ("k", "s")]))
    return Stream(name, KEYED, rows, key, lateness, draw(formats), sizes, batch)


@st.composite
def _values(draw: st.DrawFn, odd: bool, keys: bool = False) -> Record:
    key = st.integers(0, 3)
    return {
        "k": draw(key if keys and draw(st.booleans()) else maybe(key)),
        "v": draw(maybe(small)),
        "x": draw(maybe(floats if odd else finite)),
        "d": draw(maybe(decimals)),
        "s": draw(maybe(words)),
    }


@st.composite
def static_table(draw: st.DrawFn, name: str) -> Stream:
    """A few rows that are there from the beginning."""
    row = st.fixed_dictionaries({"k": maybe(st.integers(0, 3)), "label": maybe(words), "w": maybe(small)})
    rows = tuple(draw(st.lists(row, max_size=5)))
    return Stream(name, TABLE, rows, format=draw(formats), static=True)
