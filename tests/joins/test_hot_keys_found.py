"""The engine finds keys with much of a join's work by itself and splits them; every shard then has its part."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.joins.heating import heat, joins_of, key_hash, running
from tests.properties.effort import effort
from tidemill.engine.adapt.joins import JoinPlanning
from tidemill.errors import PlanProblem
from tidemill.optimize.joins.decide import HotKey
from tidemill.optimize.joins.hot_keys import MOST_KEYS
from tidemill.plan.physical import Exchange, HotKeys, JoinAggregate, Physical
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import key_hashes
from tidemill.runtime.evaluation.evaluate import route
from tidemill.runtime.paths import load_plan
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views.batch_summary import BatchReport
from tidemill.sql.catalog import Catalog

HOT = 7
VIEW = """CREATE STREAMED VIEW v AS SELECT {by}, count(*) AS n, sum(A.x) AS x, sum(B.x) AS y, min(A.x) AS l
    FROM SA AS A [RANGE 4 SLIDE 2], SB AS B [RANGE 4 SLIDE 2] WHERE A.k = B.k GROUP BY {by}"""


def opened(
    folder: Path,
    *,
    by: str = "A.k",
    mode: str = "late",
    hot: str = "auto",
    share: float = 0.5,
    shards: int = 2,
    rows: int = 2_800,
) -> LocalDatabase:
    """Two streams of 100 rows a moment; a share of both has the key 7."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    db = LocalDatabase(str(folder / "db"), shards=shards)
    for name in "AB":
        table = pa.table(
            {
                "k": np.where(rng.random(rows) < share, HOT, rng.integers(0, 60, rows)).astype(np.int32),
                "g": rng.integers(0, 5, rows).astype(np.int32),
                "x": rng.integers(-900, 900, rows).astype(np.int32),
                "at": np.arange(rows) // 100,
            }
        )
        pq.write_table(table, folder / f"{name}.parquet")
        db.execute(f"""REGISTER SOURCE r{name} (k INTEGER, g INTEGER, x INTEGER, at BIGINT)
            FROM FILES '{folder / name}.parquet' WITH (timestamp = 'at', batch_rows = 400);
            CREATE TAGGED STREAM S{name} OVER r{name}""")
    db.execute(f"SET early_aggregation = '{mode}'; SET hot_keys = {hot}")
    db.execute(VIEW.format(by=by))
    return db


def ran(db: LocalDatabase) -> list[BatchReport]:
    """The summaries of all batches of a finite run."""
    seen: list[BatchReport] = []
    db.outlet.listeners.append(seen.append)
    db.run()
    return seen


def pairs(summary: BatchReport) -> list[int]:
    (notes,) = summary["joins"].values()
    return [n.pairs for n in notes]


def split_keys(db: LocalDatabase) -> list[int]:
    ((_, op),) = joins_of(db)
    assert op.hot is not None
    return list(op.hot.split)


def log(db: LocalDatabase) -> list[str]:
    return sorted(map(str, db.changes("v").to_pylist()))


@pytest.fixture(autouse=True)
def small_batches_count(monkeypatch):
    monkeypatch.setattr(sizes, "hot_pairs", 2_000)


@pytest.mark.parametrize(("by", "shards"), [("A.k", 2), ("A.g", 3)])
def test_half_of_the_rows_with_one_key_are_shared_out(tmp_path, by, shards):
    with opened(tmp_path / "off", by=by, hot="off", shards=shards) as db:
        plain = [pairs(s) for s in ran(db)]
        expected = log(db)
        assert split_keys(db) == []
    assert max(map(sum, zip(*plain, strict=True))) > 0.9 * sum(map(sum, plain))  # one shard has it all
    with opened(tmp_path / "auto", by=by, shards=shards) as db:
        seen = ran(db)
        assert split_keys(db) == [key_hash(f"{HOT}::INTEGER")]
        assert log(db) == expected
    # Two batches to find the key, one to copy; rows from before stay where they are until they leave their windows.
    late = [pairs(s) for s in seen[5:] if sum(pairs(s))]
    assert len(late) >= 2
    for found in late:
        assert max(found) <= (1 / shards + 0.1) * sum(found)


def test_rows_of_a_split_key_lie_in_all_shards_and_others_in_all_of_them(tmp_path):
    with opened(tmp_path / "x") as db:
        ran(db)
        ((_, op),) = joins_of(db)
        assert op.hot is not None
        ((_, spread),) = op.hot.hot
        kept = [[], []]
        for shard, blob in sorted(db.blobs.items()):
            state = ShardState.load(blob, db.paths.shard(shard))
            for number in (0, 1):
                tables = [
                    state.store.read(s).slice(s.start)
                    for part, segments in state.stored[op.id].items()
                    if part.startswith((f"{number} late [", f"{number} early ["))
                    for s in segments
                ]
                names = op.hot.keys[number]
                rows = pa.concat_tables(t.select(["__n", *names]) for t in tables)
                hashes = key_hashes(rows, (), names)
                kept[number].append(int(rows.column("__n").to_numpy()[hashes == key_hash(f"{HOT}::INTEGER")].sum()))
        assert min(kept[spread]) > 0.3 * sum(kept[spread]) > 0
        assert len(set(kept[1 - spread])) == 1 and kept[1 - spread][0] == sum(kept[1 - spread]) // 2 > 0


@pytest.mark.parametrize("why", [{"share": 0.0}, {"hot": "off"}, {"mode": "early"}, {"shards": 1}])
def test_nothing_is_split_where_it_does_not_pay(tmp_path, why):
    with opened(tmp_path / "x", **why) as db:
        ran(db)
        assert split_keys(db) == []


def test_no_frontier_goes_back_when_groups_begin_to_go_round(tmp_path):
    with opened(tmp_path / "x") as db:
        frontiers = [s["outputs"][0] for s in ran(db)]
        assert split_keys(db) and frontiers == sorted(frontiers)


def test_a_key_is_copied_by_one_plan_and_split_by_a_later_one(tmp_path):
    with opened(tmp_path / "x") as db:
        found = {}  # an older plan goes when a newer one has run
        db.outlet.listeners.insert(0, lambda s: found.setdefault(s["plan"], load_plan(db.paths.plan(s["plan"]))))
        ran(db)
        plans = [found[version] for version in sorted(found)]
        steps = [next(op for op in p.stage if isinstance(op, JoinAggregate)).hot for p in plans]
        assert [(len(s.hot), len(s.split)) for s in steps] == [(0, 0), (1, 0), (1, 1)]
        assert "hot keys, in all shards: 7 (the rows of " in str(db.explain("EXPLAIN VIEW v"))
        assert plans[-1] == Physical.from_json(plans[-1].to_json())


def test_hot_keys_are_kept_with_the_catalog_and_forgotten_with_the_view(tmp_path):
    with opened(tmp_path / "x") as db:
        ran(db)
        ((node, _),) = joins_of(db)
        known = db.workload.join_planning.settings.hot[node.fingerprint]
        assert [k.split for k in known] == [True]
        kept = JoinPlanning(Catalog.from_dict(json.loads(json.dumps(db.catalog.to_dict()))))
        assert kept.settings.hot[node.fingerprint] == known
        db.execute("DROP VIEW v")
        db.execute("CREATE VIEW w AS SELECT k, count(*) AS n FROM SA GROUP BY k")
        db.run()
        assert db.workload.join_planning.stored["hot"] == {} == db.workload.join_planning.settings.hot


def test_a_split_key_stays_split_and_their_number_is_bounded(tmp_path):
    with opened(tmp_path / "x") as db:
        db.run()
        ((node, _),) = joins_of(db)
        joining = db.workload.join_planning
        joining.split(node, [HotKey(h, 0, True) for h in range(2 * MOST_KEYS)])
        heat(db, node, 1, 1)
        known = joining.settings.hot[node.fingerprint]
        assert len(known) == MOST_KEYS and all(k.split for k in known)
        assert next(k for k in known if k.hash == 1).input == 0
        assert len(running(db).stage)


def test_only_words_that_mean_something(tmp_path):
    with opened(tmp_path / "x") as db:
        with pytest.raises(PlanProblem, match="TM217"):
            db.execute("SET hot_keys = sometimes")
        assert db.workload.join_planning.describe()["hot_keys"] == "auto"


# ---- edges ---------------------------------------------------------------------------------------


@effort(60)
@given(
    keys=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    spread=st.sets(st.integers(0, 2)),
    copied=st.sets(st.integers(3, 5)),
    count=st.integers(2, 4),
)
def test_a_row_goes_home_or_to_one_shard_or_to_all(keys, spread, copied, count):
    hashes = {k: key_hash(f"{k}::INTEGER") for k in range(6)}
    rows = pa.table({"k": pa.array(keys, pa.int32()), "x": pa.array([i % 7 for i in range(len(keys))], pa.int32())})
    schema = (Column("k", "INTEGER"), Column("x", "INTEGER"))
    rule = HotKeys(("k", "x"), tuple(hashes[k] for k in spread), tuple(hashes[k] for k in copied))
    pieces = route(Exchange("p", "o", "hash", ("k",), hot=rule), schema, rows, count, 0)
    went: dict[tuple[int, int], list[int]] = {}
    for shard, piece in pieces:
        for row in piece.to_pylist():
            went.setdefault((row["k"], row["x"]), []).append(shard)
    for (k, x), shards in went.items():
        often = sum(a == k and b == x for a, b in zip(keys, rows.column("x").to_pylist(), strict=True))
        if k in copied:
            assert sorted(shards) == sorted([*range(count)] * often)
        else:
            home = key_hash(f"{k}::INTEGER", f"{x}::INTEGER") if k in spread else hashes[k]
            assert shards == [home % count] * often
    assert len(went) == len({*zip(keys, rows.column("x").to_pylist(), strict=True)})
