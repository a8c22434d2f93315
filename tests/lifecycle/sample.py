"""A database with files of every kind, what it answers and delivers, and which file an error is about."""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.network import free_port
from tests.paper.notation import Feed, write
from tidemill.runtime.sources.port.segments import HEADER
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
    CREATE SINK Out FROM Log TO FILES '{out}';
    CREATE SINK Lines FROM G TO FILES '{out}' WITH (format = 'json');
    REGISTER SOURCE Sent (k VARCHAR, v INTEGER) FROM PORT {port};
    CREATE TAGGED STREAM P OVER Sent;
    CREATE VIEW FromPort AS SELECT k, count(*) AS n, sum(v) AS s FROM P GROUP BY k;
    REGISTER SOURCE Tail (k VARCHAR, v INTEGER) FROM FILES '{tail}';
    CREATE TAGGED STREAM A OVER Tail;
    CREATE VIEW Appended AS SELECT k, sum(v) AS s FROM A GROUP BY k;
"""
CHUNKS = ["<a,1>1 <b,2>2 <c,3>4", "<a,3>5 <c,4>6 <d,9>9", "<b,0>11 <d,9>12 <a,2>15"]
# What says how others shall be read, but holds nothing itself.
HARMLESS = {"lock", "status.json", "spark.log", "metadata"}


def setup(folder: Path) -> str:
    """The statements of `SETUP`, with the files of `folder` and a port of this machine."""
    return SETUP.format(out=folder / "out", port=free_port(), tail=folder / "tail.csv")


def begin(folder: Path) -> Feed:
    """A new database in `folder`/db that has run with the first rows, closed; the feed of its source."""
    folder.mkdir()
    write(folder / "t.json", ["k", "label"], [("a", "Alpha"), ("b", "Beta")])
    block(folder / "out")
    grow(folder, 3)
    with sized(), CheckpointedDatabase(str(folder / "db")) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute(f"REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{folder}/t.json'")
        db.execute(setup(folder))
        feed.send(CHUNKS[0])
        send(db, "a,1\nb,2\n")
        db.run(final=False)
    return feed


def go_on(folder: Path, feed: Feed, chunk: str) -> None:
    """One more run with rows of every source; the last ones on the port stay unread."""
    grow(folder, 5)
    feed.send(chunk)
    with sized(), CheckpointedDatabase(str(folder / "db")) as db:
        send(db, "c,3\na,4\n")
        db.run(final=False)
        send(db, "d,5\nb,6\n")


def block(out: Path) -> None:
    """Nothing can be written into the folder of the sinks: a file is in its place."""
    shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    out.write_text("in the way")


def grow(folder: Path, lines: int) -> None:
    """Append lines to the file of the source Tail."""
    with open(folder / "tail.csv", "a") as file:
        if not file.tell():
            file.write("k,v\n")
        file.writelines(f"k{i % 2},{i}\n" for i in range(lines))


def send(db: CheckpointedDatabase, lines: str) -> None:
    """Lines to the port, which have arrived when this returns."""
    db.state.ports.open(db.catalog.find("Sent"))
    spooler = db.state.ports.spoolers["sent"]
    end = spooler.received + sum(HEADER.size + len(line) for line in lines.splitlines())
    with socket.create_connection(spooler.address) as sender:
        sender.sendall(lines.encode())
    while spooler.received < end:
        time.sleep(0.001)


def sized() -> AbstractContextManager[Any]:
    """Everything that can be a file is one."""
    return changed(inline_bytes=0, sealed_rows=1)


def answers(root: Path) -> dict[str, Any]:
    """Open, take in what is there, read everything; what waits for the sinks is delivered."""
    with sized(), CheckpointedDatabase(str(root)) as db:
        out = Path(db.catalog.find("Out", "sink").options["path"])
        out.unlink()
        try:
            before = _read(db)
            db.run(final=False)
            delivered = [pq.read_table(p).to_pylist() for p in sorted(out.glob("*.parquet"))]
            lines = [p.read_text() for p in sorted(out.glob("*.jsonl"))]
            return {"before": before, "after": _read(db), "delivered": delivered, "lines": lines}
        finally:
            block(out)


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
