"""A database is found from its directory alone: moved, copied, renamed or opened through a link, it goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.lifecycle.sample import CHUNKS, answers, begin, sized
from tests.paper.notation import write
from tidemill.errors import TidemillError
from tidemill.runtime.checkpoint.relocation import relocate_checkpoint
from tidemill.runtime.paths import Paths

OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": []}],
    "operatorPropertiesJson": '{"timeMode":"NoTime"}',
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A database that has run, and more input that it has not seen."""
    begin(tmp_path / "one").send(CHUNKS[1]).send(CHUNKS[2])
    return tmp_path


@pytest.fixture
def wanted(place: Path, tmp_path: Path):
    """What it answers where it was made; asked of a copy, which is then gone."""
    shutil.copytree(place / "one" / "db", place / "kept")
    found = answers(place / "one" / "db")
    shutil.rmtree(place / "one" / "db")
    shutil.move(place / "kept", place / "one" / "db")
    return found


def test_nothing_in_a_database_names_its_own_directory(place):
    """But for the process that writes a log."""
    root = place / "one" / "db"
    with sized(), CheckpointedDatabase(str(root)) as db:
        db.execute(f"CREATE SINK Other FROM Log TO FILES '{place}/other'")
        db.run(final=False)
    named = [p for p in root.rglob("*") if p.is_file() and str(root).encode() in p.read_bytes()]
    assert not named


def test_a_moved_database_goes_on(place, wanted):
    (place / "one" / "db").rename(place / "two")
    assert answers(place / "two") == wanted


def test_a_renamed_parent_changes_nothing(place, wanted):
    (place / "one" / "db").rename(place / "db")
    (place / "far").mkdir()
    (place / "db").rename(place / "far" / "db")
    (place / "far").rename(place / "near")
    assert answers(place / "near" / "db") == wanted


def test_a_copy_and_its_original_go_on_apart(place, wanted):
    shutil.copytree(place / "one" / "db", place / "two")
    assert answers(place / "two") == wanted
    write(place / "one" / "Raw" / "000004.json", ["k", "v", "at"], [("z", 7, 20)])
    paths = [str(place / "two"), str(place / "one" / "db")]
    with CheckpointedDatabase(paths[0]) as copy:
        copy.execute("DROP SOURCE Sent CASCADE")  # one port of the machine is for one of the two
    with sized(), CheckpointedDatabase(paths[0]) as copy, CheckpointedDatabase(paths[1]) as original:
        for db in (original, copy):
            db.run(final=False)
        for name in ("Latest", "G", "J"):
            found = [sorted(map(str, db.query(f"SELECT * FROM {name}").to_pylist())) for db in (original, copy)]
            assert found[0] == found[1]
            assert any("'z'" in row for row in found[0]) == (name != "J"), "the last file was not read"


def test_a_database_opened_through_a_link_is_the_same(place, wanted):
    (place / "link").symlink_to(place / "one" / "db")
    assert answers(place / "link")["after"] == wanted["after"]
    (place / "link").unlink()
    assert answers(place / "one" / "db")["before"] == wanted["after"]


def checkpoint(root: Path, said: str) -> Path:
    """What Spark leaves of a stateful operator, when it was at `said`."""
    folder = root / "checkpoint" / "state" / "0" / "_metadata" / "v2"
    folder.mkdir(parents=True)
    text = json.dumps(OPERATOR).replace(
        '"stateSchemaFilePaths": []',
        '"stateSchemaFilePaths": ' + json.dumps([f"file:{said}/checkpoint/state/0/_stateSchema/default/0_1a2b"]),
    )
    (folder / "0").write_text(f"v2\n{text}")
    (folder / ".0.crc").write_bytes(b"crc")
    (root / "checkpoint" / "metadata").write_text('{"id":"6832ae26-7dd1-4a2f-80c5-22cc8d8e6b21"}')
    return folder / "0"


@pytest.mark.parametrize("name", ["db", "a b", "100%", "state/0/_stateSchema/x/y"])
def test_the_checkpoint_says_where_it_is(tmp_path, name):
    noted = checkpoint(tmp_path / name, "/before/state/0/_stateSchema/default/db")
    assert relocate_checkpoint(Paths(str(tmp_path / name)))
    version, text = noted.read_text().split("\n")
    facts = json.loads(text)
    [said] = facts["stateStoreInfo"][0].pop("stateSchemaFilePaths")
    assert (version, said) == ("v2", f"file:{tmp_path / name}/checkpoint/state/0/_stateSchema/default/0_1a2b")
    assert facts["operatorInfo"] == OPERATOR["operatorInfo"]
    assert not noted.with_name(".0.crc").exists()
    assert json.loads((tmp_path / name / "checkpoint" / "metadata").read_text())["id"][:8] != "6832ae26"


def test_a_checkpoint_that_stays_is_not_touched(tmp_path):
    noted = checkpoint(tmp_path, str(tmp_path))
    before = noted.stat().st_mtime_ns, (tmp_path / "checkpoint" / "metadata").read_text()
    assert not relocate_checkpoint(Paths(str(tmp_path)))
    assert before == (noted.stat().st_mtime_ns, (tmp_path / "checkpoint" / "metadata").read_text())


def test_a_file_of_the_checkpoint_that_is_none_is_named(tmp_path):
    noted = checkpoint(tmp_path, "/before")
    noted.write_text("v2\n{}")
    with pytest.raises(TidemillError, match=r"TM607.*_metadata/v2/0"):
        relocate_checkpoint(Paths(str(tmp_path)))
