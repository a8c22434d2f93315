"""No room for what a batch writes: it fails, and when there is room again the database goes on as if nothing had been.

Files may grow up to a limit only (RLIMIT_FSIZE), which a write meets like a full disk: with an error, half done.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

SETUP = """
    REGISTER SOURCE S (k INTEGER, v VARCHAR, at BIGINT) FROM FILES '{data}/*.json'
    WITH (timestamp = 'at', batch_rows = 2000);
    CREATE TAGGED STREAM T OVER S;
    CREATE VIEW Sums AS SELECT k, count(*) AS n, max(v) AS v FROM T GROUP BY k;
    CREATE STREAMED VIEW Log AS SELECT k, v FROM T;
    CREATE VIEW Pairs AS SELECT A.k, B.v FROM T [WINDOW 2] AS A, T [WINDOW 2] AS B WHERE A.k = B.k AND A.v < B.v;
    CREATE SINK J FROM Sums TO FILES '{data}/out' WITH (format = 'json');
"""


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def answers(db: Any) -> list[Any]:
    return [db.query(f"SELECT * FROM {v} ORDER BY ALL").to_pylist() for v in ("Sums", "Pairs")] + [
        sorted((r["k"], r["v"]) for r in db.changes("Log").to_pylist())
    ]


def written(folder: Path) -> list[str]:
    return sorted(line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines())


@pytest.mark.parametrize("size", [1 << 10, 1 << 14, 1 << 16, 300_000, 1 << 20])
def test_a_full_disk_is_left_behind(tmp_path, size):
    lines = [json.dumps({"k": i % 500, "v": f"{i * 7919 % 10007:x}" * 10, "at": i // 20}) for i in range(6_000)]
    for name in ("calm", "full"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text("\n".join(lines) + "\n")
    with LocalDatabase(str(tmp_path / "calm db"), cores=1) as db:
        db.execute(SETUP.format(data=tmp_path / "calm"))
        db.run()
        wanted = answers(db)
    db = LocalDatabase(str(tmp_path / "full db"), cores=1)
    db.execute(SETUP.format(data=tmp_path / "full"))
    with files_up_to(size):
        if size < 1 << 20:
            with pytest.raises((TidemillError, OSError, duckdb.Error)):
                db.run()
        close(db)
    kept = {name: vars(db)[name] for name in ("offset", "batch", "blobs", "logged")}
    with LocalDatabase(str(tmp_path / "full db"), cores=1) as db:
        vars(db).update(kept)
        db.run()
        assert not [(v["name"], v["stopped"]) for v in db.status()["views"] if v["stopped"]]
        assert answers(db) == wanted
    assert written(tmp_path / "full" / "out") == written(tmp_path / "calm" / "out")


def close(db: LocalDatabase) -> None:
    """As well as it can be."""
    try:
        db.close()
    except (TidemillError, OSError, duckdb.Error):
        db.directory.release()
