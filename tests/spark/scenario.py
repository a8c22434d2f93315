"""One workload that uses every path of the engine, its input files, and all it answers: for comparing two databases."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

FLOORS, ROOMS, SHOPS = 5, 40, ("north", "south", "tower")

SOURCES = """
REGISTER SOURCE Readings (room INTEGER, level INTEGER, temp INTEGER, at BIGINT)
FROM FILES '{data}/readings/*.json' WITH (timestamp = 'at'{options});
REGISTER SOURCE Guests (room INTEGER, guest VARCHAR, op VARCHAR, at BIGINT)
FROM FILES '{data}/guests/*.json' WITH (timestamp = 'at', operation = 'op'{options});
REGISTER SOURCE Sales (shop VARCHAR, amount INTEGER, at BIGINT)
FROM FILES '{data}/sales/*.json' WITH (timestamp = 'at', lateness = '2 seconds'{options});
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
CREATE TAGGED STREAM Stays OVER Guests KEY room;
CREATE TAGGED STREAM Bills OVER Sales;
CREATE TAGGED STREAM Measured OVER Readings;
"""

# A filter; a group-by of a keyed stream, whose rows change shards; a group-by of that group-by, which goes round twice;
# an outer join; two windows; a synchronized answer; a band join; time points of a view and an answer at them; the whole
# answer again and again; an aggregation join; a log, a set and the answers of windows that only grow.
VIEWS = {
    "Hot": "CREATE STREAMED VIEW Hot AS SELECT R.room, R.temp FROM R(Rooms) R WHERE R.temp > 80",
    "Levels": """CREATE STREAMED VIEW Levels AS
                 SELECT R.level, count(*) AS rooms, sum(R.temp) AS heat, max(R.temp) AS hottest
                 FROM R(Rooms) R GROUP BY R.level""",
    "Sizes": "CREATE STREAMED VIEW Sizes AS SELECT L.rooms, count(*) AS levels FROM R(Levels) L GROUP BY L.rooms",
    "SizesNow": "CREATE COMPLETE VIEW SizesNow AS SELECT S.levels, count(*) AS n FROM R(Sizes) S GROUP BY S.levels",
    "Occupied": """CREATE STREAMED VIEW Occupied AS SELECT R.room, R.temp, G.guest
                   FROM R(Rooms) R LEFT JOIN R(Stays) G ON R.room = G.room""",
    "OccupiedNow": "CREATE COMPLETE VIEW OccupiedNow AS SELECT O.room, O.temp, O.guest FROM R(Occupied) O",
    "Lately": """CREATE STREAMED VIEW Lately AS SELECT B.shop, count(*) AS bills, sum(B.amount) AS amount
                 FROM R(Bills) B WHERE NOW - 7 < B.TS <= NOW GROUP BY B.shop""",
    "Report": """CREATE RSTREAM VIEW Report AS SELECT B.shop, sum(B.amount) AS amount
                 FROM Bills [RANGE 20 SECONDS SLIDE 10 SECONDS] AS B GROUP BY B.shop""",
    "Tens": """CREATE COMPLETE VIEW Tens AS SELECT R.level, min(R.temp) AS coldest
               FROM R(Rooms) SYNC EVERY 10 SECONDS AS R GROUP BY R.level""",
    "Crowd": """CREATE STREAMED VIEW Crowd AS SELECT R.level, count(*) AS pairs, sum(B.amount) AS amount,
                max(R.temp) AS hottest FROM R(Rooms) R, Bills [WINDOW 15 SECONDS] AS B
                WHERE R.room % 5 = B.amount % 5 GROUP BY R.level""",
    "Band": """CREATE STREAMED VIEW Band AS SELECT M.room, M.temp, B.amount FROM Measured M
               JOIN Bills B ON M.room = B.amount AND B.TS BETWEEN M.TS AND M.TS + 3""",
    "Pulse": "CREATE STREAMED VIEW Pulse AS SELECT M.TS FROM Measured M WHERE M.room % 50 = 0",
    "OnPulse": """CREATE STREAMED VIEW OnPulse AS SELECT R.level, count(*) AS n, max(R.temp) AS hottest
                  FROM R(Rooms, Pulse) R GROUP BY R.level""",
    "Noted": "CREATE STREAMED VIEW Noted AS SELECT M.room, M.temp FROM Measured M WHERE M.temp > 60",
    "NotedNow": "CREATE COMPLETE VIEW NotedNow AS SELECT M.room, M.temp FROM Measured M WHERE M.temp > 70",
    "Rush": """CREATE RSTREAM VIEW Rush AS SELECT M.room % 7 AS door, count(*) AS n, max(M.temp) AS hottest
               FROM Measured [RANGE 20 SECONDS SLIDE 10 SECONDS] AS M GROUP BY M.room % 7""",
}

SINK = "CREATE SINK LevelLog FROM Levels TO FILES '{out}';"


def write_input(data: Path, *, files: int, rows: int, rooms: int = ROOMS, seed: int = 7) -> None:
    """`files` files of `rows` rows for each source, in event-time order but for the late and bad sales.

    No two files share a time: a finite run closes the last time it saw.
    """
    chance = random.Random(seed)
    guests: set[int] = set()
    for source in ("readings", "guests", "sales"):
        (data / source).mkdir(parents=True, exist_ok=True)
    at = 0
    for number in range(files):
        readings, stays, sales = [], [], []
        at += 1
        for _ in range(rows):
            at += chance.choice((0, 0, 1))
            room = chance.randrange(rooms)
            level, temp = chance.randrange(FLOORS), chance.randrange(50, 100)
            readings.append({"room": room, "level": level, "temp": temp, "at": at})
            room = chance.randrange(rooms)
            leaves = room in guests and chance.random() < 0.5
            guests = guests - {room} if leaves else guests | {room}
            guest, op = f"guest {chance.randrange(99)}", "delete" if leaves else "upsert"
            stays.append({"room": room, "guest": guest, "op": op, "at": at})
            shop, amount, delay = chance.choice(SHOPS), chance.randrange(100), chance.choice((0, 0, 1, 4))
            sales.append({"shop": shop, "amount": amount, "at": at - delay})
        for source, found in (("readings", readings), ("guests", stays), ("sales", sales)):
            lines = [json.dumps(row) for row in found]
            if source == "sales" and number % 3 == 0:
                lines.insert(1, "not json")
            write_lines(data / source / f"{number:04d}.json", lines)


def write_lines(path: Path, lines: list[str]) -> None:
    """A file that is complete when it appears."""
    part = path.with_name("." + path.name)
    part.write_text("".join(line + "\n" for line in lines))
    part.rename(path)


def create(
    db: Any, data: Path, out: Path | None = None, *, batch_rows: int | None = None, views: Iterable[str] = tuple(VIEWS)
) -> None:
    """Sources, streams, views and, with `out`, a sink."""
    db.execute(SOURCES.format(data=data, options=f", batch_rows = {batch_rows}" if batch_rows else ""))
    for name in views:
        db.execute(VIEWS[name])
    if out is not None:
        db.execute(SINK.format(out=out))


def everything(db: Any, out: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """Change logs in order, stored answers, dead letters and the rows of the sink's files in order."""
    found = {}
    for name in db.execute("SHOW VIEWS").column("name").to_pylist():
        found[name] = answer(db, name)
    found["dead"] = db.query("SELECT source, reason, raw, position FROM dead_letters ORDER BY ALL").to_pylist()
    if out is not None:
        found["sink"] = sink_rows(out)
    return found


def answer(db: Any, name: str) -> list[dict[str, Any]]:
    """The change log of a STREAMED view, the rows of another."""
    if "CREATE STREAMED" in VIEWS.get(name, "CREATE STREAMED"):
        return db.changes(name).to_pylist()
    return db.query(f"SELECT * FROM {name} ORDER BY ALL").to_pylist()


def sink_rows(out: Path) -> list[dict[str, Any]]:
    """All rows of a parquet sink, in the order of its files."""
    return [row for path in sorted(out.glob("changes-*.parquet")) for row in pq.read_table(path).to_pylist()]


def differences(found: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> str:
    """Where two databases differ first, for people; '' when they are the same."""
    lines = []
    for name in sorted(set(found) | set(wanted)):
        ours, theirs = found.get(name, []), wanted.get(name, [])
        if ours != theirs:
            pairs = enumerate(zip(ours, theirs, strict=False))
            place = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
            lines.append(f"{name}: {len(ours)} rows, {len(theirs)} wanted; the first difference is at {place}:")
            lines += [f"  found  {row}" for row in ours[place : place + 3]]
            lines += [f"  wanted {row}" for row in theirs[place : place + 3]]
    return "\n".join(lines)
