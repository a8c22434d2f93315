"""The test command says what it has skipped, and why."""

from __future__ import annotations

import subprocess
import sys

from tests.places import ROOT


def test_reasons_of_skips_are_printed(tmp_path):
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip('THIS WAS SKIPPED')\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "THIS WAS SKIPPED" in done.stdout
