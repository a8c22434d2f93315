"""The tagger's kernels equal their slow twins, and the tagger keeps its law for columns of any type and any cut."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan import physical
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import contents_layout
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.kernels.grouping.tagging import tag_steps, walk_records
from tidemill.runtime.operators import tagger
from tidemill.runtime.operators.tagger import Tagger
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

END = 13
VALUES = {
    "INTEGER": (pa.int32(), [0, 1, -1, None]),
    "VARCHAR": (pa.string(), ["", "a", "A", None]),
    "HUGEINT": (pa.decimal128(38, 0), [Decimal(0), Decimal(10**30), None]),
    "BOOLEAN": (pa.bool_(), [True, False, None]),
    "TIMESTAMP": (pa.timestamp("us"), [0, 1, None]),
    "DOUBLE": (pa.float64(), [0.0, -0.0, math.nan, 1.5, None]),
}


def walk_twin(records, shown):
    """(time, old row, new row) of each key and time, and the rows shown at the end."""
    shown, steps = dict(shown), []
    for key, time in dict.fromkeys((r["key"], r["time"]) for r in sorted(records, key=lambda r: r["time"])):
        here = [i for i, r in enumerate(records) if (r["key"], r["time"]) == (key, time)]
        last = max(here, key=lambda i: (records[i]["at"], records[i]["seq"], i))
        new = -1 if records[last]["gone"] else last
        steps.append((time, shown[key], new))
        shown[key] = new
    return steps, shown


@st.composite
def key_records(draw):
    """Records of four keys; times, event times and arrivals may be equal."""
    one = st.fixed_dictionaries(
        {
            "key": st.integers(0, 3),
            "time": st.integers(0, 4),
            "at": st.integers(0, 2),
            "seq": st.integers(0, 2),
            "gone": st.booleans(),
        }
    )
    return draw(st.lists(one, max_size=30))


@effort(150)
@given(key_records(), st.sets(st.integers(0, 3)))
def test_walk_records_equals_its_twin(records, stored):
    count = len(records)
    before = {k: count + k if k in stored else -1 for k in range(4)}
    key, time, at, seq = (np.array([r[n] for r in records], np.int64) for n in ("key", "time", "at", "seq"))
    gone = np.array([r["gone"] for r in records], np.bool_)
    shown = np.array(list(before.values()), np.int64)
    last, old, new = (np.empty(count, np.int64) for _ in range(3))
    order = np.argsort(time, kind="stable")
    steps = walk_records(order, key, time, at, seq, gone, shown, np.full(4, -1, np.int64), last, old, new)
    found = list(zip(time[last[:steps]].tolist(), old[:steps].tolist(), new[:steps].tolist(), strict=True))
    assert (found, dict(enumerate(shown.tolist()))) == walk_twin(records, before)


@effort(100)
@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5), st.booleans()), max_size=20))
def test_tag_steps_equals_its_twin(steps):
    old, new = (np.array([s[i] for s in steps], np.int64) for i in range(2))
    step, row, diff = (np.empty(2 * len(steps), np.int64) for _ in range(3))
    changes = tag_steps(old, new, np.array([s[2] for s in steps], np.bool_), step, row, diff)
    twin = [(s, r, d) for s, (o, n, turned) in enumerate(steps) for r, d in ((o, -1), (n, 1)) if turned and r >= 0]
    assert list(zip(*(part[:changes].tolist() for part in (step, row, diff)), strict=True)) == twin


def plain(row):
    """A row that Python compares as SQL does: NaN equals NaN."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


def changes_twin(rows, times, gone, seq, keys):
    """Added-up changes of the law, and the rows at the end."""
    shown, out = {}, Counter()
    for time in sorted(set(times)):
        here = sorted((i for i, t in enumerate(times) if t == time), key=lambda i: seq[i])
        for key, i in {plain(rows[i][:keys]): i for i in here}.items():
            old, new = shown.pop(key, None), None if gone[i] else plain(rows[i])
            if new is not None:
                shown[key] = new
            if old != new:
                out.update({(*row, time): sign for row, sign in ((old, -1), (new, 1)) if row is not None})
    return {row: n for row, n in out.items() if n}, Counter(shown.values())


@st.composite
def record_streams(draw):
    """Types, number of key columns, records, times, deletions, arrival order, and the batch in which each one comes."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    count = draw(st.integers(1, 30))
    row = st.tuples(*(st.sampled_from(VALUES[t][1]) for t in types))  # type: ignore[call-overload]
    rows, times, gone, early = (
        draw(st.lists(one, min_size=count, max_size=count))
        for one in (row, st.integers(0, END - 1), st.sampled_from([False, False, True]), st.booleans())
    )
    cuts = [*sorted(draw(st.sets(st.integers(1, END - 1), max_size=3))), END]
    closes = [next(i for i, cut in enumerate(cuts) if time < cut) for time in times]
    comes = [max(0, close - ahead) for close, ahead in zip(closes, early, strict=True)]
    keys = draw(st.integers(1, len(types)))
    return types, keys, rows, times, gone, draw(st.permutations(range(count))), comes, cuts


def stream_results(types, keys, rows, times, gone, seq, comes, cuts):
    """Added-up output of the operator and its state at the end, batch by batch through a stored state."""
    columns = tuple(Column(f"c {i}", t) for i, t in enumerate(types))
    op = physical.Tagger("x", ("records",), columns, tuple(c.name for c in columns[:keys]))
    table = pa.table({c.name: pa.array([r[i] for r in rows], VALUES[c.type][0]) for i, c in enumerate(columns)})
    hidden = {"__at": times, "__seq": seq, "__gone": gone, "__time": times}
    for name, values in hidden.items():
        table = table.append_column(name, pa.array(values))
    state, out = ShardState.empty("nowhere"), Counter()
    names = [c.name for c in columns]
    for number, frontier in enumerate(cuts):
        here = [i for i, batch in enumerate(comes) if batch == number]
        result = Tagger(op).step([Batch(table.take(here) if here else None, frontier)], state)
        state = ShardState.load(state.dump(), "nowhere")
        for row in result.rows.to_pylist() if result.rows is not None else []:
            out[(*plain(row[n] for n in names), row["__time"])] += row["__diff"]
    arranged = state.arrangement("x", "rows", contents_layout(columns)).scan()
    held = Counter({plain(row[n] for n in names): row["__n"] for row in arranged.to_pylist()})
    return {row: n for row, n in out.items() if n}, held


def as_python(types, rows):
    """The drawn values as Arrow gives them back."""
    columns = [pa.array([r[i] for r in rows], VALUES[t][0]).to_pylist() for i, t in enumerate(types)]
    return list(zip(*columns, strict=True))


@effort(150)
@given(record_streams())
def test_the_tagger_keeps_its_law_for_any_types_and_cuts(stream):
    types, keys, rows, times, gone, seq, *_ = stream
    expected = changes_twin(as_python(types, rows), times, gone, seq, keys)
    assert stream_results(*stream) == expected


@pytest.mark.parametrize("hashing", ["CAST(0 AS UBIGINT)", "CAST(1 AS UBIGINT)"])
def test_keys_that_share_a_hash_stay_apart(monkeypatch, hashing):
    monkeypatch.setattr(tagger, "hash_sql", lambda names: hashing)
    rows, times = [(0, "a"), (1, "a"), (0, "b"), (None, "a"), (1, "b"), (0, "b")], [0, 1, 2, 3, 4, 5]
    gone, comes = [False, False, False, False, True, False], [0, 0, 1, 1, 2, 2]
    stream = (["INTEGER", "VARCHAR"], 1, rows, times, gone, list(range(6)), comes, [2, 4, END])
    expected = changes_twin(rows, times, gone, list(range(6)), 1)
    assert stream_results(*stream) == expected
    assert expected[1] == Counter({(0, "b"): 1, (None, "a"): 1})


def test_rows_are_taken_in_pieces(monkeypatch):
    monkeypatch.setattr(sizes, "tagged_rows", 2)
    rows, times = [(i % 2, "x" * i) for i in range(7)], list(range(7))
    stream = (["INTEGER", "VARCHAR"], 1, rows, times, [False] * 7, list(range(7)), [0] * 7, [END])
    assert stream_results(*stream) == changes_twin(rows, times, [False] * 7, list(range(7)), 1)


def test_rows_taken_back_in_a_later_segment_are_not_shown():
    """Forty keys are stored; four leave and four change, in a segment too small to merge; then all eight come again."""
    some = range(0, 40, 5)
    rows = [(k, 0) for k in range(40)] + [(k, 1) for k in some] + [(k, 2) for k in some]
    times, comes = ([at] * 40 + [at + 1] * 8 + [at + 2] * 8 for at in (5, 0))
    gone = [False] * 40 + [True, False] * 4 + [False] * 8
    seq = list(range(len(rows)))
    stream = (["INTEGER", "INTEGER"], 1, rows, times, gone, seq, comes, [6, 7, END])
    assert stream_results(*stream) == changes_twin(rows, times, gone, seq, 1)
