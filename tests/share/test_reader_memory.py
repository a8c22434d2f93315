"""One limit covers all that a reader keeps for shared aggregation: tables, evicted entries, cells, running totals.

With `lfta_memory` at 80 kB a reader grew by 384 MB: running totals were outside of it.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

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

    notes = []
    for budget in (None, 4 * UNITS):
        lfta = Lfta(replace(op, budget=budget))
        with changed(beside_bytes_least=1, predicate_rows=1), patch.object(Branch, "push", watched):
            for _ in lfta.push(data.table, data.times):
                pass
            tables = sum(len(b.now.tables._tables) for b in lfta.branches)
            for _ in lfta.finish():
                pass
        notes.append(lfta.note())
    most = 4 * UNITS // len(op.predicates)
    limited = [size for branch, size in sizes if branch.limits.tight]
    assert max(limited) <= most < COUNT == max(size for branch, size in sizes if not branch.limits.tight)
    assert sum(limited) == COUNT * len({id(branch) for branch, _ in sizes if branch.limits.tight})
    assert 8 * tables <= 4 * UNITS, "all branches together"
    assert notes[0]["block"] == notes[1]["block"], "statistics are of the whole chunk"
