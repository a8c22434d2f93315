"""Ticks travel as JSON and come back as they were, with all that they carry."""

from __future__ import annotations

from tidemill.plan.measured.joins import HotKeyCounts, JoinCounts, JoinInputCounts
from tidemill.runtime.messages.operator_counts import OperatorCount, ShedCount
from tidemill.runtime.messages.source_counts import Tally
from tidemill.runtime.messages.ticks import (
    BatchNote,
    ReaderTick,
    SecondReading,
    ShardTick,
    SourceNote,
    decode_reader_tick,
    decode_shard_tick,
    encode_tick,
)

HOT = HotKeyCounts(2**64 - 1, "a, b", 800.5, (3.0, 4.0))
JOINS = {"j1": JoinCounts((JoinInputCounts(stored=1, changes=2), JoinInputCounts()), 9, 70, (1, 60), 3, (HOT,))}


def shard_tick(joins: dict[str, JoinCounts]) -> ShardTick:
    """A tick of a shard whose aggregation joins have counted this."""
    return ShardTick(
        plan=7,
        offset="00ff",
        final=0,
        sources={"S": {"top": 5, "floor": 4, "first": None}},
        tallies={"S": Tally(rows=2, undeclared={"x": 1}, files=["bad"])},
        loops={"l": 3},
        outputs=[5],
        failed={},
        state_rows=1,
        state_bytes=2,
        state_files=3,
        seconds=0.25,
        waits={"op": 9},
        clock=5,
        lfta={},
        joins=joins,
        shed={"op": ShedCount("S", ("k",), 2)},
        inbox=["f"],
        peek=1,
        peeks={"g": {"l": 3}},
        operators={"op": OperatorCount(2, 1, 0.5)},
        ends={"o": (4, 6)},
    )


def test_a_tick_of_a_reader_comes_back():
    source = SourceNote(clock=5, second=SecondReading(True, 0.5, 4))
    note = BatchNote(3, sources={"S": source, "T": SourceNote()})
    tick = ReaderTick(0, 7, note, {"S": Tally(rows=2)}, {"l": 1}, operators={"op": OperatorCount(1, 1, 0.0)})
    assert decode_reader_tick(encode_tick(tick)) == tick


def test_a_tick_of_a_shard_comes_back():
    tick = shard_tick(JOINS)
    assert decode_shard_tick(encode_tick(tick)) == tick
    again = decode_shard_tick(encode_tick(tick)).joins["j1"]
    assert isinstance(again.hot[0], HotKeyCounts) and isinstance(again.inputs[0], JoinInputCounts)
