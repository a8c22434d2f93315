"""The generate connector: rows that are a pure function of (seed, column, row number).

Any range can be made alone, in any process, so nothing is stored. Row i carries the event time
start + i / rate; with live pacing it exists from the wall-clock time began + i / rate on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.columns import arrow_schema, arrow_type, event_time_us
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.generate.distributions import distribution, salt, uniform
from tidemill.runtime.sources.records import make_chunk
from tidemill.runtime.thresholds import sizes

_EVENT_TIME = "event_time"
# A row in 11 days, a row in a nanosecond; numbers of rows that doubles hold exactly.
LEAST_RATE, MOST_RATE, MOST_ROWS = 1e-6, 1e9, 1 << 53
FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999


class Generate:
    """Positions are {"row": i}."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        origin = spec.origin
        self.spec = spec
        self._schema = arrow_schema(spec.columns)
        self._rate = self._number("rate", origin.get("rate", 1000), LEAST_RATE, MOST_RATE)
        rows = origin.get("rows")
        self._rows = None if rows is None else self._whole("rows", rows, 0, MOST_ROWS)
        self._seed = self._whole("seed", origin.get("seed", 0), -(1 << 63), 1 << 63)
        self._start = self._whole("start", origin.get("start", 0), FIRST_TIME, LAST_TIME)
        if self._rows and self._start + self._rows * 1e6 / self._rate > LAST_TIME:
            raise self._wrong("rows", rows, "fewer rows or a higher rate: the last row is later than the year 9999")
        self._began = int(origin.get("began", 0))
        self._unit = int(spec.options.get("unit_us", 1_000_000))
        self._jitter = self._arrivals(origin.get("arrivals", "regular"))
        self._makers = self._columns(origin.get("columns") or {})

    def _number(self, name: str, value: object, least: float, most: float) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not least <= number <= most:
            raise self._wrong(name, value, f"{name} is a number, for example {1000 if name == 'rate' else 1}")
        return value if isinstance(value, int) else number

    def _whole(self, name: str, value: object, least: int, most: int) -> int:
        number = self._number(name, value, least, most)
        if number != int(number):
            raise self._wrong(name, value, f"{name} is a whole number, for example 1")
        return int(number)

    def _wrong(self, name: str, value: object, hint: str) -> SourceProblem:
        return SourceProblem("TM403", f'generator "{self.spec.name}" has the {name} "{value}"', hint=hint)

    def _arrivals(self, name: str) -> bool:
        if name not in ("regular", "exponential"):
            raise SourceProblem(
                "TM403",
                f'generator "{self.spec.name}" has the arrivals "{name}"',
                hint="arrivals are regular or exponential",
            )
        return name == "exponential"

    def _columns(self, texts: dict[str, str]) -> list[Any]:
        """A maker for each column; None makes it the event time."""
        given = {name.lower(): text for name, text in texts.items()}
        unknown = set(given) - {column.name.lower() for column in self.spec.columns}
        if unknown:
            raise SourceProblem(
                "TM403",
                f'generator "{self.spec.name}" has no column "{min(unknown)}"',
                hint=f"columns: {', '.join(column.name for column in self.spec.columns)}",
            )
        self._timed = self.spec.timestamp is not None and self.spec.timestamp.lower() not in given
        return [self._maker(column, given.get(column.name.lower())) for column in self.spec.columns]

    def _maker(self, column: Column, text: str | None) -> Any:
        if text is None:
            text = self._default(column)
        return None if text == _EVENT_TIME else distribution(text, column, self._seed)

    def _default(self, column: Column) -> str:
        kind = arrow_type(column.type)
        is_time = self.spec.timestamp is not None and column.name.lower() == self.spec.timestamp.lower()
        if is_time or pa.types.is_temporal(kind):
            return _EVENT_TIME
        if pa.types.is_floating(kind):
            return "uniform(0,1)"
        if pa.types.is_boolean(kind):
            return "choice(true,false)"
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return "choice(a,b,c,d)"
        # A narrow decimal, such as DECIMAL(2,2), has no room for 100.
        narrow = pa.types.is_decimal(kind) and kind.precision - kind.scale < 3
        return (
            "uniform(0,0)"
            if narrow and kind.precision == kind.scale
            else "uniform(1,9)"
            if narrow
            else "uniform(1,100)"
        )

    def _times(self, rows: np.ndarray) -> np.ndarray:
        """Event times in microseconds, never decreasing.

        Exponential arrivals move each row inside its own slot: gaps vary, the rate stays, and
        no row needs the ones before it.
        """
        place = rows.astype(np.float64)
        if self._jitter:
            place = place + uniform(salt(self._seed, "", 0), rows)
        return self._start + np.rint(place * 1e6 / self._rate).astype(np.int64)

    def initial(self) -> Position:
        return {"row": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        first = int(start["row"])
        end = self._rows if self._rows is not None and not live else self._due(now_us)
        capped = end if max_rows is None else min(end, first + max(max_rows, 1))
        capped = max(capped, first)
        clock = None if self.spec.timestamp else self._start + round(capped * 1e6 / self._rate)
        return Progress({"row": capped}, capped >= end, clock)

    def _due(self, now_us: int) -> int:
        """How many rows exist at a wall-clock time."""
        if now_us < self._began:
            return 0
        due = math.floor((now_us - self._began) * self._rate / 1e6) + 1
        return due if self._rows is None else min(due, self._rows)

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        first, last = int(start["row"]), int(end["row"])
        if first >= last:
            return []
        if self.spec.timestamp is not None and not self._timed:
            parts = 1
        parts = max(1, min(parts, last - first))
        cuts = [first + (last - first) * i // parts for i in range(parts + 1)]
        return [Range({"row": a}, {"row": b}, self._max_time(b - 1)) for a, b in pairwise(cuts)]

    def _max_time(self, row: int) -> int | None:
        """The time of the last row, as a reader of the column would see it."""
        if not self._timed or self.spec.timestamp is None:
            return None
        for column in self.spec.columns:
            if column.name.lower() == self.spec.timestamp.lower():
                value = pa.chunked_array([self._time_column(self._times(np.array([row])), column)])
                return event_time_us(value, column.type, self._unit)[0].as_py()
        return None

    def read(self, piece: Range) -> Iterator[Chunk]:
        first, last = int(piece.start["row"]), int(piece.end["row"])
        for at in range(first, last, sizes.generated_rows):
            yield self._chunk(np.arange(at, min(at + sizes.generated_rows, last), dtype=np.int64))

    def _chunk(self, rows: np.ndarray) -> Chunk:
        times = self._times(rows)
        arrays = [
            self._time_column(times, column) if maker is None else maker(rows)
            for column, maker in zip(self.spec.columns, self._makers, strict=True)
        ]
        return make_chunk(pa.Table.from_arrays(arrays, schema=self._schema), lambda: rows, lambda: times, [])

    def _time_column(self, times: np.ndarray, column: Column) -> pa.Array:
        kind = arrow_type(column.type)
        if pa.types.is_timestamp(kind):
            return pa.array(times).cast(kind)
        if pa.types.is_date(kind):
            return pa.array((times // 86_400_000_000).astype(np.int32)).cast(kind)
        if pa.types.is_time(kind):
            return pa.array(times % 86_400_000_000).cast(kind)
        if pa.types.is_floating(kind):
            return pa.array(times / self._unit).cast(kind)
        if pa.types.is_decimal(kind):
            return pa.array(times // self._unit).cast(pa.decimal128(38, 0)).cast(kind)
        if pa.types.is_integer(kind):
            return pa.array(times // self._unit).cast(kind)
        raise SourceProblem(
            "TM403",
            f'column "{column.name}" of type {column.type} cannot be an event time',
            hint="use a TIMESTAMP or a number",
        )

    def trim(self, committed: Position) -> None:
        """Nothing is stored."""

    def why_gone(self) -> str | None:
        """All rows can be made again."""
        return None

    def order(self, position: Position) -> tuple[int, ...]:
        return (int(position["row"]),)

    def portion(self, start: Position, end: Position, max_rows: int) -> Position:
        row = int(start["row"]) + max(max_rows, 1)
        return {"row": row} if row < int(end["row"]) else end

    def share(self, position: Position, end: Position) -> float:
        return int(position["row"]) / max(int(end["row"]), 1)
