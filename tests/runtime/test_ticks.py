"""Ticks travel as JSON and come back as they were, with all that they carry."""

from __future__ import annotations

import json
from dataclasses import replace

from tidemill.engine.run.reports import describe_progress
from tidemill.plan.measured.joins import HotKeyCounts, JoinCounts, JoinInputCounts
from tidemill.plan.measured.windows import GroupCounts, ReaderCounts, ShareSize, SourceCounts, TableCounts, TrialCounts
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
from tidemill.runtime.views.batch_summary import summarize

HOT = HotKeyCounts(2**64 - 1, "a, b", 800.5, (3.0, 4.0))
JOINS = {"j1": JoinCounts((JoinInputCounts(stored=1, changes=2), JoinInputCounts()), 9, 70, (1, 60), 3, (HOT,))}
COUNTED = ReaderCounts(
    rows=9,
    first=1,
    last=8,
    flushes=1,
    relations=(TableCounts(9, 1, 2, 3), TableCounts(6, 0, 0, 1)),
    block=GroupCounts(9, (2.5, 1.0)),
    tables=TrialCounts(9, ((3.0, 2.0), (1.0, 1.0))),
    patterns={"3": 4, "1": 5},
)
LFTA = {"S": SourceCounts(**vars(COUNTED), sizes=(32, 256), share=ShareSize(9.0, 7.0), spans=((1, 8),))}


def shard_tick(joins: dict[str, JoinCounts]) -> ShardTick:
    """A tick of a shard whose aggregation joins have counted this."""
    return ShardTick(
        plan=7,
        offset=255,
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
        lfta=LFTA,
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
    tick = ReaderTick(0, 7, note, {"S": Tally(rows=2)}, {"l": 1}, lfta={"S": [COUNTED]})
    assert decode_reader_tick(encode_tick(tick)) == tick


def test_a_tick_of_a_shard_comes_back():
    tick = shard_tick(JOINS)
    assert decode_shard_tick(encode_tick(tick)) == tick
    again = decode_shard_tick(encode_tick(tick))
    assert again.joins["j1"].hot[0].pairs == 800.5 and again.lfta["S"].relations[0].flushed == 3


def test_a_join_that_failed_in_one_shard_has_no_counts():
    """Its views stop; the batch goes on, and the counts of the other shards say nothing of the whole join."""
    ticks = [shard_tick(JOINS), replace(shard_tick({}), failed={"j1": "out of memory"})]
    assert summarize(4, ticks)["joins"] == summarize(4, ticks[::-1])["joins"] == {}
    assert summarize(4, ticks[:1])["joins"] == {"j1": [JOINS["j1"]]}


def test_progress_of_a_run_is_plain():
    """What a run tells its caller after a batch can be written as JSON."""
    told = json.loads(json.dumps(describe_progress([summarize(4, [shard_tick(JOINS)])], 0.0)))
    assert told["rows"] == 2 and told["lfta"]["S"]["spans"] == [[1, 8]]
    assert told["joins"]["j1"][0]["inputs"][0]["stored"] == 1
