"""dbt with its Postgres adapter: `debug`, and `run` of models as views, twice. It has an environment of its own.

The environment is made where TIDEMILL_THOROUGH is set (dbt and our packages exclude each other), and used where it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.places import ROOT

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill" / "dbt-1.10"
PACKAGES = ["dbt-core>=1.9,<1.11", "dbt-postgres>=1.9,<1.11"]  # later ones need a download from elsewhere


def find_dbt() -> Path:
    """The program; skips, and says why, where it is not there."""
    ready, program = CACHE / "ready", CACHE / "bin" / "dbt"
    if not ready.exists() and not os.environ.get("TIDEMILL_THOROUGH"):
        pytest.skip("DBT TESTS SKIPPED: make thorough makes an environment for dbt")
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with open(CACHE.parent / "dbt.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            shutil.rmtree(CACHE, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True, timeout=300)
            command = [str(CACHE / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
            if subprocess.run(command, timeout=1500).returncode:
                pytest.skip("DBT TESTS SKIPPED: dbt cannot be installed")
            ready.touch()
    return program


def test_debug_and_run_of_models(process, tmp_path):
    program, project = find_dbt(), tmp_path / "dbt"
    shutil.copytree(ROOT / "examples" / "dbt", project)
    environment = {
        **os.environ,
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "TIDEMILL_PORT": str(process.port),
        "TIDEMILL_NAME": "lot",
        "PYTHONPATH": "",
    }
    for command in ("debug", "run", "run"):
        done = subprocess.run(
            [program, "--no-use-colors", command, "--profiles-dir", str(project)],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        assert ("All checks passed" if command == "debug" else "PASS=2 ") in done.stdout
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        rows = connection.execute("SELECT room, temp FROM warm_rooms ORDER BY room").fetchall()
        assert rows == [(1, 90.5)]
        assert connection.execute("SELECT temp FROM warmest").fetchall() == [(90.5,)]
