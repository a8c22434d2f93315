"""A port: whatever was sent is read once, in order of arrival, through crashes and slow readers."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from connector_laws import check_cuts, read
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.clock import SteadyClock
from tidemill.runtime.sources.port.framing import Splitter, frame, frame_one_by_one
from tidemill.runtime.sources.port.segments import read_json, segments
from tidemill.runtime.sources.port.spool import Spooler
from tidemill.runtime.sources.registry import open_connector

COLUMNS = (Column("a", "BIGINT"), Column("b", "VARCHAR"))


def port_spec(**settings):
    return SourceSpec("p", "port", COLUMNS, origin={"port": 0}, **settings)


@pytest.fixture
def start(tmp_path):
    """Start spoolers on the test's folder; all are stopped at the end."""
    running = []

    def begin(spec=None, **settings):
        spooler = Spooler(spec or port_spec(), str(tmp_path), **settings)
        spooler.start()
        running.append(spooler)
        return spooler

    yield begin
    for spooler in running:
        if not spooler._stopping.is_set():
            spooler.stop()


def connector(tmp_path, **settings):
    return open_connector(port_spec(**settings), str(tmp_path))


def send(spooler, data: bytes) -> None:
    with socket.create_connection(spooler.address) as sender:
        sender.sendall(data)


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def everything(port, parts=1):
    return read(port, port.initial(), port.latest(port.initial(), None, False, 0).end, parts)


def has_rows(port, count):
    return lambda: sum(len(part) for part in everything(port)) >= count


def test_lines_become_rows_while_the_spooler_runs(tmp_path, start):
    spooler = start()
    before = time.time_ns() // 1000
    send(spooler, b'1,x\r\n\n{"a":2,"b":"y"}\n3,z')
    port = connector(tmp_path)
    wait_for(has_rows(port, 3))
    rows, bad = everything(port)
    assert bad == [] and rows.column("a").to_pylist() == [1, 2, 3]
    assert rows.column("b").to_pylist() == ["x", "y", "z"]
    assert all(before <= t <= time.time_ns() // 1000 for t in rows.column("__arrival").to_pylist())


def test_json_port(tmp_path, start):
    send(start(port_spec(format="json")), b'{"a":1}\n[2,"x"]\nnope\n')
    port = connector(tmp_path, format="json")
    wait_for(has_rows(port, 3))
    rows, bad = everything(port)
    assert rows.column("a").to_pylist() == [1, 2] and len(bad) == 1


def test_bad_lines_are_put_aside(tmp_path, start):
    spec = port_spec(options={"max_record_bytes": 50})
    send(start(spec), b"x,1\n1\n2,\xff\n3," + b"y" * 100_000 + b"\n4,ok\n")
    port = connector(tmp_path, options={"max_record_bytes": 50})
    wait_for(has_rows(port, 5))
    rows, bad = everything(port)
    assert rows.column("a").to_pylist() == [4]
    assert [row["reason"] for row in bad] == [
        'column "a": cannot read "x" as BIGINT',
        "1 fields where 2 were expected",
        "not valid UTF-8",
        "record of 100002 bytes exceeds 50 bytes",
    ]
    assert len(bad[3]["raw"]) == 64 * 1024 and bad[3]["raw"].startswith(b"3,yy")
    assert json.loads(bad[0]["position"]) == {"byte": 0}
    with pytest.raises(SourceProblem, match="TM400"):
        everything(connector(tmp_path, on_error="fail"))


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.text("ab\r", max_size=8).map(str.encode), max_size=8),
    limit=st.integers(1, 10),
    cuts=st.lists(st.integers(0, 60)),
)
def test_lines_do_not_depend_on_how_they_arrive(lines, limit, cuts):
    data = b"\n".join(lines)

    def split(pieces):
        splitter = Splitter(limit)
        return [line for piece in pieces for line in splitter.feed(piece)] + splitter.rest()

    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert split([data[a:b] for a, b in pairwise(borders)]) == split([data])


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.text("ab\r", max_size=8).map(str.encode), max_size=8),
    limit=st.integers(1, 10),
    cuts=st.lists(st.integers(0, 60)),
)
def test_blocks_are_framed_as_lines_are(lines, limit, cuts):
    data = b"\n".join(lines)
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter, framed = Splitter(limit), []
    for piece in (data[a:b] for a, b in pairwise(borders)):
        block = splitter.block(piece)
        if block is None:
            framed.append(frame_one_by_one(splitter.feed(piece), 7))
        elif block:
            found = frame(block, 7, limit)
            framed.append(frame_one_by_one(Splitter(limit).feed(block), 7) if found is None else found)  # type: ignore[arg-type]
    framed.append(frame_one_by_one(splitter.rest(), 7))
    plain = Splitter(limit)
    assert b"".join(framed) == frame_one_by_one([*plain.feed(data), *plain.rest()], 7)


@pytest.mark.parametrize("tail", [b"\n", b"\r\n", b""])
def test_a_long_line_is_measured_however_it_arrives(tail):
    line = b"x" * 300_000
    for step in (1 << 20, 70_000, 65_537, 4096):
        splitter, data = Splitter(1000), line + tail
        found = [r for i in range(0, len(data), step) for r in splitter.feed(data[i : i + step])] + splitter.rest()
        assert len(found) == 1 and found[0][0][:8] == (300_000).to_bytes(8, "little")
        assert len(found[0][0]) == 8 + 64 * 1024


def spool(folder, batches, segment_bytes=100, **settings):
    """A spool written by a spooler without its network."""
    spooler = Spooler(port_spec(), str(folder), segment_bytes=segment_bytes, **settings)
    spooler.start()
    for batch in batches:
        spooler._append([(line, 0) for line in batch])
    spooler.stop()


LINES = st.sampled_from([b"1,x", b"22,yy", b"oops", b'{"a":3}', b"4,\xff", b"5,long enough to fill"])


@settings(max_examples=25, deadline=None)
@given(
    batches=st.lists(st.lists(LINES, min_size=1, max_size=6), min_size=1, max_size=5),
    batch=st.integers(1, 8),
    parts=st.integers(1, 4),
    timestamp=st.sampled_from([None, "a"]),
)
def test_small_steps_equal_one_big_step(batches, batch, parts, timestamp):
    with tempfile.TemporaryDirectory() as name:
        spool(name, batches)
        port = connector(name, timestamp=timestamp)
        cuts, exhausted = [port.initial()], False
        while not exhausted:
            progress = port.latest(cuts[-1], batch, False, 0)
            later, _ = read(port, progress.end, port.latest(progress.end, None, False, 0).end)
            if timestamp is None:
                assert all(t >= progress.clock for t in later.column("__arrival").to_pylist())
            cuts.append(progress.end)
            exhausted = progress.exhausted
        rows, bad = check_cuts(port, cuts, parts)
        assert rows.num_rows + len(bad) == sum(map(len, batches))
        for start_, end in pairwise(cuts):
            some, wrong = read(port, start_, end)
            assert some.num_rows + len(wrong) <= batch


def test_several_senders_at_once_lose_nothing(tmp_path, start):
    spooler = start(segment_bytes=4096)
    senders = [
        threading.Thread(target=send, args=(spooler, b"".join(b"%d,s%d\n" % (i, s) for i in range(2000))))
        for s in range(4)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    port = connector(tmp_path)
    wait_for(has_rows(port, 8000))
    rows, _ = everything(port, parts=3)
    for s in range(4):
        mine = [r["a"] for r in rows.to_pylist() if r["b"] == f"s{s}"]
        assert mine == list(range(2000))


def test_a_fast_sender_is_held_back_and_nothing_is_lost(tmp_path, start):
    spooler = start(port_spec(options={"backlog_bytes": 50_000}), segment_bytes=20_000)
    count, sent = 120_000, threading.Event()

    def rush():
        send(spooler, b"".join(b"%d,%s\n" % (i, b"z" * 60) for i in range(count)))
        sent.set()

    threading.Thread(target=rush, daemon=True).start()
    port = connector(tmp_path)
    position, seen, held = port.initial(), [], False
    # Nothing is committed yet: the spool stops growing although the sender has more.
    wait_for(lambda: port.latest(position, None, True, 0).end["byte"] > 50_000)
    time.sleep(0.5)
    first = port.latest(position, None, True, 0).end
    time.sleep(0.3)
    held = port.latest(position, None, True, 0).end == first and not sent.is_set()
    assert held and first["byte"] < 50_000 + 4 * (256 << 10)
    deadline = time.monotonic() + 60
    while len(seen) < count and time.monotonic() < deadline:
        end = port.latest(position, None, True, 0).end
        seen += read(port, position, end)[0].column("a").to_pylist()
        position = end
        port.trim(position)
        time.sleep(0.01)
    assert seen == list(range(count))
    assert len(segments(tmp_path)) <= 2


def test_a_torn_tail_is_cut_off(tmp_path):
    spool(tmp_path, [[b"1,x", b"2,y"]], segment_bytes=10_000)
    before, _ = everything(connector(tmp_path))
    (segment,) = segments(tmp_path)
    for torn in (b"\x01", b"\x00" * 40, (5).to_bytes(8, "little") + (100).to_bytes(4, "little") + b"half"):
        with open(segment.path, "ab") as file:
            file.write(torn)
        assert everything(connector(tmp_path))[0].equals(before)
        spool(tmp_path, [])
        assert os.path.getsize(segment.path) == segment.end
    spool(tmp_path, [[b"3,z"]])
    assert everything(connector(tmp_path))[0].column("a").to_pylist() == [1, 2, 3]


def test_complete_records_behind_the_head_survive_a_crash(tmp_path):
    spool(tmp_path, [[b"1,x"], [b"2,y"]], segment_bytes=10_000)
    head = json.loads((tmp_path / "head").read_text())
    (tmp_path / "head").write_text(json.dumps({"byte": 0, "clock": 5}))
    assert everything(connector(tmp_path))[0].column("a").to_pylist() == [1, 2]
    spool(tmp_path, [])
    assert json.loads((tmp_path / "head").read_text())["byte"] == head["byte"]


def test_a_lost_visible_record_is_reported(tmp_path):
    spool(tmp_path, [[b"1,x"], [b"2,y"]], segment_bytes=10_000)
    (segment,) = segments(tmp_path)
    os.truncate(segment.path, 10)
    with pytest.raises(SourceProblem, match="TM406"):
        spool(tmp_path, [])
    with pytest.raises(SourceProblem, match="TM406"):
        everything(connector(tmp_path))


def test_trim_deletes_whole_segments_and_keeps_the_rest_readable(tmp_path):
    spool(tmp_path, [[b"%d,some text to fill it" % i] for i in range(20)], segment_bytes=100)
    port = connector(tmp_path)
    middle = port.latest(port.initial(), 11, False, 0).end
    whole, _ = everything(port)
    end = port.latest(port.initial(), None, False, 0).end
    count = len(segments(tmp_path))
    port.trim(middle)
    port.trim(port.initial())
    assert len(segments(tmp_path)) < count
    assert read_json(tmp_path / "committed") == middle
    assert read(port, middle, end)[0].equals(whole.slice(11).combine_chunks())
    with pytest.raises(SourceProblem, match="TM406"):
        read(port, port.initial(), end)
    spool(tmp_path, [[b"99,after"]])
    assert read(port, middle, port.latest(middle, None, False, 0).end)[0].column("a").to_pylist()[-1] == 99


def test_the_clock_moves_without_data_and_never_passes_a_record(tmp_path, start):
    spooler = start()
    port = connector(tmp_path)
    first = port.latest(port.initial(), None, True, 0)
    wait_for(lambda: port.latest(port.initial(), None, True, 0).clock > first.clock + 300_000)
    stop = threading.Event()

    def chatter():
        with socket.create_connection(spooler.address) as sender:
            i = 0
            while not stop.is_set():
                sender.sendall(b"%d,x\n" % i)
                i += 1
                time.sleep(0.001)

    thread = threading.Thread(target=chatter)
    thread.start()
    promises, position = [], port.initial()
    for _ in range(12):
        progress = port.latest(position, None, True, 0)
        promises.append((progress.end["byte"], progress.clock))
        time.sleep(0.05)
    stop.set()
    thread.join()
    spooler.stop()
    rows, _ = everything(port)
    pairs = list(zip(rows.column("__seq").to_pylist(), rows.column("__arrival").to_pylist(), strict=True))
    assert len(pairs) > 20 and promises == sorted(promises)
    assert all(arrival >= clock for byte, clock in promises for seq, arrival in pairs if seq >= byte)


def test_arrivals_never_decrease_when_the_wall_clock_does(tmp_path):
    for now, line in ((1000, b"1,x"), (400, b"2,y"), (1500, b"3,z")):

        def clock(last, now=now):
            return SteadyClock(last, wall=lambda: now, steady=lambda: 0)

        spool(tmp_path, [[line], [line]], segment_bytes=10_000, clock=clock)
    port = connector(tmp_path)
    assert everything(port)[0].column("__arrival").to_pylist() == [1000] * 4 + [1500] * 2
    assert port.latest(port.initial(), None, False, 0).clock == 1500


def test_a_port_in_use_is_reported_with_a_hint(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        spec = SourceSpec("p", "port", COLUMNS, origin={"port": other.getsockname()[1]})
        with pytest.raises(SourceProblem, match="TM405") as caught:
            Spooler(spec, str(tmp_path)).start()
    assert "another port" in caught.value.hint
    spool(tmp_path, [])


def test_two_spoolers_cannot_share_a_folder(tmp_path, start):
    start()
    with pytest.raises(SourceProblem, match="TM406"):
        start()


def test_stop_keeps_what_was_received_and_leaves_a_half_line_to_the_sender(tmp_path, start):
    spooler = start()
    with socket.create_connection(spooler.address) as sender:
        sender.sendall(b"1,x\n2,y\n3,ha")
        wait_for(lambda: spooler._byte > 0)
        spooler.stop()
    assert everything(connector(tmp_path))[0].column("a").to_pylist() == [1, 2]


def test_a_port_takes_lines_only(tmp_path):
    with pytest.raises(SourceProblem, match="TM402"):
        connector(Path(tmp_path), format="parquet")
