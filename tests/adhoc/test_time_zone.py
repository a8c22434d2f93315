"""No answer depends on the time zone of the machine: views and changes are in UTC, and so are ad hoc queries unless
SET TIME ZONE says otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.places import IMPORTS

SCRIPT = """
import json
from tests.harness import LocalDatabase

parts = "hour(z) AS h, date_trunc('day', z)::VARCHAR AS d, z::VARCHAR AS t, z::DATE::VARCHAR AS a"
with LocalDatabase("db") as db:
    db.execute("REGISTER SOURCE S (k INTEGER, z TIMESTAMPTZ, tm BIGINT) FROM FILES 'a.csv' WITH (timestamp = 'tm')")
    db.execute("CREATE TAGGED STREAM A OVER S; CREATE VIEW Plain AS SELECT k, z FROM A")
    db.execute(f"CREATE VIEW Computed AS SELECT k, {parts} FROM A; CREATE STREAMED VIEW Flow AS SELECT z FROM A")
    db.run()
    rows = [db.query("SELECT h, d, t, a FROM Computed ORDER BY k"), db.query(f"SELECT {parts} FROM Plain ORDER BY k")]
    types = [db.query("SELECT z FROM Plain").schema.field("z").type, db.changes("Flow").schema.field("z").type]
    print(json.dumps([[r.to_pylist() for r in rows], [str(t) for t in types]]))
"""


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_answers_are_in_utc_wherever_the_machine_is(zone, tmp_path):
    """In a process of its own: the zone is read once, when DuckDB is loaded."""
    (tmp_path / "a.csv").write_text("k,z,tm\n1,2024-01-01 23:30:00+00,1\n2,2024-07-01 10:00:00+02,2\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"TZ": zone, "PYTHONPATH": IMPORTS},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (view, ad_hoc), types = json.loads(done.stdout.splitlines()[-1])
    assert (
        ad_hoc
        == view
        == [
            {"h": 23, "d": "2024-01-01 00:00:00+00", "t": "2024-01-01 23:30:00+00", "a": "2024-01-01"},
            {"h": 8, "d": "2024-07-01 00:00:00+00", "t": "2024-07-01 08:00:00+00", "a": "2024-07-01"},
        ]
    )
    assert types == ["timestamp[us, tz=UTC]"] * 2
