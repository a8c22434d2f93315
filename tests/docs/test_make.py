"""A check that fails fails its target of the Makefile, and `make check`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT

TOOLS = ("python", "ruff", "lint-imports", "mypy")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="TARGETS ARE NOT CHECKED: there is no make")


def make(target: str, failing: str | None, place: Path) -> int:
    """The exit code of a target, with tools that do nothing, and one that fails."""
    for tool in TOOLS:
        path = place / tool
        path.write_text(f"#!/bin/sh\nexit {int(tool == failing)}\n")
        path.chmod(0o755)
    ready = place / "ready"
    ready.touch()
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", target, f"BIN={place}", f"READY={ready}"]
    return subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize(
    ("target", "failing"),
    [("lint", "ruff"), ("lint", "lint-imports"), ("types", "mypy"), ("unit", "python"), ("golden", "python")]
    + [("check", tool) for tool in TOOLS],
)
def test_a_check_that_fails_fails_the_target(target, failing, tmp_path):
    assert make(target, None, tmp_path) == 0
    assert make(target, failing, tmp_path) != 0
