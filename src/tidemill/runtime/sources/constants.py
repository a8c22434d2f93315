"""The rows of VALUES: numbers from 0, of which a query makes what it says of each row. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.records import make_chunk


class ConstantRows:
    """Positions are {"row": i}."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        self.spec = spec
        self._rows = int(spec.origin["rows"])

    def initial(self) -> Position:
        return {"row": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        first = int(start["row"])
        end = self._rows if max_rows is None else min(self._rows, first + max(max_rows, 1))
        return Progress({"row": max(end, first)}, end >= self._rows, None)

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        return [Range(start, end, None)] if int(start["row"]) < int(end["row"]) else []

    def read(self, piece: Range) -> Iterator[Chunk]:
        numbers = np.arange(int(piece.start["row"]), int(piece.end["row"]), dtype=np.int64)
        columns = [pa.array(numbers)] * len(self.spec.columns)
        rows = pa.Table.from_arrays(columns, schema=arrow_schema(self.spec.columns))
        yield make_chunk(rows, lambda: numbers, lambda: np.zeros(len(numbers), np.int64), [])

    def trim(self, committed: Position) -> None:
        """Nothing is stored."""
