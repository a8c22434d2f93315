"""Dead letters are made in blocks: the text of a row is that of Python's JSON, a late row costs no Python object."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.python_values import json_text, python_rows
from tidemill.runtime.messages.dead_letters import make_dead_letters, present_letters, row_positions, row_texts
from tidemill.runtime.sources.records import RAW_BYTES

ROWS, NANOSECONDS = 200_000, 1_000
moments = (
    st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(-(10**15), 10**15)
    | st.sampled_from(
        [0, 999_999, 1_000_000, -1, -62_135_596_800_000_000, -62_135_596_800_000_001, 253_402_300_799_999_999]
    )
)
COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "a": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    'b "quoted"': (pa.string(), st.text(max_size=4) | st.sampled_from(["", "plain", "a\\b", 'a"b', "é", "\x7f", "\n"])),
    "c": (pa.float64(), st.floats()),
    "d": (pa.bool_(), st.booleans()),
    "e": (pa.binary(), st.binary(max_size=3)),
    "t": (pa.int64(), moments),
    "u": (pa.uint64(), st.integers(0, (1 << 64) - 1)),
}
rows_drawn = st.lists(st.tuples(*(st.none() | values for _, values in COLUMNS.values())), max_size=6)


@effort(200)
@given(rows_drawn, st.sets(st.sampled_from(list(COLUMNS))), st.integers(0, 2))
def test_the_text_of_a_row_is_its_json(drawn: list[Any], shown: set[str], skip: int) -> None:
    columns = {name: pa.array([row[i] for row in drawn], kind) for i, (name, (kind, _)) in enumerate(COLUMNS.items())}
    columns["t"] = columns["t"].cast(pa.timestamp("us"))
    table = pa.table({"__seq": pa.array(range(len(drawn)), pa.int64())} | {n: columns[n] for n in sorted(shown)})
    table = pa.concat_tables([table.slice(skip), table.slice(0, skip)])
    plain = [json_text(row).encode() for row in python_rows(table.drop_columns(["__seq"]))]
    assert row_texts(table).to_pylist() == (plain if shown else [b"{}"] * table.num_rows)


def test_a_long_row_is_cut() -> None:
    texts = row_texts(pa.table({"a": ["x" * (2 * RAW_BYTES), "y"]})).to_pylist()
    assert [len(t) for t in texts] == [RAW_BYTES, len('{"a": "y"}')]


def test_sources_are_shown_by_name_and_bytes_as_text() -> None:
    letters = pa.concat_tables(
        [
            make_dead_letters("S@2", "late", pa.array([b"ok"], pa.binary())),
            make_dead_letters("view:7", "bad", pa.array([b"\xff"], pa.binary())),
        ]
    )
    shown = present_letters(letters, {"view:7": "V"}).to_pylist()
    assert [(r["source"], r["raw"], r["position"]) for r in shown] == [("S", "ok", ""), ("V", "\ufffd", "")]


@pytest.mark.parametrize("kinds", [("int", "int", "time"), ("int", "text", "time")])
def test_a_late_row_costs_less_than_a_microsecond(kinds: tuple[str, ...]) -> None:
    """10 M late rows took minutes: 15 microseconds each."""
    numbers = np.arange(ROWS) * 7919 % 100_003
    made = {
        "int": pa.array(numbers),
        "text": pa.array(numbers).cast(pa.string()),
        "time": pa.array(numbers * 1_000_003).cast(pa.timestamp("us")),
    }
    table = pa.table({f"c{i}": made[kind] for i, kind in enumerate(kinds)} | {"__seq": pa.array(numbers)})

    def cost() -> float:
        began = time.process_time()
        present_letters(make_dead_letters("S", "late", row_texts(table), row_positions(table)), {})
        return (time.process_time() - began) / ROWS * 1e9

    assert min(cost() for _ in range(3)) < NANOSECONDS
