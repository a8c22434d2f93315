"""A fragment store keeps what an open window needs, and not much more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness import LocalDatabase
from tests.properties.streams import PLAIN, Stream
from tests.properties.trial import database
from tidemill.plan import physical
from tidemill.runtime.paths import load_plan
from tidemill.runtime.share.stage.weave import Weave
from tidemill.runtime.stage.stage import Stage
from tidemill.runtime.thresholds import sizes

LITTLE = 8
ROWS = tuple(
    {"k": i * 7 % 5, "v": i % 10, "x": None, "d": None, "s": "ab"[i % 2], "tm": i // 3 + (50 if i > 300 else 0)}
    for i in range(600)
)
VIEWS = (
    "SELECT a.k, COUNT(*) AS n FROM A [RANGE 4 SLIDE 2] AS a GROUP BY a.k",
    "SELECT a.k, SUM(a.v) AS n FROM A [RANGE 30 SLIDE 1] AS a WHERE a.v = 3 GROUP BY a.k",
    "SELECT a.k, MAX(a.v) AS n FROM A [RANGE 2 SLIDE 9] AS a GROUP BY a.k",
    "SELECT a.s, COUNT(*) AS n FROM A [RANGE 5] AS a WHERE a.v > 2 GROUP BY a.s",
)


def stores(db: LocalDatabase):
    """(operator, its stored fragments, its values) of every fragment store in every shard."""
    ops = [op for op in load_plan(db.paths.plan(db.catalog.version)).stage if isinstance(op, physical.Weave)]
    for shard, blob in db.blobs.items():
        state = Stage(db.paths.root, shard, blob).state
        for op in ops:
            operator = Weave(op)
            fragments = operator.arrangement(state, "fragments", operator.layout)
            yield operator, fragments, state.value(op.id)


def needed(operator: Weave, rows, lasts) -> np.ndarray:
    """Rows that a window which is not reported yet still holds."""
    starts, keep = rows.column("__time").to_numpy(), np.zeros(rows.num_rows, bool)
    for query in operator.queries:
        word = rows.column(f"__s{query.bit // 64}").to_numpy()
        wanted = (word >> np.int64(query.bit % 64) & 1).astype(bool)
        last = lasts.get(query.query)
        keep |= wanted & (True if last is None else starts >= query.oldest(last + query.window.slide))
    return keep


@pytest.mark.parametrize("weaving", ["gtweave", "unshared"])
def test_after_every_batch_only_what_open_windows_need_is_stored(monkeypatch, weaving):
    monkeypatch.setattr(sizes, "prune_rows", LITTLE)
    stored = []
    with database([Stream("A", PLAIN, ROWS, format="parquet", batch_rows=25)], shards=2) as db:
        db.execute(f"SET weaving = {weaving}")
        for i, text in enumerate(VIEWS):
            db.execute(f"CREATE COMPLETE VIEW v{i} AS {text}")
        db.start()
        while db.step():
            for operator, fragments, value in stores(db):
                rows = fragments.between(None, None)
                keep = needed(operator, rows, value["last"])
                slack = fragments.rows() < max(LITTLE, 2 * value.get("pruned", 0))
                assert keep.all() or slack, f"{int((~keep).sum())} of {len(keep)} rows are for nobody"
            stored.append(sum(f.rows() for _, f, _ in stores(db)))
        db.stop()
    assert len(stored) >= 20 and max(stored[len(stored) // 2 :]) <= 1.5 * max(stored[: len(stored) // 2])
    assert max(stored) > LITTLE, "nothing was ever stored"


def test_fragments_go_with_the_last_window_that_reads_them():
    """A landmark window reads nothing of the past, so what a dropped window has stored goes at once."""
    with database([Stream("A", PLAIN, ROWS, format="parquet", batch_rows=100)], shards=1) as db:
        db.execute(f"CREATE COMPLETE VIEW w AS {VIEWS[0]}")
        db.execute(
            "CREATE COMPLETE VIEW l WITH (unbounded_state = true)"
            " AS SELECT a.k, COUNT(*) AS n FROM A SYNC EVERY 2 AS a GROUP BY a.k"
        )
        db.start()
        db.step()
        assert sum(f.rows() for _, f, _ in stores(db)) > 0
        db.execute("DROP VIEW w")
        db.step()
        assert sum(f.rows() for _, f, _ in stores(db)) == 0
        db.stop()
        db.run()
        assert sum(db.query("SELECT n FROM l").column("n").to_pylist()) == len([r for r in ROWS if r["tm"] <= 248])  # type: ignore[operator]
