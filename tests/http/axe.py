"""axe-core, which looks for barriers in a page: fetched by npm into a cache outside of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

VERSION = "4.14.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidemill" / f"axe-core-{VERSION}.js"
_RUN = """async () => (await axe.run(document)).violations.flatMap(
    found => found.nodes.map(node => `${found.id}: ${node.target.join(' ')}: ${node.failureSummary}`))"""


def find_script() -> str:
    """The script; skips, and says why, where it cannot be had."""
    if not CACHE.exists():
        if shutil.which("npm") is None:
            pytest.skip(f"AXE TEST SKIPPED: there is no npm to fetch axe-core {VERSION}")
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
            if done.returncode:
                pytest.skip(f"AXE TEST SKIPPED: axe-core {VERSION} cannot be fetched: {done.stderr[-300:]}")
            with tarfile.open(f"{folder}/axe-core-{VERSION}.tgz") as packed:
                packed.extract("package/axe.min.js", folder, filter="data")
            os.replace(f"{folder}/package/axe.min.js", CACHE)
    return CACHE.read_text(encoding="utf-8")


def find_barriers(page: Any) -> list[str]:
    """What axe finds wrong with what the page shows now: rule, place, reason."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(find_script())
    found: list[str] = page.evaluate(_RUN)
    return found
