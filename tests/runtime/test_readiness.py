"""What was loaded beforehand is all that a first batch needs: nothing is imported while a batch waits."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

SCRIPT = """
import json, sys
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.sources.registry import open_connector
if sys.argv[2] == "ready":
    from tidemill.runtime.spark.warm_up import load
    load()
before = set(sys.modules)
spec = SourceSpec("P", "files", (Column("a", "INTEGER"),), {"glob": sys.argv[1] + "/*.parquet"})
connector = open_connector(spec, sys.argv[1] + "/log")
end = connector.latest(connector.initial(), 10, False, 0).end
connector.split(connector.initial(), end, 2)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _imported(folder, how):
    found = subprocess.run([sys.executable, "-c", SCRIPT, str(folder), how], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def test_planning_the_first_batch_imports_nothing_more(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), tmp_path / "a.parquet")
    assert "tidemill.runtime.sources.files" in _imported(tmp_path, "cold")
    assert _imported(tmp_path, "ready") == []
