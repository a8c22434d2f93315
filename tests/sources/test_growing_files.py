"""Text that grows is read on: each line once, whatever is appended when, and however the reading is cut or restarted.

Files that change in another way are said by name, once.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_laws import read, steps
from following import Follower, append, files, text
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.errors import SourceProblem
from tidemill.runtime.sources.files.repairs import relist
from tidemill.runtime.thresholds import changed, mixed


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


ACTIONS = ("append", "append", "append", "read", "read", "restart", "trim", "logged")


@effort(120)
@given(
    data=st.data(),
    form=st.sampled_from(["csv", "jsonl"]),
    tail=st.booleans(),
    live=st.booleans(),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    timestamp=st.sampled_from([None, "id"]),
)
def test_appends_at_any_moment_equal_one_read_of_everything(data, form, tail, live, sizes, timestamp):
    """With tail = true a file may end anywhere between two reads; without it, at the end of a line."""
    wanted = [text(form, 100 * i, size) for i, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as name, mixed(data.draw(st.integers(0, 99))):
        folder = Path(name)
        (folder / "in").mkdir()
        follower = Follower(folder, timestamp=timestamp, options={"tail": True} if tail else {})
        left = list(wanted)
        for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=14)):
            if action == "append":
                i = data.draw(st.integers(0, len(left) - 1))
                ends = [0, len(left[i])] if tail else [0]
                ends += [k + 1 for k, octet in enumerate(left[i]) if octet == 10]
                cut = data.draw(st.integers(0, len(left[i])) if tail else st.sampled_from(ends))
                append(folder / "in" / f"{i}.{form}", left[i][:cut])
                left[i] = left[i][cut:]
            elif action == "read":
                follower.read(data.draw(st.sampled_from([None, 1, 2, 5])), live, data.draw(st.integers(1, 3)))
            elif action == "trim":
                follower.trim()
            else:
                if action == "logged":  # a crash after files were listed, before anything of them was read
                    follower.connector.latest(follower.position, 1, live, follower.now)
                follower.restart()
        for i, rest in enumerate(left):
            append(folder / "in" / f"{i}.{form}", rest)
        while not follower.read(3):
            pass
        assert sorted(follower.ids()) == sorted(100 * i + k for i, size in enumerate(sizes) for k in range(size))
        assert follower.bad == []
        follower.check()


def test_a_file_that_grows_is_read_on(folder):
    path = folder / "in" / "access.json"
    append(path, text("json", 0, 3))
    follower = Follower(folder)
    follower.read()
    append(path, text("json", 3, 2))
    follower.read()
    assert follower.ids() == [0, 1, 2, 3, 4]
    assert follower.read() and len(follower.rows) == 5


def test_the_header_is_at_the_beginning_only(folder):
    path = folder / "in" / "a.csv"
    path.write_text("b,id\nx,1\n")
    follower = Follower(folder)
    follower.read()
    append(path, b"y,2\n")
    follower.read()
    assert [(r["id"], r["b"]) for r in follower.rows] == [(1, "x"), (2, "y")] and follower.bad == []


@pytest.mark.parametrize("first", ["i", "id,b", "id,b\r", "id,b\n"])
def test_a_header_that_comes_in_parts(folder, first):
    path = folder / "in" / "a.csv"
    path.write_text(first)
    follower = Follower(folder, options={"tail": True})
    follower.read()
    append(path, b"id,b\r\n1,x\r\n"[len(first) :] if first != "id,b\n" else b"1,x\n")
    follower.read()
    assert follower.ids() == [1] and follower.bad == []


def test_a_half_line_waits_for_its_rest_live(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n2,")
    follower = Follower(folder)
    follower.read(live=True)
    assert follower.ids() == [1]
    append(path, b"y\n3,")
    follower.read(live=True)
    assert follower.ids() == [1, 2] and follower.rows[1]["b"] == "y"
    os.utime(path, (1, 1))
    follower.read(live=True)
    assert [(r["id"], r["b"]) for r in follower.rows[2:]] == [(3, None)], "the file has rested"


def test_a_half_line_is_taken_when_the_file_has_rested(folder):
    (folder / "in" / "a.csv").write_text("id,b\n1,x\n2,y")
    follower = Follower(folder, options={"settle_seconds": 0.05})
    follower.read(live=True)
    assert follower.ids() == [1]
    until = time.monotonic() + 10
    while len(follower.rows) < 2 and time.monotonic() < until:
        follower.read(live=True)
        time.sleep(0.05)
    assert follower.ids() == [1, 2]


def test_what_was_appended_while_others_were_read_belongs_to_the_run(folder):
    path = folder / "in" / "a.jsonl"
    append(path, text("json", 0, 9))
    follower = Follower(folder)
    assert not follower.read(1)
    append(path, text("json", 9, 3))
    while not follower.read(4):
        pass
    assert follower.ids() == list(range(12))


def test_a_finite_run_takes_a_last_line_without_line_end(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n2,y")
    follower = Follower(folder)
    follower.read()
    assert follower.ids() == [1, 2]
    append(path, b"\n3,z")
    follower.read()
    append(path, b"\r\n4,w\r\n")
    follower.read()
    assert follower.ids() == [1, 2, 3, 4] and follower.bad == []


def test_the_rest_of_a_line_that_was_taken_is_bad(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n2")
    follower = Follower(folder, options={"header": True})
    follower.read()
    append(path, b"3,y\n4,z\n")
    follower.read()
    assert follower.ids() == [1, 4]
    assert [bad["raw"] for bad in follower.bad] == [b"2", str(path).encode()]
    assert "WITH (tail = true)" in follower.bad[1]["reason"]
    append(path, b"5,v\n")
    follower.read()
    assert follower.ids() == [1, 4, 5]
    follower.check()


CHANGES = {
    "shorter": (lambda path: path.write_text("id,b\n1,x\n"), "it had 13 bytes and has 9"),
    "rewritten": (lambda path: path.write_text("id,b\n7,x\n8,y\n"), "other content"),
    "replaced by a longer one": (lambda path: path.write_text("id,b\n7,x\n8,y\n9,z\n"), "not its beginning any more"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_otherwise_is_said_once(folder, change):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n2,y\n")
    os.utime(path, (1, 1))
    follower = Follower(folder)
    follower.read()
    how, reason = CHANGES[change]
    how(path)
    follower.read()
    append(path, b"99,no\n")
    follower.restart()
    follower.read()
    assert follower.ids() == [1, 2]
    (bad,) = follower.bad
    assert bad["raw"] == str(path).encode() and reason in bad["reason"] and "has changed" in bad["reason"]
    del follower.ranges[0]  # of the file as it was
    follower.check()


@pytest.mark.parametrize("at", [0, -1])
def test_both_ends_of_what_was_read_tell_a_long_file_from_another(folder, at):
    path = folder / "in" / "a.jsonl"
    lines = text("json", 10_000, 3000).splitlines(keepends=True)
    path.write_bytes(b"".join(lines))
    follower = Follower(folder)
    follower.read()
    append(path, text("json", 13_000, 1))
    follower.read()
    assert follower.ids() == list(range(10_000, 13_001)) and follower.bad == []
    lines[at] = lines[at].replace(b"1", b"2", 1)
    path.write_bytes(b"".join(lines) + text("json", 13_000, 2))
    follower.read()
    assert len(follower.rows) == 3001 and "not its beginning" in follower.bad[0]["reason"]


def test_a_changed_file_is_named_beside_the_rows(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n2,y\n")
    follower = Follower(folder)
    follower.read()
    path.write_text("id,b\n")
    end = follower.connector.latest(follower.position, None, False, 9).end
    (piece,) = follower.connector.split(follower.position, end, 1)
    (chunk,) = follower.connector.read(piece)
    assert len(chunk.files) == 1 and chunk.files[0].startswith(f"{path}: the file has changed")
    with pytest.raises(SourceProblem, match="TM400"):
        list(files(folder, on_error="fail").read(piece))


def test_parquet_that_changed_is_said_and_touching_is_no_change(folder):
    path = folder / "in" / "a.parquet"
    pq.write_table(pa.table({"id": [1], "b": ["x"]}), path)
    follower = Follower(folder)
    follower.read()
    os.utime(path, (1, 1))
    follower.read()
    assert follower.bad == []
    pq.write_table(pa.table({"id": [1, 2], "b": ["x", "y"]}), path)
    follower.read()
    assert follower.ids() == [1] and len(follower.bad) == 1


def test_without_tail_growth_is_a_change(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n")
    follower = Follower(folder, options={"tail": False})
    follower.read()
    append(path, b"2,y\n")
    follower.read()
    assert follower.ids() == [1] and "has changed" in follower.bad[0]["reason"]


def test_a_file_may_go_when_it_was_read(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n")
    follower = Follower(folder)
    follower.read()
    path.unlink()
    assert follower.read() and follower.bad == []


def test_a_file_rewritten_before_it_was_read_stops_the_reading(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n")
    connector = files(folder)
    end = steps(connector, None)[-1]
    path.write_text("id,b\n7,x\n")
    with pytest.raises(SourceProblem, match="TM401"):
        read(connector, connector.initial(), end)


def test_a_log_of_an_older_version_stays_as_it_was(folder):
    """Its entries say nothing of what the files looked like: they are not looked at again."""
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n")
    facts = path.stat()
    (folder / "db").mkdir()
    (folder / "db" / "files.jsonl").write_text(
        json.dumps(
            {
                "n": 0,
                "path": str(path),
                "size": 9,
                "mtime_ns": facts.st_mtime_ns,
                "arrival_us": 5,
                "format": "csv",
                "length": 9,
                "bad": None,
            }
        )
        + "\n"
    )
    follower = Follower(folder)
    follower.now = 9
    append(path, b"2,y\n")
    (folder / "in" / "b.csv").write_text("id,b\n3,z\n")
    follower.read()
    assert follower.ids() == [1, 3] and follower.bad == []


def test_the_log_of_a_file_that_grows_stays_small(folder):
    path = folder / "in" / "a.jsonl"
    with changed(forgotten_entries=10):
        follower = Follower(folder)
        for i in range(80):
            append(path, text("json", i, 1))
            follower.read(live=bool(i % 2))
            follower.connector.trim(follower.position)
            if i == 43:
                follower.restart()
        other = files(folder)  # beside the one that writes the log
        assert other.latest(follower.position, None, False, 99).end == follower.position
        assert follower.ids() == list(range(80))
        lines = (folder / "db" / "files.jsonl").read_text().splitlines()
        assert len(lines) < 35
    follower.ranges.clear()
    follower.check()


def test_parts_that_failed_are_listed_again_as_they_are_now(folder):
    path = folder / "in" / "a.csv"
    path.write_text("id,b\n1,x\n")
    follower = Follower(folder, on_error="fail")
    follower.read()
    for part in (b"oops,y\n", b"3,z\n"):
        append(path, part)
        follower.connector.latest(follower.position, 1, False, 2)
    with pytest.raises(SourceProblem, match="TM400"):
        follower.read()
    path.write_bytes(path.read_bytes().replace(b"oops", b"2"))
    assert relist(follower.connector.spec, str(folder / "db"), 1)
    follower.restart()
    while not follower.read():
        pass
    append(path, b"4,w\n")
    follower.read()
    assert follower.ids() == [1, 2, 3, 4]
