"""A script that ends right after its last answer ends well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from tests.harness import LocalDatabase
with LocalDatabase(sys.argv[1]) as db:
    db.execute("REGISTER SOURCE S (v INTEGER, at TIMESTAMP) FROM GENERATE (rate = 10, rows = 20)"
               " WITH (timestamp = 'at'); CREATE TAGGED STREAM T OVER S; CREATE VIEW N AS SELECT count(*) AS n FROM T")
    db.run()
"""


def test_a_process_that_ends_after_a_run_is_not_aborted(tmp_path: Path) -> None:
    """What is loaded in the background for the next run was inside DuckDB when the interpreter ended: exit code 134."""
    for attempt in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / str(attempt))], capture_output=True, text=True, timeout=120
        )
        assert (ended.returncode, ended.stderr) == (0, "")
