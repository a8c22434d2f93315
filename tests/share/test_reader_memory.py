"""One limit covers all that a reader keeps for shared aggregation: tables, evicted entries, cells, running totals.

With `lfta_memory` at 80 kB a reader grew by 384 MB: running totals were outside of it.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.properties.streams import PLAIN, Stream
from tests.properties.trial import contents_of, database
from tests.share.measuring import Driven, Rows, asked
from tidemill.optimize.share.reader_plan import Settings
from tidemill.runtime.share.reader.branch import Branch
from tidemill.runtime.share.reader.lfta import Lfta
from tidemill.runtime.thresholds import changed

UNITS = 20_000
QUERIES = tuple(
    f"SELECT {keys}, COUNT(*) AS n, SUM(e) AS s FROM A [RANGE {10 + i} SLIDE {1 + i % 4}]"
    f" WHERE e > {40 * i} GROUP BY {keys}"
    for i in range(24)
    for keys in ("a, b", "b")
)
FEW = QUERIES[:6]
COUNT = 150_000


def rows(count: int = COUNT) -> Rows:
    rng = np.random.default_rng(3)
    groups = dict(zip("abcde", (300, 200, 9, 9, 1000), strict=True))
    columns = {name: rng.integers(0, most, count) for name, most in groups.items()}
    return Rows(columns, (np.arange(count) * 100).astype(np.int64))


def kept(texts: tuple[str, ...], settings: Settings) -> tuple[int, int]:
    """(most bytes beside the tables between two chunks, peak of all that was allocated) in one share."""
    db, data = Driven(asked(texts), settings, readers=1), rows()
    op = db.operator(db.plan)
    op = replace(op, budget=settings.budget)
    lfta, most = Lfta(op), 0
    tables = [(data.cut(low, low + 10_000).table, data.times[low : low + 10_000]) for low in range(0, COUNT, 10_000)]
    tracemalloc.start()
    for table, times in tables:
        for _ in lfta.push(table, times):
            pass
        most = max(most, sum(branch.kept_bytes for branch in lfta.branches))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    for _ in lfta.finish():
        pass
    return most, peak


@pytest.mark.parametrize("texts", [FEW, QUERIES], ids=["tables", "many queries"])
def test_what_is_kept_stays_within_the_limit(texts):
    with changed(beside_bytes_least=1):
        limited, peak = kept(texts, Settings(memory=UNITS, budget=4 * UNITS))
    assert limited <= 4 * UNITS
    free, free_peak = kept(texts, Settings(memory=UNITS))
    assert free > 10 * limited, "there was nothing to limit"
    assert peak < free_peak and peak < 16 << 20


def test_a_set_limit_reaches_the_readers_and_changes_no_answer():
    data = tuple(
        {"k": i * 7 % 5, "v": i * 13 % 97, "x": None, "d": None, "s": "ab"[i % 2], "tm": i // 200} for i in range(4_000)
    )

    def answers(units: int | None) -> list:
        with database([Stream("A", PLAIN, data, format="parquet", batch_rows=1_500)], shards=2) as db:
            if units:
                db.execute(f"SET lfta_memory = {units}")
            for i in range(12):
                db.execute(
                    f"CREATE COMPLETE VIEW v{i} AS SELECT a.k, a.v, SUM(a.v) AS n FROM A [RANGE {4 + i} SLIDE 2]"
                    f" AS a WHERE a.v > {5 * i} GROUP BY a.k, a.v"
                )
            db.run()
            assert db.workload.sharing.settings.budget == (4 * units if units else None)
            return [contents_of(db, f"v{i}") for i in range(12)]

    assert answers(100) == answers(None)


def test_predicates_of_a_chunk_are_within_the_limit():
    """A thousand predicates over a chunk of a million rows were a gigabyte, whatever the limit."""
    db, data = Driven(asked(QUERIES), Settings(memory=UNITS, budget=4 * UNITS), readers=1), rows()
    op = db.operator(db.plan)
    sizes, push = [], Branch.push

    def watched(branch, chunk):
        sizes.append((branch, len(chunk)))
        return push(branch, chunk)

    counts = []
    for budget in (None, 4 * UNITS):
        lfta = Lfta(replace(op, budget=budget))
        with changed(beside_bytes_least=1, predicate_rows=1), patch.object(Branch, "push", watched):
            for _ in lfta.push(data.table, data.times):
                pass
            tables = sum(len(b.now.tables._tables) for b in lfta.branches)
            for _ in lfta.finish():
                pass
        counts.append(lfta.counts())
    most = 4 * UNITS // len(op.predicates)
    limited = [size for branch, size in sizes if branch.limits.tight]
    assert max(limited) <= most < COUNT == max(size for branch, size in sizes if not branch.limits.tight)
    assert sum(limited) == COUNT * len({id(branch) for branch, _ in sizes if branch.limits.tight})
    assert 8 * tables <= 4 * UNITS, "all branches together"
    assert counts[0].block == counts[1].block, "statistics are of the whole chunk"


# ---- what the process has -----------------------------------------------------------------------

MANY = 2_000_000


def batch_of(folder: Path, number: int, count: int) -> None:
    """A file with this many rows, behind those of the files before."""
    found = replace(rows(count), times=(np.arange(count) + number * MANY) * 100 + 10**15)
    columns = {name: pa.array(column.astype(np.int32)) for name, column in found.columns.items()}
    table = pa.table(columns | {"at": pa.array(found.times).cast(pa.timestamp("us"))})
    pq.write_table(table, folder / f"{number}.parquet", row_group_size=250_000)


def growth(place: Path, units: int | None) -> int:
    """Bytes by which a reader's process grows over a share of MANY rows, after a small one."""
    (place / "in").mkdir(parents=True)
    batch_of(place / "in", 0, 50_000)
    with LocalDatabase(str(place / "db"), shards=1, cores=1) as db:
        db.execute(
            "REGISTER SOURCE ASource (a INT, b INT, c INT, d INT, e INT, at TIMESTAMP)"
            f" FROM FILES '{place}/in/*.parquet' WITH (timestamp = 'at', batch_rows = {MANY});"
            " CREATE TAGGED STREAM A OVER ASource;"
            + (f"SET lfta_memory = {units};" if units else "")
            + ";".join(f"CREATE RSTREAM VIEW q{i} AS {text}" for i, text in enumerate(FEW))
        )
        db.start()
        db.step()
        assert db.planner is not None and db.offset is not None
        shares = []
        for number, count in ((1, 50_000), (2, MANY)):
            batch_of(place / "in", number, count)
            end = db.plan()
            assert end is not None
            shares += db.planner.assignments(db.offset, end)
            if count < MANY:
                db.finish(end)
        (place / "shares").write_bytes(pickle.dumps(shares))
        command = [sys.executable, "-m", "tests.share.reader_process", str(place / "db"), str(place / "shares")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return int(json.loads(done.stdout)["grown"])


def test_the_process_of_a_limited_reader_stays_small(tmp_path):
    """What it grows by is one chunk of rows and what is made of it, some 45 MB, and buffers; not the batch's groups."""
    limited = growth(tmp_path / "limited", UNITS)
    assert limited < 180 << 20
    assert growth(tmp_path / "free", None) > limited + (80 << 20), "there was nothing to limit"
