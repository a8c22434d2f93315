"""What the offsets of a source keep for a second reading: where time was closed further than the rows say."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.plan.measured.sources import Sources
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.checkpoint.offsets import Jump, SourceOffset
from tidemill.runtime.messages.ticks import BatchNote, SecondReading, SourceNote
from tidemill.runtime.planning.second_readings import MOST_JUMPS, note_jump
from tidemill.runtime.stage.second_readings import follow_first_readings

SPEC = SourceSpec("S", "generate", (Column("at", "BIGINT"),), timestamp="at", lateness_us=2)
SECOND = SourceSpec("S#history2", "generate", SPEC.columns, timestamp="at", lateness_us=2, rereads="S")
PLAN = Physical(1, 1, (0,), (SPEC, SECOND))


def entry(row: int, jumps: Iterable[Jump] | None = None) -> SourceOffset:
    return SourceOffset({"row": row}, top=10, floor=8, jumps=None if jumps is None else tuple(jumps))


def jump(before, row=9, floor=8, others=()):
    return note_jump(PLAN, SPEC, {"S": before, **dict(others)}, entry(row), {"top": 10, "floor": floor})


def test_time_that_the_rows_have_closed_is_no_jump():
    assert note_jump(PLAN, SPEC, {}, entry(5), None) == ()
    assert jump(entry(5, jumps=[])) == ()


def test_a_jump_is_noted_when_rows_are_read_on():
    assert jump(entry(5, jumps=[]), row=5, floor=11) == ()
    assert jump(entry(5, jumps=[]), floor=11) == (Jump({"row": 5}, 11),)
    assert jump(entry(7, jumps=[Jump({"row": 5}, 11)]), floor=11) == (Jump({"row": 5}, 11),)


def test_what_was_not_noted_from_the_beginning_is_not_known():
    assert jump(entry(5), floor=11) is None
    many = [Jump({"row": n}, n - 1000) for n in range(MOST_JUMPS)]
    caught_up, behind = ({"S#history2": entry(row)} for row in (500, 3))
    assert jump(entry(500, jumps=many), row=501, floor=11, others=caught_up) is None
    assert jump(entry(500, jumps=many), row=501, floor=11, others=behind) == (*many, Jump({"row": 500}, 11))


def test_a_second_reading_is_closed_as_the_first_was_and_then_with_it():
    known: Sources = {"S": {"top": 30, "floor": 31, "first": 1}, "S#history2": {"top": 9, "floor": 7}}

    def follow(**said):
        second = SecondReading(**{"behind": True, "share": 0.3, "floor": BEGINNING, **said})
        follow_first_readings(known, PLAN, BatchNote(sources={"S#history2": SourceNote(second=second)}))
        return known["S#history2"]

    assert follow() == {"top": 9, "floor": 7, "behind": True, "share": 0.3}
    assert follow(floor=8)["floor"] == 8
    assert follow(behind=False, share=1.0) == {"top": 30, "floor": 31, "first": 1, "behind": False, "share": 1.0}
