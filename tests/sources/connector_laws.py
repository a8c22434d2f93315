"""The laws of a connector as checks that each connector's tests call."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tidemill.runtime.sources.connector import Connector, Position, arrow_schema, event_time_us


def read(connector: Connector, start: Position, end: Position, parts: int = 1) -> tuple[pa.Table, list[dict]]:
    """All rows and bad rows between two positions; checks what every read must keep."""
    pieces = connector.split(start, end, parts)
    check_pieces(connector, pieces, start, end)
    rows, bad = [], []
    for piece in pickle.loads(pickle.dumps(pieces)):
        chunks = list(connector.read(piece))
        check_max_time(connector, piece, chunks)
        rows += [chunk.rows for chunk in chunks]
        bad += [row for chunk in chunks for row in chunk.bad.to_pylist()]
        for chunk in chunks:
            assert chunk.rows.num_rows <= 1 << 20
            assert chunk.bad.schema.names == ["reason", "raw", "position"]
    declared = arrow_schema(connector.spec.columns)
    stamped = pa.schema([*declared, pa.field("__seq", pa.int64()), pa.field("__arrival", pa.int64())])
    table = pa.concat_tables([stamped.empty_table(), *rows]).combine_chunks()
    assert table.schema == stamped
    seq = table.column("__seq").to_pylist()
    assert all(a < b for a, b in pairwise(seq))
    arrival = table.column("__arrival").to_pylist()
    assert arrival == sorted(arrival)
    return table, bad


def check_pieces(connector: Connector, pieces: list, start: Position, end: Position) -> None:
    """Law 3: contiguous, in order, several only when their times are known or not needed."""
    for left, right in pairwise(pieces):
        assert left.end == right.start
    if len(pieces) > 1 and connector.spec.timestamp is not None:
        assert all(piece.max_time is not None for piece in pieces)
    if start == end:
        assert pieces == []


def check_max_time(connector: Connector, piece, chunks: list) -> None:
    """A stated max_time is the greatest event time inside."""
    spec = connector.spec
    if piece.max_time is None:
        return
    kind = next(c.type for c in spec.columns if c.name == spec.timestamp)
    unit = spec.options.get("unit_us", 1_000_000)
    columns = [event_time_us(chunk.rows.column(spec.timestamp), kind, unit) for chunk in chunks]
    assert piece.max_time == max(t for column in columns for t in column.to_pylist() if t is not None)


def check_cuts(connector: Connector, cuts: list[Position], parts: int) -> tuple[pa.Table, list[dict]]:
    """Laws 1 and 2: the pieces between the cuts hold what the whole holds, each time it is read."""
    whole, whole_bad = read(connector, cuts[0], cuts[-1])
    again, again_bad = read(connector, cuts[0], cuts[-1], parts)
    assert again.equals(whole) and again_bad == whole_bad
    tables, bad = [whole.schema.empty_table()], []
    for start, end in pairwise(cuts):
        rows, wrong = read(connector, start, end, parts)
        tables.append(rows)
        bad += wrong
    assert pa.concat_tables(tables).combine_chunks().equals(whole)
    assert bad == whole_bad
    check_portions(connector, cuts[0], cuts[-1])
    return whole, whole_bad


def steps(connector: Connector, max_rows: int | None, live: bool = False, now_us: int = 1) -> list[Position]:
    """The positions a run with batches of at most max_rows goes through."""
    cuts = [connector.initial()]
    while True:
        progress = connector.latest(cuts[-1], max_rows, live, now_us)
        if progress.end != cuts[-1]:
            cuts.append(progress.end)
        if progress.exhausted:
            return cuts


def check_portions(connector: Any, start: Position, end: Position, max_rows: int = 2) -> None:
    """Of a connector that can be read again: portions lead forwards to the end, and shares grow to 1."""
    if not hasattr(connector, "portion"):
        return
    place, shares = start, [connector.share(start, end)]
    while place != end:
        after = connector.portion(place, end, max_rows)
        assert after == end or connector.order(place) < connector.order(after) < connector.order(end)
        place = after
        shares.append(connector.share(place, end))
    assert shares == sorted(shares) and shares[0] >= 0
    assert shares[-1] == (1 if connector.share(end, end) else 0)
