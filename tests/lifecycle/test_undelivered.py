"""Changes that wait for a sink: delivered as they were written and once each, or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.sample import block
from tests.paper.notation import Feed
from tidemill.errors import EngineProblem
from tidemill.runtime.paths import Paths
from tidemill.runtime.views.undelivered import Undelivered


@pytest.fixture
def waiting(tmp_path):
    """A database whose sink has been blocked for two batches; its feed and the files that wait."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = Feed(db, tmp_path, "Raw", "k VARCHAR, v INTEGER").send("<a,1>1 <b,2>2")
        db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW Log AS SELECT k, v FROM S")
        db.execute(f"CREATE SINK Out FROM Log TO FILES '{tmp_path}/out'")
        block(tmp_path / "out")
        db.run()
        feed.send("<c,3>4")
        db.run()
        yield db, feed, sorted((tmp_path / "db" / "undelivered").glob("*/*"))


def delivered(folder: Path) -> list[dict]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("at", [2, -9, -1, 300])
def test_a_flipped_bit_is_not_delivered_but_named_and_the_sink_can_be_dropped(waiting, tmp_path, at):
    db, feed, files = waiting
    flip(files[1], at)
    (tmp_path / "out").unlink()
    feed.send("<d,9>6")
    with pytest.raises(EngineProblem, match="TM607") as caught:
        db.run()
    assert str(files[1]) in str(caught.value) and "drop the sink" in caught.value.hint
    db.execute("DROP SINK Out")
    db.run()
    assert len(db.changes("Log")) == 4 and not list((tmp_path / "db" / "undelivered").glob("*"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_is_gone_is_named(waiting, tmp_path, number):
    db, feed, files = waiting
    files[number].unlink()
    (tmp_path / "out").unlink()
    feed.send("<d,9>6")
    with pytest.raises(EngineProblem, match="TM606") as caught:
        db.run()
    assert str(files[number]) in str(caught.value)


def test_files_that_are_exchanged_are_named(waiting, tmp_path):
    db, feed, files = waiting
    files[1].write_bytes(files[0].read_bytes())
    (tmp_path / "out").unlink()
    feed.send("<d,9>6")
    with pytest.raises(EngineProblem, match="TM609") as caught:
        db.run()
    assert str(files[1]) in str(caught.value)


def test_files_are_delivered_in_order_and_kept_until_the_batch_is_committed(waiting, tmp_path, monkeypatch):
    db, feed, files = waiting
    (tmp_path / "out").unlink()
    feed.send("<d,9>6")
    true, failed = db.outlet.store.set_metas, []

    def fail_once(*args):
        if not failed:
            failed.append(sorted(p.name for p in (tmp_path / "out").iterdir()))
            raise KeyError("the commit fails")
        return true(*args)

    monkeypatch.setattr(db.outlet.store, "set_metas", fail_once)
    with pytest.raises(KeyError):
        db.run()
    assert len(failed[0]) == 3 and all(path.exists() for path in files)
    db.run()
    assert delivered(tmp_path / "out") == db.changes("Log").to_pylist()
    assert not list((tmp_path / "db" / "undelivered").glob("*")) and db.status()["sinks"][0]["undelivered"] == 0


def test_files_of_an_older_version_are_taken_over(tmp_path):
    paths = Paths(str(tmp_path))
    folder = Path(paths.undelivered) / "key"
    folder.mkdir(parents=True)
    for batch in (3, 7):
        (folder / f"changes-{batch:012d}.jsonl").write_text(json.dumps({"batch": batch}))
    for _ in range(2):  # the second time as after a crash
        waiting, found = Undelivered(paths, None), []
        assert waiting.spans == {"key": (3, 7, ".jsonl")} and waiting.count("key") == waiting.verify() == 2
    waiting.deliver("key", lambda file: not found.append((file.name, json.loads(file.content)["batch"])))
    assert found == [("changes-000000000003.jsonl", 3), ("changes-000000000007.jsonl", 7)]
    waiting.settle()
    assert not os.listdir(paths.undelivered)
