"""Who may read and write a database directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tidemill.errors import TidemillError


def opened(folder: Path) -> CheckpointedDatabase:
    return CheckpointedDatabase(str(folder / "db"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_database_is_for_its_user_alone(tmp_path):
    """views.duckdb, spark.log and the directory were readable by all users."""
    opened(tmp_path).close()
    assert mode(tmp_path / "db") == 0o700


def test_a_directory_that_was_open_to_all_is_closed(tmp_path):
    opened(tmp_path).close()
    (tmp_path / "db").chmod(0o755)
    opened(tmp_path).close()
    assert mode(tmp_path / "db") == 0o700


def test_a_shared_database_is_open_to_all_and_stays_so(tmp_path):
    before = os.umask(0o022)
    try:
        CheckpointedDatabase(str(tmp_path / "db"), shared=True).close()
        assert mode(tmp_path / "db") == 0o755 and mode(tmp_path / "db" / "catalog.json") == 0o644
        opened(tmp_path).close()
        assert mode(tmp_path / "db") == 0o755
        CheckpointedDatabase(str(tmp_path / "db"), shared=False).close()
        assert mode(tmp_path / "db") == 0o700
    finally:
        os.umask(before)


def test_a_place_where_everybody_may_write_is_refused(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    with pytest.raises(TidemillError) as caught:
        CheckpointedDatabase(str(tmp_path / "tmp"))
    assert caught.value.code == "TM610" and mode(tmp_path / "tmp") == 0o1777
