"""What the repository holds."""

from __future__ import annotations

import subprocess
import tomllib

import tidemill
from tests.places import ROOT, SOURCE

LARGEST = 1_000_000


def test_no_tracked_file_is_large():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sizes = {name: (ROOT / name).stat().st_size for name in filter(None, listed.split("\0")) if (ROOT / name).exists()}
    assert sizes and not [name for name, size in sizes.items() if size > LARGEST]


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"] and tidemill.__version__ and (SOURCE / "tidemill" / "py.typed").exists()
