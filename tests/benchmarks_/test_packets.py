"""The generated trace has the shape that paper 002 tells of its own."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import packets


@pytest.fixture(scope="module")
def minutes() -> list[pa.Table]:
    return list(islice(packets.table_minutes(), 2))


def groups(rows: pa.Table, *keys: str) -> int:
    return rows.group_by(list(keys)).aggregate([]).num_rows


def test_rows_come_in_the_order_of_their_times(minutes):
    for number, rows in enumerate(minutes):
        times = rows.column("ts").cast(pa.int64()).to_numpy() - packets.EPOCH_US
        assert np.all(np.diff(times) >= 0)
        assert number * packets.MINUTE_US <= times[0] and times[-1] < (number + 1) * packets.MINUTE_US


def test_a_minute_has_the_groups_of_the_paper(minutes):
    for rows in minutes:
        assert abs(rows.num_rows / (60 * packets.RATE) - 1) < 0.05
        for wanted, keys in (
            (packets.SOURCES, ["sip"]),
            (packets.PAIRS, ["sip", "dip"]),
            (packets.TRIPLES, ["sip", "dip", "sp"]),
            (packets.GROUPS, ["sip", "dip", "sp", "dp"]),
        ):
            assert abs(groups(rows, *keys) / wanted - 1) < 0.05


def test_packets_of_a_group_come_in_flows(minutes):
    """Cut where nothing comes for 50 ms, a group's packets fall into trains of some tens."""
    rows = minutes[0].append_column("at", minutes[0].column("ts").cast(pa.int64()))
    rows = rows.sort_by([*((a, "ascending") for a in packets.ATTRIBUTES), ("at", "ascending")])
    same = np.ones(rows.num_rows - 1, bool)
    for name in packets.ATTRIBUTES:
        same &= np.diff(rows.column(name).to_numpy()) == 0
    close = np.diff(rows.column("at").to_numpy()) < 50_000
    flows = 1 + np.count_nonzero(~(same & close))
    assert 20 < rows.num_rows / flows < 80


def test_the_population_is_a_tree():
    parts = packets.population(np.random.default_rng(0))
    rows = pa.table(parts)
    assert groups(rows, "sip") == packets.SOURCES
    assert groups(rows, "sip", "dip") == packets.PAIRS
    assert groups(rows, "sip", "dip", "sp") == packets.TRIPLES
    assert groups(rows, "sip", "dip", "sp", "dp") == packets.GROUPS


def test_ports_are_ports(minutes):
    for name in ("sp", "dp"):
        low_high = pc.min_max(minutes[0].column(name)).as_py()
        assert low_high["min"] >= 1 and low_high["max"] < 65_536
