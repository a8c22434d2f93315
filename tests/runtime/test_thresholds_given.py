"""The variable that sets thresholds works for a process that begins with it."""

from __future__ import annotations

import os
import subprocess
import sys

from tidemill.runtime import thresholds


def test_a_process_begins_with_the_thresholds_of_its_environment():
    code = "from tidemill.runtime.thresholds import sizes; print(sizes.slice_rows, sizes.inline_bytes)"
    told = os.environ | {thresholds.VARIABLE: "smallest,inline_bytes=7", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "7"]
