"""A Java that comes by pip is enough: what Spark's launcher asks of it in vain is left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tidemill.runtime.spark import session


def test_small_java_drops_only_the_module_it_does_not_have(tmp_path: Path, monkeypatch) -> None:
    real = tmp_path / "home" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nfor word do echo "[$word]"; done\n')
    real.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = session.small_java_home(str(tmp_path / "home"))
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x=y", "", "Main"]
    command = [os.path.join(home, "bin", "java"), *words]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["[-cp]", "[a b]", "[--add-opens=x=y]", "[]", "[Main]"]


def test_an_installed_java_is_preferred(monkeypatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda _: "/opt/jdk/bin/java")  # type: ignore[attr-defined]
    monkeypatch.setattr(session, "java_version", lambda _: 21)
    monkeypatch.setattr(session.os.path, "realpath", lambda path: path)  # type: ignore[attr-defined]
    assert session.java_home() == "/opt/jdk"


def test_an_old_java_is_passed_over(monkeypatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda _: "/opt/jdk/bin/java")  # type: ignore[attr-defined]
    monkeypatch.setattr(session, "java_version", lambda _: 11)
    assert "java-" in str(session.java_home())
