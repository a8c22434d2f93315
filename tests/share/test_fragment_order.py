"""Fragments are sorted by start however they come, and stay what they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.trial import contents_of, database
from tests.share.test_running import create
from tests.share.test_shared_many import STREAM
from tidemill.plan.sources import Column
from tidemill.runtime.share.stage import fragments
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.segments import SegmentStore
from tidemill.runtime.thresholds import changed


@effort(60)
@given(
    starts=st.lists(st.integers(-4, 4), min_size=1, max_size=40),
    run=st.sampled_from([0, 1, 64]),
    cut=st.integers(0, 40),
)
def test_rows_are_sorted_by_start_and_stay_in_order(starts, run, cut):
    whole = pa.table({"__time": starts, "i": np.arange(len(starts))})
    table = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    with changed(run_rows=run):
        found = fragments._sort_by_start(table, np.array(starts))
    assert found.to_pylist() == sorted(whole.to_pylist(), key=lambda row: row["__time"])


@effort(40)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=40), sampled=st.integers(1, 60))
def test_a_sample_has_all_rows_of_its_starts(lengths, sampled):
    starts = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"__time": starts})
    with changed(sampled_rows=sampled):
        found = fragments._sample_starts(table).column("__time").to_numpy()
    assert len(found) and np.isin(starts, found).sum() == len(found)


LAYOUT = Layout("__time", (Column("k", "BIGINT"), Column("__s0", "BIGINT")), ((Column("n", "BIGINT"), "sum"),))


def drawn_rows(chance, rows, messages):
    """Rows of several messages, most of them in order."""
    tables = []
    for _ in range(messages):
        times = chance.integers(0, 9, rows)
        tables.append(
            pa.table(
                {
                    "__time": times if chance.random() < 0.2 else np.sort(times),
                    "k": chance.integers(0, 3, rows),
                    "__s0": chance.integers(1, 3, rows),
                    "n": chance.integers(1, 9, rows),
                }
            )
        )
    return pa.concat_tables(tables)


def counted(table):
    found = Counter()
    for row in table.to_pylist():
        found[row["__time"], row["k"], row["__s0"]] += row["n"]
    return found


@effort(80)
@given(seed=st.integers(0, 2**32), large=st.sampled_from([1, 5, 20, 1 << 30]), segments=st.sampled_from([1, 3, 8]))
def test_what_is_stored_is_what_came(seed, large, segments, tmp_path_factory):
    """Whatever stays as it came, is merged, written anew or taken out: every segment ascends, and no row is lost."""
    chance, expected = np.random.default_rng(seed), Counter()
    store = fragments.Fragments(SegmentStore(str(tmp_path_factory.getbasetemp())), LAYOUT, [])
    with changed(large_rows=large, large_segments=segments):
        for _ in range(int(chance.integers(1, 12))):
            rows = drawn_rows(chance, int(chance.integers(0, 12)), int(chance.integers(1, 4)))
            expected.update(counted(rows))
            store.append(rows)
            store.compact()
            if chance.random() < 0.2:
                store.replace(store.between(None, None))
                assert len(store.segments) <= 1
            if chance.random() < 0.2:
                before = int(chance.integers(0, 5))
                expected.subtract(counted(store.pop(before)))
                expected = Counter({key: n for key, n in expected.items() if n})
                assert all(time >= before for time, _, _ in expected)
            starts = [store.store.read(s).column("__time").to_numpy() for s in store.segments]
            assert all((times[1:] >= times[:-1]).all() for times in starts)
            assert counted(store.between(None, None)) == expected
            assert store.rows() == store.between(None, None).num_rows


def test_large_pieces_in_order_stay_as_they_came():
    """Two readers' messages are two segments; what is small or out of order is put together."""
    store = fragments.Fragments(SegmentStore(""), LAYOUT, [])
    first, second, mixed = (
        {"__time": times, "k": [1] * 4, "__s0": [1] * 4, "n": [1] * 4}
        for times in ([1, 2, 3, 4], [2, 3, 3, 5], [9, 1, 1, 2])
    )
    with changed(large_rows=4):
        store.append(pa.concat_tables([pa.table(first), pa.table(second), pa.table(mixed)]))
        store.compact()
    assert [store.store.read(s).column("__time").to_pylist() for s in store.segments] == [
        [1, 2, 3, 4],
        [2, 3, 3, 5],
        [1, 2, 9],
    ]


def test_answers_do_not_depend_on_where_fragments_lie():
    found = []
    for large, places in ((1, 0), (1, 1 << 30), (1 << 30, 4)):
        with database([STREAM], shards=2) as db, changed(large_rows=large, prune_rows=20, prune_segments=places):
            names = create(db, 8)
            db.run()
            found.append([contents_of(db, name) for name in names])
    assert found[0] == found[1] == found[2] and any(found[0])
