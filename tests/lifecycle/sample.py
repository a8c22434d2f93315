"""A database with files of every kind, what it answers, and which file an error is about."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.paper.notation import Feed, write
from tidemill.runtime.thresholds import changed

SETUP = """
    CREATE TAGGED STREAM S OVER Raw;
    CREATE TAGGED STREAM K OVER Raw KEY k;
    CREATE STREAMED VIEW Log AS SELECT k, v FROM S WHERE v > 1;
    CREATE VIEW Latest AS SELECT k, v FROM K;
    CREATE VIEW G AS SELECT k, count(*) AS n, sum(v) AS s FROM S GROUP BY k;
    CREATE VIEW GG AS SELECT n, count(*) AS m FROM G GROUP BY n;
    CREATE VIEW W AS SELECT k, sum(v) AS s FROM S [RANGE 4 SLIDE 2] GROUP BY k;
    CREATE RSTREAM VIEW R AS SELECT k, max(v) AS m FROM S [RANGE 6 SLIDE 3] GROUP BY k;
    CREATE VIEW J AS SELECT S.k, T.label FROM S JOIN T ON S.k = T.k;
"""
CHUNKS = ["<a,1>1 <b,2>2 <c,3>4", "<a,3>5 <c,4>6 <d,9>9", "<b,0>11 <d,9>12 <a,2>15"]
# What says how others shall be read, but holds nothing itself.
HARMLESS = {"lock", "status.json", "spark.log", "metadata"}


def begin(folder: Path) -> Feed:
    """A new database in `folder`/db that has run with the first rows, closed; the feed of its source."""
    folder.mkdir()
    write(folder / "t.json", ["k", "label"], [("a", "Alpha"), ("b", "Beta")])
    with sized(), CheckpointedDatabase(str(folder / "db")) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute(f"REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{folder}/t.json'")
        db.execute(SETUP)
        feed.send(CHUNKS[0])
        db.run()
    return feed


def sized() -> AbstractContextManager[Any]:
    """Everything that can be a file is one."""
    return changed(inline_bytes=0, sealed_rows=1)


def answers(root: Path) -> dict[str, Any]:
    """Open, take in what is there, read everything."""
    with sized(), CheckpointedDatabase(str(root)) as db:
        before = _read(db)
        db.run()
        return {"before": before, "after": _read(db)}


def _read(db: CheckpointedDatabase) -> dict[str, Any]:
    found: dict[str, Any] = {"Log": db.changes("Log").to_pylist()}
    with db.store.reading() as duck:
        for view in db.workload.views.values():
            rows = duck.sql(db.store.relation_sql(view.stored, duck)).fetchall()
            found[view.entry.name] = sorted(rows, key=str)
    return found


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name not in HARMLESS)


def is_named(name: str, text: str) -> bool:
    """The file or, of a state store, which is others', the folder."""
    state = os.path.join("checkpoint", "state")
    return name in text or (name.startswith(state) and state in text)
