"""For each fast path the workloads over which it is measured: at least two that have little in common."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks import data, packets
from benchmarks.joins import streams
from benchmarks.nexmark import events
from benchmarks.nexmark.questions import question, sources
from benchmarks.peers import workloads
from benchmarks.peers.mixture import mixed
from tidemill.runtime.fast_paths import FastPath

Statements = tuple[str, str]  # of sources, of views
Work = Callable[[int, int], Statements]  # of this many rows and, where there are many, queries

PLANNED = ("preview", "gc_control")  # paths whose work is not only in the batches
_COUNTED = "k INT, proto INT, len INT, ts TIMESTAMP"
_ROOM = "RoomID INT, Building INT, Temperature INT, ts TIMESTAMP"
_LENGTH = "sip INT, len INT, ts TIMESTAMP"


def _source(name: str, columns: str, pattern: str, key: str = "") -> str:
    return (
        f"REGISTER SOURCE {name}Source ({columns}) FROM FILES '{pattern}' WITH (timestamp = 'ts');"
        f" CREATE TAGGED STREAM {name} OVER {name}Source{key}"
    )


def _over_packets(views: Callable[[int], list[str]]) -> Work:
    def work(rows: int, queries: int) -> Statements:
        return _source("S", packets.COLUMNS, f"{packets.trace(rows, 4)}/*.parquet"), ";".join(views(queries))

    return work


def _over_counts(*views: str) -> Work:
    return lambda rows, queries: (_source("S", _COUNTED, f"{data.packets(rows, 4)}/*.parquet"), ";".join(views))


def _over_text(view: str, kind: str) -> Work:
    def work(rows: int, queries: int) -> Statements:
        return _source("S", _COUNTED, os.path.join(_as_text(data.packets(rows, 4), rows, kind), f"*.{kind}")), view

    return work


def _as_text(folder: str, rows: int, kind: str) -> str:
    """A folder with the same rows as text."""

    def write(place: str) -> None:
        for name in sorted(os.listdir(folder)):
            table = pq.read_table(os.path.join(folder, name))
            path = os.path.join(place, f"{os.path.splitext(name)[0]}.{kind}")
            if kind == "csv":
                pacsv.write_csv(table, path)
            else:
                _write_json(table.to_pylist(), path)

    return data._cached(f"packets-{rows}-{kind}", write)


def _write_json(rows: list[dict[str, object]], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            fields = (f'"{name}": "{value}"' if name == "ts" else f'"{name}": {value}' for name, value in row.items())
            file.write("{" + ", ".join(fields) + "}\n")


def _over_rooms(view: str) -> Work:
    def work(rows: int, queries: int) -> Statements:
        return _source("S", _ROOM, f"{data.readings(rows, 200, 1000)}/*.parquet", " KEY RoomID"), view

    return work


def _over_pairs(sips: int, view: str) -> Work:
    def work(rows: int, queries: int) -> Statements:
        folder = streams.streams(rows // 20, 10, sips, 4)
        sources = [_source(name, _LENGTH, os.path.join(folder, name, "*.parquet")) for name in streams.NAMES]
        return ";".join(sources), view

    return work


def _auction(name: str) -> Work:
    asked = question(name)
    return lambda rows, queries: (sources(events.folder(rows), asked.streams), asked.view)


def _windows(queries: tuple[workloads.Query, ...]) -> list[str]:
    return [
        f"CREATE RSTREAM VIEW {q.name} AS SELECT {q.by}, count(*) AS n, sum(len) AS total FROM S"
        f" [RANGE {q.range} SECONDS SLIDE {q.slide} SECONDS]{f' WHERE {q.predicate}' if q.predicate else ''}"
        f" GROUP BY {q.by}"
        for q in queries
    ]


def _joined(select: str, by: str = "A.sip", length: int = streams.SECONDS, slide: int = streams.SECONDS) -> str:
    """Packets of both streams with the same address in windows of some seconds, grouped."""
    window = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
    return (
        f"CREATE STREAMED VIEW j AS SELECT {select}, count(*) AS n FROM PacketsA AS A {window}, PacketsB AS B {window}"
        f" WHERE A.sip = B.sip GROUP BY {by}"
    )


def _several(points: str) -> str:
    """Groupings by one key, each of another range of temperatures."""
    return ";".join(
        f"CREATE STREAMED VIEW v{i} AS SELECT Building, count(*) AS n, sum(Temperature) AS s FROM S{points}"
        f" WHERE Temperature > {70 + i} GROUP BY Building"
        for i in range(5)
    )


_FEW = _over_packets(lambda queries: _windows(next(iter(workloads.WORKS.values())).queries))
_MANY = _over_packets(lambda queries: _windows(workloads.drawn(queries, 1, 40)))
_MIXTURE = _over_packets(lambda queries: [q.statement() for q in mixed(queries)])
_TUMBLING = "CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n FROM S [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k"
_REFRESHED = "CREATE STREAMED VIEW v AS SELECT k, count(*) AS n FROM S SYNC EVERY 10 SECONDS GROUP BY k"
_FILTERED = "CREATE STREAMED VIEW v AS SELECT k, len FROM S WHERE proto = 1 AND len > 200"
_BUILDINGS = (
    "CREATE STREAMED VIEW v AS SELECT Building, count(*) AS n, max(Temperature) AS hottest FROM S SYNC EVERY 10 SECONDS"
    " GROUP BY Building"
)
_LONGEST = "CREATE RSTREAM VIEW v AS SELECT k, len FROM S [RANGE 20 SECONDS SLIDE 10 SECONDS] WHERE len > 1400"
_EVERY_COUNT = "CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n FROM S SYNC EVERY 10 SECONDS GROUP BY k"
_LENGTHS = _joined("A.len // 100 AS a, B.len // 100 AS b", "A.len // 100, B.len // 100")
_ONE_LENGTH = _joined("B.len, sum(A.len) AS s", "B.len", 30, 2)
_GREATEST = _joined("A.sip, max(B.len) AS greatest", length=30, slide=1)
_DIFFERENT = _joined("A.sip, count(DISTINCT A.len) AS lengths", slide=2)

_MATCHING = (
    "CREATE STREAMED VIEW j AS SELECT A.sip, A.len, B.len AS other, A.ts FROM PacketsA AS A [RANGE 10 SECONDS]"
    " JOIN PacketsB AS B [RANGE 10 SECONDS] ON A.sip = B.sip"
)
_NEAR = (
    "CREATE STREAMED VIEW j AS SELECT A.sip, A.len, B.len AS other FROM PacketsA AS A JOIN PacketsB AS B"
    " ON A.sip = B.sip AND A.len < B.len AND B.TS BETWEEN A.TS AND A.TS + INTERVAL 1 SECOND"
)
_TOP = (
    "CREATE STREAMED VIEW v AS SELECT k, len, proto, row_number() OVER (PARTITION BY k ORDER BY len DESC) AS place"
    " FROM S QUALIFY place <= 3"
)
_LONGEST_OF_ALL = "CREATE VIEW v AS SELECT k, len, proto FROM S ORDER BY len DESC, k LIMIT 100"
_LATEST = "CREATE VIEW v AS SELECT DISTINCT ON (k) k, len, proto FROM S ORDER BY k, TS DESC"

# Measured with nothing switched off on both sides: by how much two runs of one program differ.
UNCHANGED = {"few windows": _FEW, "many windows": _MANY, "a refreshed count": _over_counts(_REFRESHED)}
PATHS: dict[FastPath, dict[str, Work]] = {
    "parquet_pages": {"few windows": _FEW, "a refreshed count": _over_counts(_REFRESHED)},
    "plain_text": {
        "CSV, a refreshed count": _over_text(_REFRESHED, "csv"),
        "JSON, a filter": _over_text(_FILTERED, "json"),
    },
    "ordered_rows": {"few windows": _FEW, "one tumbling window": _over_counts(_TUMBLING)},
    "running_totals": {"many windows": _MANY, "a mixture of queries": _MIXTURE},
    "row_templates": {"few windows": _FEW, "a mixture of queries": _MIXTURE},
    "plain_columns": {"a filter": _over_counts(_FILTERED), "matching rows": _over_pairs(300_000, _MATCHING)},
    "different_rows": {"a filter": _over_counts(_FILTERED), "matching rows": _over_pairs(300_000, _MATCHING)},
    "row_references": {"a join of three streams": _auction("q23"), "the highest bids": _auction("q19")},
    "joined_pairs": {
        "matching rows": _over_pairs(300_000, _MATCHING),
        "rows near each other": _over_pairs(30_000, _NEAR),
    },
    "narrow_sort": {"the longest of each key": _over_counts(_TOP), "the last of each key": _over_counts(_LATEST)},
    "early_limit": {"the longest of each key": _over_counts(_TOP), "the longest of all": _over_counts(_LONGEST_OF_ALL)},
    "group_walk": {"a refreshed count": _over_counts(_REFRESHED), "keyed rooms, MAX": _over_rooms(_BUILDINGS)},
    "joint_groups": {
        "five groupings of rooms": _over_rooms(_several("")),
        "five groupings of rooms, synchronized": _over_rooms(_several(" SYNC EVERY 10 SECONDS")),
    },
    "numbered_answers": {
        "every count at each refresh": _over_counts(_EVERY_COUNT),
        "rows of a window": _over_counts(_LONGEST),
    },
    "pair_sums": {
        "a join by the lengths of both": _over_pairs(5_000, _LENGTHS),
        "a join of sliding windows by length": _over_pairs(500, _ONE_LENGTH),
    },
    "value_presence": {
        "a join of sliding windows, MAX": _over_pairs(500, _GREATEST),
        "a join of sliding windows, COUNT DISTINCT": _over_pairs(500, _DIFFERENT),
    },
    # Where a plan has few windows any tables do, and a preview saves nothing.
    "preview": {"many windows": _MANY, "a mixture of queries": _MIXTURE},
    "answer_files": {"many windows": _MANY, "a filter": _over_counts(_FILTERED)},
    "gc_control": {"many windows": _MANY, "a mixture of queries": _MIXTURE},
}
