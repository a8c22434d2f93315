"""CREATE and DROP again and again leave nothing behind: files, tables, notes and state are those of what stands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.paper.notation import Feed
from tests.properties.effort import factor, thorough
from tidemill.runtime.thresholds import smallest

ROUNDS = 20 * factor() if thorough() else 8
SHAPES = (
    "SELECT k, v FROM {s} WHERE v > {n}",
    "SELECT k, v + {n} AS w{n} FROM {s}",
    "SELECT k, count(*) AS n{n}, max(v) AS m FROM {s} GROUP BY k",
    "SELECT k, sum(v) AS t{n} FROM {s} [RANGE 4 SLIDE 2] WHERE v > {n} GROUP BY k",
    "SELECT A.k, count(*) AS n{n} FROM {s} [WINDOW 5] AS A, {s} [WINDOW 5] AS B WHERE A.k = B.k GROUP BY A.k",
)


def measured(db: CheckpointedDatabase) -> dict[str, int]:
    """How many files each folder has, how many tables there are, how long notes, catalog and state are."""
    root = Path(db.paths.root)
    found = {
        f"files of {d.name}": sum(len(names) for _, _, names in os.walk(d))
        for d in root.iterdir()
        if d.is_dir() and d.name not in ("checkpoint", "feedback")
    }
    found["folders of sources"] = len(list((root / "sources").iterdir()))
    found["tables"] = len(db.store.connection.sql("SELECT * FROM duckdb_tables()").fetchall())
    found |= {f"note {name}": _items(value) for name, value in db.store.metas().items()}
    settings = db.catalog.settings
    found |= {f"setting {name}": _items(json.dumps(settings[name])) for name in settings if name != "plan_history"}
    found["entries"] = len(db.catalog.entries)
    found["offset"] = len(db.offset["sources"])
    found["nodes"] = sum(json.dumps(_manifest(blob)).count('"rows"') for blob in db.blobs.values())
    found["connectors"] = len(db.planner.connectors) + len(db.planner.portions) + len(db.planner.progressed)
    found["subscribers"] = len(db.outlet.subscribers)
    return found


def _items(text: str) -> int:
    """How many values a JSON text has."""
    try:
        data = json.loads(text)
    except ValueError:
        return 1
    stack, count = [data], 0
    while stack:
        one = stack.pop()
        count += 1
        stack += list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
    return count


def _manifest(blob: bytes) -> object:
    begin = blob.index(b'{"version"')
    return json.JSONDecoder().raw_decode(blob[begin:].decode("utf-8", "replace"))[0]


def change(db: CheckpointedDatabase, folder: Path, number: int) -> None:
    """A source of its own and views of every kind come, take part in some batches, and go."""
    feed = Feed(db, folder, f"Raw{number}", "k VARCHAR, v INTEGER").send("<a,1>1 <b,2>2")
    db.execute(f"CREATE TAGGED STREAM S{number} OVER Raw{number}")
    for at, shape in enumerate(SHAPES):
        kind = ("STREAMED", "COMPLETE")[at % 2]
        text = shape.format(s=f"S{number}", n=number)
        db.execute(f"CREATE {kind} VIEW V{number}x{at} AS {text}")
    db.execute(f"CREATE VIEW W{number} AS SELECT n, count(*) AS c FROM Kept GROUP BY n")  # seeded, and loops
    db.execute(f"REGISTER TABLE T{number} (k VARCHAR) FROM FILES '{folder}/table/*.json'")
    db.execute(f"CREATE VIEW J{number} AS SELECT A.k FROM S{number} AS A JOIN T{number} AS B ON A.k = B.k")
    subscription = db.subscribe(f"V{number}x0")
    db.step()
    feed.send("<a,3>3 <c,4>9")
    db.step()
    subscription.close()
    db.execute(f"DROP SOURCE Raw{number} CASCADE; DROP TABLE T{number} CASCADE; DROP VIEW W{number}")
    db.step()


@pytest.mark.parametrize("least", [True, False], ids=["everything in files", "default sizes"])
def test_nothing_grows_with_the_number_of_changes(tmp_path, least):
    """15 minutes of CREATE and DROP left 340 plan files, 200 tables and hundreds of notes behind."""
    if least:
        with smallest():
            churn(tmp_path)
    else:
        churn(tmp_path)


def churn(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "t.json").write_text('{"k": "a"}\n')
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        standing = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send("<a,1>1 <b,2>2")
        db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW Kept AS SELECT k, count(*) AS n FROM S GROUP BY k")
        found = []
        with db.running():
            for number in range(ROUNDS):
                standing.send(f"<a,1>{number + 3}")
                change(db, tmp_path, number)
                found.append(measured(db))
        early, late = found[2], found[-1]
        assert late.keys() <= early.keys() | {"note final"}
        grown = {name: (early.get(name), late[name]) for name in late if late[name] > early.get(name, 0)}
        assert not grown, grown
        assert late["files of plans"] <= 2 and late["folders of sources"] == 1
