"""The inputs of figure 9 of paper 004 fluctuate as the paper says, and runs count what comes out of them."""

from __future__ import annotations

from itertools import pairwise

from benchmarks import data
from benchmarks.temperature import RATE, ROOMS, measure, selecting

TUPLES = 12_000


def tuples_out(readings: list[int], above: int) -> int:
    """Tagged tuples of one room under `Temperature > above`: one for each reading that changes what is shown."""
    shown = [None, *(r if r > above else None for r in readings)]
    return sum(a != b for a, b in pairwise(shown))


def by_room(calm: bool) -> dict[int, list[int]]:
    table = data.temperature_source(TUPLES, ROOMS, RATE, calm)
    found: dict[int, list[int]] = {}
    for room, heat in zip(*(table.column(n).to_pylist() for n in ("RoomID", "Temperature")), strict=True):
        found.setdefault(room, []).append(heat)
    return found


def test_the_example_of_the_paper():
    assert tuples_out([89, 87, 79, 78], 80) == 3
    assert tuples_out([89, 79, 87, 78], 80) == 4


def test_the_wild_stream_goes_in_and_out_more_often_with_the_same_readings():
    calm, wild = by_room(True), by_room(False)
    whole = TUPLES // ROOMS // (data.HOTTEST - data.COLDEST + 1) * (data.HOTTEST - data.COLDEST + 1)
    assert whole > 0
    for room in range(ROOMS):  # in whole runs a room reports every temperature equally often
        assert sorted(calm[room][:whole]) == sorted(wild[room][:whole])
    for above in (80, 86, 92):
        assert sum(tuples_out(r, above) for r in calm.values()) < sum(tuples_out(r, above) for r in wild.values())


def test_a_run_counts_the_tuples_that_come_out():
    for calm in (True, False):
        found = measure(data.readings(TUPLES, ROOMS, RATE, calm=calm), selecting("RoomTempStr", "R.Temperature > 86"))
        assert found["output"] == sum(tuples_out(r, 86) for r in by_room(calm).values())
        assert found["whole"] >= found["seconds"] > 0
