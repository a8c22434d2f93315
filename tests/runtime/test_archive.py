"""Spark's classes are archived once, in a private folder, and whatever is wrong with an archive it is not used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tidemill.runtime.spark import class_archive
from tidemill.runtime.spark.class_archive import archive_options


@pytest.fixture
def java(tmp_path: Path, monkeypatch) -> str:
    """A Java that can share classes, and a cache of its own."""
    (tmp_path / "java" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").write_bytes(b"x")
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    return str(tmp_path / "java")


def draft_of(options: str) -> Path:
    return Path(next(w for w in options.split() if w.startswith("-XX:ArchiveClassesAtExit=")).partition("=")[2])


def test_the_first_jvm_writes_the_archive_and_later_ones_map_it(java):
    draft = draft_of(archive_options(java))
    draft.write_bytes(b"\xa8\xab\x0b\xf0 classes")
    options = archive_options(java)
    assert "-XX:SharedArchiveFile=" in options and "AtExit" not in options
    draft.write_bytes(b"another JVM ends")
    assert archive_options(java) == options and not draft.exists()
    assert all(f"{word} " in f"{options} " for word in ("-Xshare:auto", "-Xlog:disable"))


def test_an_unfinished_archive_is_not_used_and_goes_after_a_while(java):
    draft = draft_of(archive_options(java))
    draft.write_bytes(b"\0" * 100)
    assert "AtExit" in archive_options(java) and draft.exists()
    os.utime(draft, (0, time.time() - 3600))
    assert "AtExit" in archive_options(java) and not draft.exists()


def test_another_java_or_other_jars_have_an_archive_of_their_own(java):
    draft_of(archive_options(java)).write_bytes(b"classes")
    assert "SharedArchiveFile" in archive_options(java)
    os.utime(Path(java) / "lib" / "server", (1, 1))
    assert "AtExit" in archive_options(java)


def test_a_folder_that_others_can_write_is_not_used(java, tmp_path):
    draft = draft_of(archive_options(java))
    draft.write_bytes(b"classes")
    draft.parent.chmod(0o777)
    assert str(draft.parent) not in archive_options(java)


def test_no_archive_where_it_cannot_be_or_shall_not_be(java, monkeypatch):
    assert archive_options(None) == ""
    monkeypatch.setenv(class_archive.SWITCH, "off")
    assert archive_options(java) == ""
    monkeypatch.delenv(class_archive.SWITCH)
    (Path(java) / "lib" / "server" / "classes.jsa").unlink()
    assert archive_options(java) == ""
