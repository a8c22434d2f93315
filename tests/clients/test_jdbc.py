"""pgjdbc, the driver of Java: metadata, prepared statements, fetchSize."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSION = "42.7.4"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill" / "jdbc"
PROGRAM = Path(__file__).parent / "Jdbc.java"


def find_driver() -> Path:
    """The jar, fetched by Maven once; skips, and says why, where it cannot be had."""
    jar = CACHE / f"postgresql-{VERSION}.jar"
    if shutil.which("java") is None or (not jar.exists() and shutil.which("mvn") is None):
        pytest.skip("JDBC TESTS SKIPPED: java and mvn are needed (Debian: default-jdk-headless, maven)")
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            what = [f"-Dartifact=org.postgresql:postgresql:{VERSION}", f"-DoutputDirectory={CACHE}"]
            done = subprocess.run(["mvn", "-q", "-B", "dependency:copy", *what], capture_output=True, timeout=300)
            if done.returncode:
                pytest.skip(f"JDBC TESTS SKIPPED: the driver cannot be fetched: {done.stdout.decode()[-300:]}")
    return jar


def test_the_driver_of_java(process):
    jar = find_driver()
    url = f"jdbc:postgresql://127.0.0.1:{process.port}/lot?user=tester"
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", str(jar), str(PROGRAM), url],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "product PostgreSQL",
        "views [Flow, Hot, PerRoom, Warm]",
        "columns [room:int4, temp:float8, note:text]",
        "public true",
        "types [bool, float8, int4, int8, numeric, text, timestamp]",
        "tables [Buildings]",
        "keys [] of 6 columns",
        "row 1 90.5 it's",
        "row 3 85.0 ä€",
        "shape 3 2",
        "portions 125",
        "values 9007199254740993 1.50 2026-01-02 03:04:05.678 2026-01-02 true null ä€",
        "error 42 true",
        "defined",
    ]
