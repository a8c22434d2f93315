"""Fragments are sorted by start however they come, and stay what they were."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.operators import fragments


@effort(60)
@given(starts=st.lists(st.integers(-4, 4), min_size=1, max_size=40), run=st.sampled_from([0, 1, 64]),
       cut=st.integers(0, 40))
def test_rows_are_sorted_by_start_and_stay_in_order(starts, run, cut):
    whole = pa.table({"__time": starts, "i": np.arange(len(starts))})
    table = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    with patch.object(fragments, "_RUN", run):
        found = fragments._by_start(table, np.array(starts))
    assert found.to_pylist() == sorted(whole.to_pylist(), key=lambda row: row["__time"])


@effort(40)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=40), sampled=st.integers(1, 60))
def test_a_sample_has_all_rows_of_its_starts(lengths, sampled):
    starts = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"__time": starts})
    with patch.object(fragments, "_SAMPLED", sampled):
        found = fragments._some(table).column("__time").to_numpy()
    assert len(found) and np.isin(starts, found).sum() == len(found)
