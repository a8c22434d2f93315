"""Who may list a shared database directory may read what is in it: workers of another user read plans and state."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import tidemill
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.lifecycle.sample import CHUNKS, grow, setup, sized
from tests.paper.notation import Feed, write


@pytest.fixture(params=[0o027, 0o022, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {str(p.relative_to(root)): stat.S_IMODE(p.stat().st_mode) for p in [root, *root.rglob("*")]}


def run(folder: Path, shared: bool) -> Path:
    write(folder / "t.json", ["k", "label"], [("a", "Alpha"), ("b", "Beta")])
    grow(folder, 3)
    with sized(), CheckpointedDatabase(str(folder / "db"), shared=shared) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute(f"REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{folder}/t.json'")
        db.execute(setup(folder))
        for chunk in CHUNKS:
            feed.send(chunk)
            db.run(final=False)
    return folder / "db"


def test_files_of_a_shared_database_have_the_mode_of_their_directory(tmp_path, umask):
    found = modes(run(tmp_path, shared=True))
    for name, mode in found.items():
        if name == "lock":
            continue
        folder = found[os.path.dirname(name) or "."] if name != "." else 0o777 & ~umask
        assert mode & 0o044 == folder & 0o044, f"{name} has mode {mode:o}, its directory {folder:o}"
    for name in ("plans", "state", "sealed", "feedback", "sources"):  # where workers write
        assert found[name] & 0o022 == 0o022 & ~umask


def test_a_restored_and_a_rescaled_one_too(tmp_path, umask):
    root = run(tmp_path, shared=True)
    with sized(), CheckpointedDatabase(str(root)) as db:
        db.rescale(3)
        db.backup(str(tmp_path / "backup"), links=False)
    tidemill.restore(str(tmp_path / "backup"), str(tmp_path / "two"))
    with sized(), CheckpointedDatabase(str(tmp_path / "two"), shards=3) as db:
        db.run(final=False)
    for place in (root, tmp_path / "two"):
        found = modes(place)
        wrong = {
            name: f"{mode:o}"
            for name, mode in found.items()
            if name not in ("lock",) and mode & 0o044 != 0o044 & ~umask
        }
        assert not wrong, place


def test_a_directory_that_gives_its_group_to_what_is_in_it_keeps_doing_so(tmp_path, umask):
    (tmp_path / "db").mkdir()
    (tmp_path / "db").chmod(0o2775)
    found = modes(run(tmp_path, shared=True))
    assert found["."] == 0o2777 & ~umask and found["plans"] & stat.S_ISGID


def test_a_private_database_is_closed_at_its_door(tmp_path, umask):
    assert modes(run(tmp_path, shared=False))["."] == 0o700
