"""Programs and sockets are where no other user can put them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tidemill.runtime import private_folders
from tidemill.runtime.spark import session


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_kept_folder_is_the_users_alone(cache):
    folder = private_folders.user_folder("java")
    assert folder == str(cache / "tidemill" / "java") and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert private_folders.user_folder("java") == folder


def test_a_folder_that_others_can_write_to_is_not_used(cache):
    """Another user makes tidemill-java-…/ first, open for all, and puts a `java` there later."""
    made = cache / "tidemill" / "java"
    made.mkdir(parents=True)
    made.chmod(0o777)
    folder = private_folders.user_folder("java")
    assert not Path(folder).is_relative_to(made) and private_folders.is_private(private_folders.process_folder())


def test_a_folder_of_somebody_else_is_not_used(cache, monkeypatch):
    made = cache / "tidemill" / "java"
    made.mkdir(parents=True)
    monkeypatch.setattr(private_folders.os, "geteuid", lambda: os.getuid() + 1)  # type: ignore[attr-defined]
    if os.getuid() == 0:  # what root owns is trusted: give it to another user
        os.chown(made, 12345, 12345)
    assert not private_folders.is_private(str(made))


def test_a_link_to_a_folder_of_others_is_not_used(cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (cache / "tidemill").mkdir(parents=True)
    (cache / "tidemill" / "java").symlink_to(elsewhere)
    assert not Path(private_folders.user_folder("java")).is_relative_to(cache)


def test_the_java_that_is_started_cannot_be_replaced_by_others(cache):
    home = session.small_java_home("/opt/jdk")
    assert private_folders.is_private(home) and private_folders.is_private(os.path.join(home, "bin"))
    assert stat.S_IMODE(os.stat(os.path.join(home, "bin", "java")).st_mode) & 0o077 == 0


def test_sparks_sockets_and_rows_are_in_a_private_folder():
    places = session._private_places()
    assert {"spark.local.dir", "spark.python.unix.domain.socket.dir"} == set(places)
    for folder in places.values():
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700 and len(folder) < 60  # names of sockets have an end
