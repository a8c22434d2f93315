"""A backup is of one batch, also while batches go on; a database restored from it goes on exactly once from there."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidemill
from tests.lifecycle.checkpointed import HEAD, CheckpointedDatabase
from tests.lifecycle.sample import CHUNKS, answers, begin, sized
from tests.paper.notation import Feed, rows_of
from tidemill.engine import ask_for_backup
from tidemill.engine.directory import requests
from tidemill.engine.directory.directory import Directory
from tidemill.engine.directory.examine import examine
from tidemill.errors import TidemillError
from tidemill.runtime.paths import read_json, write_json
from tidemill.serve import opening
from tidemill.serve.cli import app


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return begin(tmp_path / "one")


def back_up(root: Path, target: Path, **options):
    with sized(), CheckpointedDatabase(str(root)) as db:
        return db.backup(str(target), **options)


@pytest.mark.parametrize("links", [True, False])
def test_a_restored_database_answers_as_at_the_batch_and_goes_on(tmp_path, feed, links):
    root = tmp_path / "one" / "db"
    steps: list[str] = []
    made = back_up(root, tmp_path / "backup", links=links, progress=lambda note: steps.append(note["step"]))
    assert made.files > 20 and made.bytes > 10_000 and made.batch >= 0
    assert steps.count("copied") == steps.count("checked") == made.files
    shared = [p for p in (tmp_path / "backup").rglob("*") if p.is_file() and p.stat().st_nlink > 1]
    assert bool(shared) == links
    feed.send(CHUNKS[1]).send(CHUNKS[2])
    wanted = answers(root)
    restored = tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
    assert (restored.batch, restored.files) == (made.batch, made.files)
    assert answers(tmp_path / "two") == wanted
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "three"))
    assert answers(tmp_path / "three") == wanted, "the backup has changed"


def test_backups_of_a_running_database_are_each_of_one_batch(tmp_path, feed):
    """A thread sends rows and runs batches as Spark would; backups are taken meanwhile."""
    root, draw = tmp_path / "one" / "db", random.Random(7)
    ended = threading.Event()
    with sized(), CheckpointedDatabase(str(root)) as db:
        db.start()

        def pump() -> None:
            for second in range(20, 50, 2):
                feed.send([(draw.choice("abcde"), draw.randrange(9), second + i) for i in range(2)])
                db.step()
            ended.set()

        thread = threading.Thread(target=pump)
        thread.start()
        batches = []
        while not ended.is_set() and len(batches) < 4:
            batches.append(db.backup(str(tmp_path / f"backup{len(batches)}")).batch)
        thread.join()
        db.stop()
    wanted = answers(root)["after"]
    assert len(set(batches)) > 1, "no batch came in between"
    for number, batch in enumerate(batches):
        assert tidemill.restore(str(tmp_path / f"backup{number}"), str(tmp_path / f"r{number}")).batch == batch
        assert answers(tmp_path / f"r{number}")["after"] == wanted


@pytest.mark.parametrize("cut", ["logged", "computed", "applied"])
def test_a_batch_that_is_under_way_begins_anew(tmp_path, feed, cut):
    """A backup of a database whose job has died: what a crash leaves is whole."""
    root = tmp_path / "one" / "db"
    feed.send(CHUNKS[1]).send(CHUNKS[2])
    with sized(), CheckpointedDatabase(str(root)) as db:
        db.runner.publisher.publish(mode="live")
        db.runner.bring_up()
        end = db.plan()
        db._log("offsets", db.batch, HEAD + json.dumps(end))
        if cut != "logged":
            _, sent = db.compute(end)
        if cut == "applied":
            db.outlet.apply(db.batch, sent)
        db.runner.job.query.stop()
        made = db.backup(str(tmp_path / "backup"))
        assert made.batch == db.batch - (cut != "applied")
    wanted = answers(root)["after"]
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
    assert answers(tmp_path / "two")["after"] == wanted


def test_what_waits_on_a_port_is_in_the_backup(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = str(tmp_path / "db")
    with CheckpointedDatabase(root) as db:
        db.execute(
            f"REGISTER SOURCE P (v INTEGER) FROM PORT {port}; CREATE TAGGED STREAM S OVER P;"
            " CREATE VIEW V AS SELECT v FROM S"
        )
        with socket.create_connection(("127.0.0.1", port)) as sender:
            sender.sendall(b'{"v": 1}\n{"v": 2}\n')
        head, until = Path(root) / "sources" / "P" / "head", time.monotonic() + 10
        while b'"byte": 0,' in head.read_bytes() and time.monotonic() < until:
            time.sleep(0.02)
        db.backup(str(tmp_path / "backup"))
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
    with CheckpointedDatabase(str(tmp_path / "two")) as db:
        db.run()
        assert rows_of(db, "SELECT v FROM V ORDER BY v") == [(1,), (2,)]


def test_every_damage_of_a_backup_is_seen(tmp_path, feed):
    back_up(tmp_path / "one" / "db", tmp_path / "backup", links=False)
    names = [p for p in sorted((tmp_path / "backup").rglob("*")) if p.is_file() and p.stat().st_size]
    assert len(names) > 20
    for path in names:
        whole = path.read_bytes()
        middle = len(whole) // 2
        for bad in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-1], None):
            path.unlink()
            if bad is not None:
                path.write_bytes(bad)
            with pytest.raises(TidemillError) as caught:
                tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
            assert caught.value.code in ("TM606", "TM607", "TM640")
            assert path.name in caught.value.message or path.name == "backup.json"
            assert os.listdir(tmp_path) == [n for n in os.listdir(tmp_path) if not n.startswith("two")]
            path.unlink(missing_ok=True)
            path.write_bytes(whole)
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))


def test_parts_that_do_not_fit_are_not_restored(tmp_path, feed):
    """Files as they were backed up, but of two backups."""
    root = tmp_path / "one" / "db"
    back_up(root, tmp_path / "older", links=False)
    feed.send(CHUNKS[1])
    answers(root)
    back_up(root, tmp_path / "backup", links=False)
    older, newer = (read_json(str(tmp_path / name / "backup.json")) for name in ("older", "backup"))
    newer["files"] = {name: note for name, note in newer["files"].items() if not name.startswith("views.duckdb")}
    for name in [name for name in older["files"] if name.startswith("views.duckdb")]:
        (tmp_path / "backup" / name).write_bytes((tmp_path / "older" / name).read_bytes())
        newer["files"][name] = older["files"][name]
    write_json(str(tmp_path / "backup" / "backup.json"), newer)
    with pytest.raises(TidemillError) as caught:
        tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
    assert caught.value.code == "TM642" and "views.duckdb" in str(caught.value.detail)
    assert not (tmp_path / "two").exists()


def test_a_backup_is_not_opened(tmp_path, feed):
    back_up(tmp_path / "one" / "db", tmp_path / "backup")
    before = sorted(p.name for p in (tmp_path / "backup").iterdir())
    with pytest.raises(TidemillError) as caught:
        CheckpointedDatabase(str(tmp_path / "backup"))
    assert caught.value.code == "TM644" and "tidemill restore" in str(caught.value.hint)
    assert before == sorted(p.name for p in (tmp_path / "backup").iterdir())
    assert all(finding.state == "ok" for finding in examine(str(tmp_path / "backup")))


@pytest.mark.parametrize("target, code", [("one", "TM641"), ("one/db/backup", "TM641"), ("file", "TM641")])
def test_a_place_that_is_taken_is_refused(tmp_path, feed, target, code):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TidemillError) as caught:
        back_up(tmp_path / "one" / "db", tmp_path / target)
    assert caught.value.code == code and (tmp_path / "file").read_text() == "mine"


def test_what_is_no_backup_is_refused(tmp_path, feed):
    with pytest.raises(TidemillError) as caught:
        tidemill.restore(str(tmp_path / "one" / "db"), str(tmp_path / "two"))
    assert caught.value.code == "TM640"


def test_who_has_the_database_open_answers_a_request(tmp_path, feed):
    """As from another process: the directory is held."""
    root, notes = tmp_path / "one" / "db", []
    with sized(), CheckpointedDatabase(str(root)):
        made = ask_for_backup(str(root), str(tmp_path / "backup"), False, notes.append)
        with pytest.raises(TidemillError) as caught:
            ask_for_backup(str(root), str(tmp_path / "backup"), False, notes.append)
        assert caught.value.code == "TM641"
        assert not list((root / "requests").iterdir())
    tidemill.restore(made.path, str(tmp_path / "two"))
    assert answers(tmp_path / "two") == answers(root)


def test_a_process_that_does_not_answer_is_not_waited_for(tmp_path, feed, monkeypatch):
    monkeypatch.setattr(requests, "PATIENCE_S", 0.1)
    owner = Directory(str(tmp_path / "one" / "db"))
    with pytest.raises(TidemillError) as caught:
        ask_for_backup(str(tmp_path / "one" / "db"), str(tmp_path / "backup"), True, lambda note: None)
    owner.release()
    assert caught.value.code == "TM643"


@pytest.mark.parametrize("is_open", [False, True])
def test_the_commands_back_up_and_restore(tmp_path, feed, monkeypatch, is_open):
    root = str(tmp_path / "one" / "db")
    monkeypatch.setattr(opening, "connect", lambda path, **settings: CheckpointedDatabase(path, **settings))
    owner = CheckpointedDatabase(root) if is_open else None
    for command in (
        ["backup", root, str(tmp_path / "backup")],
        ["restore", str(tmp_path / "backup"), str(tmp_path / "two")],
    ):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert "batch" in result.output and "files" in result.output
    if owner is not None:
        owner.close()
    assert answers(tmp_path / "two") == answers(tmp_path / "one" / "db")


def test_the_commands_say_what_is_wrong(tmp_path):
    result = CliRunner().invoke(app, ["restore", str(tmp_path / "nothing"), str(tmp_path / "two")])
    assert result.exit_code == 1 and "TM640" in result.output
    result = CliRunner().invoke(app, ["backup", str(tmp_path / "nothing"), str(tmp_path / "two")])
    assert result.exit_code == 1 and "TM622" in result.output
    assert not (tmp_path / "nothing").exists()
