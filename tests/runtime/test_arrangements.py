"""Arrangements: sorted segments behave like a plain multiset, at a cost that follows the changes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import PENDING
from tidemill.runtime.duckdb import duck
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

COUNT = Column("__n", "BIGINT")
KEYED = Layout("__h", (Column("k", "BIGINT"),), ((COUNT, "sum"),), "__n")
TIMED = Layout("__time", (Column("k", "BIGINT"),), ((COUNT, "sum"),))
RANKED = Layout("__h", (Column("k", "BIGINT"), Column("__v", "BIGINT")), ((COUNT, "sum"),), "__n", then="__v")

moves = st.lists(st.tuples(st.integers(0, 20), st.sampled_from([-1, 1, 2])), max_size=30)
quick = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def keyed(rows: list[tuple[int, int]]) -> pa.Table:
    table = pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "n": pa.array([n for _, n in rows], pa.int64())})
    return duck.run("SELECT hash(k) AS __h, k, n AS __n FROM t", t=table)


def hashes(keys: list[int]) -> np.ndarray:
    table = pa.table({"k": pa.array(keys, pa.int64())})
    return np.unique(duck.run("SELECT hash(k) AS h FROM t", t=table).column("h").to_numpy())


@quick
@given(batches=st.lists(moves, max_size=6), asked=st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_probe_finds_the_multiplicity_of_every_key_across_segments_and_reloads(batches, asked, tmp_path: Path) -> None:
    state, model = ShardState.empty(str(tmp_path)), Counter()
    for batch in batches:
        arrangement = state.arrangement("node", "rows", KEYED)
        arrangement.append(keyed(batch))
        arrangement.compact()
        for key, n in batch:
            model[key] += n
        state = ShardState.load(state.dump(), str(tmp_path))
    found = Counter()
    for row in state.arrangement("node", "rows", KEYED).probe(hashes(asked)).to_pylist():
        found[row["k"]] += row["__n"]
    assert {k: n for k, n in found.items() if n} == {k: model[k] for k in set(asked) if model[k]}


@quick
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=20), max_size=5),
    cuts=st.lists(st.integers(0, 31), max_size=4),
)
def test_pop_gives_every_row_once_and_in_time(batches, cuts, tmp_path: Path) -> None:
    state = ShardState.empty(str(tmp_path))
    pending = state.arrangement("node", PENDING, TIMED)
    for batch in batches:
        pending.append(
            pa.table(
                {
                    "__time": pa.array([t for t, _ in batch], pa.int64()),
                    "k": pa.array([k for _, k in batch], pa.int64()),
                    "__n": pa.array([1] * len(batch), pa.int64()),
                }
            )
        )
        pending.compact()
    left = Counter((t, k) for batch in batches for t, k in batch)
    for cut in sorted(cuts):
        taken = Counter()
        for row in pending.pop(cut).to_pylist():
            assert row["__time"] < cut
            taken[row["__time"], row["k"]] += row["__n"]
        assert taken == Counter({key: n for key, n in left.items() if key[0] < cut})
        left = Counter({key: n for key, n in left.items() if key[0] >= cut})
    assert pending.scan().num_rows == len(left)


@quick
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=12), min_size=1, max_size=6),
    gone=st.data(),
    need=st.integers(1, 4),
)
def test_ends_show_the_least_and_greatest_live_values(batches, gone, need, tmp_path: Path) -> None:
    arrangement = ShardState.empty(str(tmp_path)).arrangement("node", "values", RANKED)
    live: Counter[tuple[int, int]] = Counter()
    for batch in batches:
        removed = (
            gone.draw(st.lists(st.sampled_from(sorted(live.elements())), unique=True, max_size=6)) if +live else []
        )
        rows = [(k, v, 1) for k, v in batch] + [(k, v, -1) for k, v in removed]
        table = pa.table({name: pa.array([r[i] for r in rows], pa.int64()) for i, name in enumerate(("k", "v", "n"))})
        arrangement.append(duck.run("SELECT hash(k) AS __h, k, v AS __v, n AS __n FROM t", t=table))
        live.update((k, v) for k, v in batch)
        live.subtract(removed)
        live = +live
    touched = hashes([0, 1, 2, 3])
    rows = arrangement.ends(touched, np.full(len(touched), need), True, True).to_pylist()
    seen: Counter[tuple[int, int]] = Counter()
    for row in rows:
        seen[row["k"], row["__v"]] += row["__n"]
    for key in range(4):
        values = sorted({v for k, v in live if k == key})
        shown = sorted({v for (k, v), n in seen.items() if k == key and n > 0})
        assert shown[:need] == values[:need]
        assert shown[-need:] == values[-need:]


def test_number_of_segments_grows_with_the_logarithm_of_the_rows(tmp_path: Path) -> None:
    arrangement = ShardState.empty(str(tmp_path)).arrangement("node", "rows", KEYED)
    for i in range(200):
        arrangement.append(keyed([(1000 * i + j, 1) for j in range(10)]))
        arrangement.compact()
    assert arrangement.rows() == 2000
    assert len(arrangement.segments) <= 9


def test_a_replaced_file_stays_until_no_batch_can_be_replayed_from_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sizes, "inline_bytes", 0)
    state = ShardState.empty(str(tmp_path))
    history = []
    for i in range(6):
        arrangement = state.arrangement("node", "rows", KEYED)
        arrangement.append(keyed([(10 * i + j, 1) for j in range(10)]))
        arrangement.compact()
        blob = state.dump()
        history.append(blob)
        # The batch that follows may be replayed from this state or, if it was not committed, from the one before.
        for version in history[-2:]:
            old = ShardState.load(version, str(tmp_path))
            assert old.arrangement("node", "rows", KEYED).scan().num_rows % 10 == 0
        state = ShardState.load(blob, str(tmp_path))
    named = {s.file for parts in state.stored.values() for segments in parts.values() for s in segments}
    assert len(os.listdir(tmp_path)) <= len(named) + len(state.store.garbage)


def test_sweep_removes_what_no_manifest_names(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sizes, "inline_bytes", 0)
    state = ShardState.empty(str(tmp_path))
    state.arrangement("node", "rows", KEYED).append(keyed([(1, 1)]))
    blob = state.dump()
    (tmp_path / "attempt-that-failed.arrow").write_bytes(b"garbage")
    again = ShardState.load(blob, str(tmp_path))
    again.sweep()
    assert len(os.listdir(tmp_path)) == 1
    assert again.arrangement("node", "rows", KEYED).scan().num_rows == 1


def test_nodes_that_left_the_plan_are_forgotten(tmp_path: Path) -> None:
    state = ShardState.empty(str(tmp_path))
    for node in ("kept", "dropped"):
        state.arrangement(node, "rows", KEYED).append(keyed([(1, 1)]))
        state.value(node)["x"] = 1
    state.value("@clock")["begin"] = 7
    state.keep(["kept"])
    again = ShardState.load(state.dump(), str(tmp_path))
    assert set(again.stored) == {"kept"}
    assert set(again.values) == {"kept", "@clock"}
