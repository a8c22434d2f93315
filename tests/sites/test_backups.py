"""A site that was restored from a backup is recognised: by what it acknowledges, by what it has sent, by its times."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from tidemill.errors import EngineProblem
from tidemill.plan.physical import BEGINNING
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.messages import NONE, Link, cut_parts, encode, first_seq
from tidemill.runtime.sites.outbox import Outbox


def rows(*times, value=0):
    return pa.table({"v": [value] * len(times), "__seq": list(range(len(times))), "__time": list(times)})


def boxes(folder):
    return Outbox(str(folder / "out"), "e"), Inbox(str(folder / "in"), "e")


def deliver(out, box, committed):
    for data in out.pending(box.head().seq, committed, 1 << 30):
        assert box.append(data)


def refused(code, call):
    with pytest.raises(EngineProblem) as caught:
        call()
    assert caught.value.code == code and caught.value.hint
    return caught.value


def test_only_committed_batches_leave(tmp_path):
    out, _ = boxes(tmp_path)
    out.write(3, rows(1, 2), BEGINNING, 5)
    assert out.pending(NONE, 2, 1 << 30) == [] and len(out.pending(NONE, 3, 1 << 30)) == 1


def test_a_replayed_batch_takes_the_place_of_its_first_attempt(tmp_path):
    out, box = boxes(tmp_path)
    out.write(1, rows(1), BEGINNING, 2)
    out.write(2, rows(2, 3, value=7), 2, 4)
    out.write(2, rows(2), 2, 4)
    deliver(out, box, 2)
    assert [h.rows for h in box.headers(NONE, box.head().seq)] == [1, 1]
    out.write(3, rows(9), 4, 10)
    out.write(3, rows(), 4, 10)
    assert out.last().seq >> 16 == 2, "an attempt with rows and a replay without leave nothing behind"


def test_duplicates_are_dropped_and_gaps_refused(tmp_path):
    out, box = boxes(tmp_path)
    for batch in range(3):
        out.write(batch, rows(batch), batch, batch + 1)
    first, second, third = out.pending(NONE, 2, 1 << 30)
    assert box.append(first) and not box.append(first)
    refused("TM712", lambda: box.append(third))
    assert box.append(second) and box.append(third) and not box.append(second)
    assert box.head().frontier == 3


@pytest.mark.parametrize("at", [0, 30, -3])
def test_a_message_that_was_changed_on_its_way_is_refused(tmp_path, at):
    out, box = boxes(tmp_path)
    out.write(0, rows(1, 2, 3), BEGINNING, 5)
    data, *_ = out.pending(NONE, 0, 1 << 30)  # more than one where messages are short
    broken = bytearray(data)
    broken[at] ^= 1
    refused("TM710", lambda: box.append(bytes(broken)))
    refused("TM710", lambda: box.append(data[:-1]))
    assert box.head().seq == NONE and box.append(data)


def test_a_receiver_that_forgot_what_it_acknowledged_is_refused(tmp_path):
    out, box = boxes(tmp_path)
    for batch in range(2):
        out.write(batch, rows(batch), batch, batch + 1)
    deliver(out, box, 1)
    out.acknowledge(box.head().link, 1)
    assert out.size == 0
    refused("TM711", lambda: out.acknowledge(Link(first_seq(0), 1), 1))
    refused("TM711", lambda: out.acknowledge(Link(), 1))


def test_a_sender_that_forgot_what_it_sent_is_refused(tmp_path):
    out, box = boxes(tmp_path)
    for batch in range(2):
        out.write(batch, rows(batch), batch, batch + 1)
    deliver(out, box, 1)
    restored = Outbox(str(tmp_path / "restored"), "e")
    restored.write(0, rows(0), 0, 1)
    refused("TM711", lambda: restored.acknowledge(box.head().link, 0))
    restored.write(1, rows(1, value=8), 1, 2)  # goes on, another way
    refused("TM711", lambda: restored.acknowledge(box.head().link, 1))
    same = Outbox(str(tmp_path / "same"), "e")  # a replay that does the same is no other history
    for batch in range(2):
        same.write(batch, rows(batch), batch, batch + 1)
    same.acknowledge(box.head().link, 1)


def test_rows_before_a_closed_time_are_refused(tmp_path):
    out, box = boxes(tmp_path)
    out.write(0, rows(1), BEGINNING, 5)
    deliver(out, box, 0)
    late, _ = encode("e", first_seq(1), box.head().link, 9, rows(4))
    refused("TM712", lambda: box.append(late))
    assert box.note(box.head().seq, 7, False, BEGINNING) and not box.note(NONE, 9, False, BEGINNING)
    refused("TM712", lambda: box.append(encode("e", first_seq(1), box.head().link, 9, rows(6))[0]))


def test_a_crash_between_message_and_head_leaves_nothing_that_counts(tmp_path, monkeypatch):
    out, box = boxes(tmp_path)
    out.write(0, rows(1), BEGINNING, 5)
    [data] = out.pending(NONE, 0, 1 << 30)
    monkeypatch.setattr(Inbox, "_write_head", lambda *_: None)
    box.append(data)
    monkeypatch.undo()
    assert box.size > 0 and box.head().seq == NONE
    box.recover()
    assert box.size == 0 and box.append(data)


def test_parts_of_a_batch_close_the_time_of_the_next_part():
    found = cut_parts(rows(1, 2, 2, 2, 3, 9), 1, 20, most=50)
    assert sum(part.num_rows for part, _ in found) == 6 and len(found) > 1
    for (part, closed), (after, _) in pairwise(found):
        assert part.column("__time")[-1].as_py() <= closed == after.column("__time")[0].as_py()
    assert found[-1][1] == 20
