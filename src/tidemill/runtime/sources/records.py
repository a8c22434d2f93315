"""What every connector does with its records: stamp the rows, put the bad ones aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.thresholds import sizes

RAW_BYTES = 64 * 1024  # of a bad record that its dead letter keeps
MAX_RECORD_BYTES = 1 << 20  # unless the source has `max_record_bytes`: a longer record is bad, it would fill memory
MOST_UNDECLARED = 64  # undeclared fields that are reported by name

BAD_SCHEMA = pa.schema([("reason", pa.string()), ("raw", pa.binary()), ("position", pa.string())])
_STAMPS = [pa.field("__seq", pa.int64()), pa.field("__arrival", pa.int64())]

Bad = tuple[str, bytes, str]
Numbers = Callable[[], np.ndarray]


def max_record_bytes(spec: SourceSpec) -> int:
    """The longest record the source takes, without its line end."""
    return int(spec.options.get("max_record_bytes", MAX_RECORD_BYTES))


def position_text(**place: int | str) -> str:
    """A position as a bad row carries it."""
    return json.dumps(place, ensure_ascii=False)


def good_numbers(count: int, bad: dict[int, str]) -> np.ndarray:
    """The numbers below `count` that are not in `bad`."""
    good = np.ones(count, bool)
    good[list(bad)] = False
    return np.flatnonzero(good)


def make_chunk(
    rows: pa.Table,
    seq: Numbers,
    arrival: Numbers,
    bad: Sequence[Bad],
    undeclared: dict[str, int] | None = None,
    files: tuple[str, ...] = (),
) -> Chunk:
    """Rows and bad records; row numbers are computed lazily."""
    return Chunk(rows, bad_table(bad), lambda: _stamp(rows, seq(), arrival()), undeclared or {}, files)


def _stamp(rows: pa.Table, seq: np.ndarray, arrival: np.ndarray) -> pa.Table:
    return pa.Table.from_arrays(
        [*rows.columns, pa.chunked_array([pa.array(seq)]), pa.chunked_array([pa.array(arrival)])],
        schema=pa.schema([*rows.schema, *_STAMPS]),
    )


def bad_table(bad: Sequence[Bad]) -> pa.Table:
    """(reason, raw, position) records as the `bad` half of a chunk."""
    return pa.Table.from_pydict(
        {
            "reason": [reason for reason, _, _ in bad],
            "raw": [raw[:RAW_BYTES] for _, raw, _ in bad],
            "position": [position for _, _, position in bad],
        },
        schema=BAD_SCHEMA,
    )


def only_bad(spec: SourceSpec, bad: Sequence[Bad], *files: str) -> Chunk:
    """A chunk without rows."""
    return make_chunk(arrow_schema(spec.columns).empty_table(), _no_numbers, _no_numbers, bad, files=files)


def _no_numbers() -> np.ndarray:
    return np.empty(0, np.int64)


def refuse(spec: SourceSpec, reason: str, where: str) -> SourceProblem:
    """The error of a source with on_error='fail'."""
    return SourceProblem(
        "TM400",
        f'source "{spec.name}" has a record that cannot be read',
        detail=f"{where}: {reason}",
        hint="WITH (on_error = 'dead_letter') keeps such records in a table and goes on",
    )


def gather(chunks: Iterable[Chunk], limit: int | None = None) -> Iterator[Chunk]:
    """The same records in fewer chunks: small ones are joined up to `limit` rows, without a copy."""
    limit = sizes.chunk_rows if limit is None else limit
    held: list[Chunk] = []
    size = 0
    for chunk in chunks:
        rows = chunk.plain.num_rows + chunk.bad.num_rows
        if held and size + rows > limit:
            yield _join(held)
            held, size = [], 0
        if rows:
            held.append(chunk)
            size += rows
    if held:
        yield _join(held)


def _join(held: list[Chunk]) -> Chunk:
    if len(held) == 1:
        return held[0]
    plain, bad = (pa.concat_tables(tables) for tables in ([c.plain for c in held], [c.bad for c in held]))
    undeclared: Counter[str] = Counter()
    for chunk in held:
        undeclared.update(chunk.undeclared)
    files = tuple(text for chunk in held for text in chunk.files)
    return Chunk(plain, bad, lambda: pa.concat_tables([c.rows for c in held]), dict(undeclared), files)
