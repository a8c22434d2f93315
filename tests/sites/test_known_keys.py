"""What fragments whose keys stay known ship, predicted and counted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tidemill.optimize.sites import OneWayJoin, SiteStream, list_known_shipments

LEFT = SiteStream("n1", 200, 2.0, 600, 36, 400)
RIGHT = SiteStream("n2", 150, 2.0, 300, 16, 1000)
SEMIJOINS = ("SM-S1", "SM-S2", "SM-D1", "SM-D2", "BLOOM")


def count_shipped(name: str, join: OneWayJoin, age: int, seed: int) -> dict[str, float]:
    """Bytes in the second after `age`, by what the fragments say: a value is sent when it is new."""
    rng = np.random.default_rng(seed)
    ends = {"first": join.first, "second": join.second}
    near, far = ("second", "first") if name in ("SM-D1", "SM-D2") else ("first", "second")
    drawn = {k: rng.integers(0, int(s.distinct), int(s.rate * (age + 1))) for k, s in ends.items()}
    cut = {k: int(s.rate * age) for k, s in ends.items()}
    before = {k: set(v[: cut[k]].tolist()) for k, v in drawn.items()}
    after = {k: set(v.tolist()) for k, v in drawn.items()}
    found = {}
    keys_before, keys_after = before[near], after[near]
    if name.endswith("2"):
        found[f"keys of {far}"] = len(after[far] - before[far]) * ends[far].partial
        keys_before, keys_after = keys_before & before[far], keys_after & after[far]
    size = 4 if name == "BLOOM" else ends[near].partial
    found[f"keys of {near}"] = len(keys_after - keys_before) * size
    rows = sum(v in before[near] for v in drawn[far][cut[far] :].tolist())
    found[f"rows of {far}"] = rows * ends[far].full
    return found


@pytest.mark.parametrize("name", SEMIJOINS)
@pytest.mark.parametrize("age", [2, 10])
def test_predicted_bytes_of_fragments_are_those_counted(name, age):
    join = OneWayJoin(LEFT, RIGHT, 0.1)
    predicted = {s.what: s.bytes for s in list_known_shipments(name, join, age)}
    counted = [count_shipped(name, join, age, seed) for seed in range(30)]
    assert set(predicted) == set(counted[0])
    total = sum(sum(c.values()) for c in counted) / len(counted)
    assert sum(predicted.values()) == pytest.approx(total, rel=0.05)


def test_steady_keys_cost_nothing_and_all_matching_rows_cross():
    join = OneWayJoin(LEFT, RIGHT, 0.1)
    keys, rows = list_known_shipments("SM-S1", join, age=1000)
    assert keys.bytes == pytest.approx(0, abs=1e-6)
    assert rows.bytes == pytest.approx(150 * 300 * 0.4)


def test_shipping_all_has_one_shipment_and_one_site_has_none():
    join = OneWayJoin(LEFT, RIGHT, 0.1)
    assert [(s.what, s.source, s.bytes) for s in list_known_shipments("SP-D", join, 5)] == [
        ("rows of first", "n1", 120_000)
    ]
    assert list_known_shipments("SM-S1", OneWayJoin(LEFT, replace(RIGHT, site="n1"), 0.1), 5) == []


def test_fingerprints_are_cheaper_where_keys_are_long_and_many():
    chance = random.Random(3)
    for _ in range(20):
        left = replace(LEFT, partial=chance.choice([8, 36, 100]), distinct=100_000)
        join = OneWayJoin(left, replace(RIGHT, distinct=2_000_000), 0.1)
        keys, prints = (sum(s.bytes for s in list_known_shipments(name, join, age=10)) for name in ("SM-S1", "BLOOM"))
        assert prints < keys
