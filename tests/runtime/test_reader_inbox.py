"""What readers send in files arrives as it was sent, is there as long as its batch may run again, and then goes."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.messages import inbox
from tidemill.runtime.thresholds import sizes

ROWS = [{"ts": moment, "k": f"key {moment % 7}"} for moment in range(60)]


@settings(deadline=None)
@given(
    messages=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b:c"]), st.binary(max_size=20))),
    limit=st.integers(0, 21),
)
def test_messages_arrive_as_they_were_sent(tmp_path_factory, messages, limit):
    folder = str(tmp_path_factory.mktemp("inbox"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "inbox_bytes", limit)
        sent = list(inbox.send(folder, messages))
    opening = inbox.Inbox(folder)
    found = [(shard, *opening.receive(port, payload)) for shard, port, payload in sent]
    assert [(shard, port, bytes(payload)) for shard, port, payload in found] == messages
    large = any(len(payload) >= limit for _, _, payload in messages)
    assert len(os.listdir(folder)) == len(opening.files) == large
    inbox.discard(folder, opening.files)
    assert os.listdir(folder) == []


def test_any_bit_of_a_file_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "inbox_bytes", 0)
    sent = list(inbox.send(str(tmp_path), [(0, "a", b"some rows"), (0, "b", b"and some more")]))
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    for broken in (*(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))), data[:-1]):
        path.write_bytes(broken)
        opening = inbox.Inbox(str(tmp_path))
        with pytest.raises(TidemillError) as caught:
            [opening.receive(port, payload) for _, port, payload in sent]
        assert caught.value.code == "TM607" and path.name in caught.value.message


@pytest.fixture
def db(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "inbox_bytes", 1)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    with LocalDatabase(str(tmp_path / "db")) as database:
        database.execute(
            f"REGISTER SOURCE P (ts BIGINT, k VARCHAR) FROM FILES '{tmp_path}/*.jsonl' WITH (timestamp = 'ts',"
            " batch_rows = 10); CREATE TAGGED STREAM S OVER P; CREATE VIEW V AS SELECT k, ts FROM S"
        )
        yield database


def _waiting(db):
    return sorted(os.listdir(db.paths.inbox)) if os.path.isdir(db.paths.inbox) else []


def test_files_go_when_their_batch_is_committed(db):
    assert db.run().rows == len(ROWS)
    assert _waiting(db) == []
    assert db.query("SELECT k, ts FROM V ORDER BY ts").to_pylist() == [{"k": r["k"], "ts": r["ts"]} for r in ROWS]


def test_a_batch_that_runs_again_has_files_of_its_own(db):
    db.runner.publisher.publish(mode="finite", run=1)
    db.runner.bring_up()
    planned = db.plan()
    db.compute(planned)
    lost = _waiting(db)
    assert lost
    db.finish(planned)
    assert _waiting(db) == lost, "nobody knows that the first attempt failed"
    while db.step():
        pass
    db.outlet.sweep()
    assert _waiting(db) == []
    assert db.query("SELECT count(*) AS n FROM V").to_pylist() == [{"n": len(ROWS)}]
