"""Programs that tests need and that PyPI has not: found, or installed from Debian's packages where that is allowed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache

import pytest


@cache
def need(program: str, package: str) -> str:
    """The path of a program. Root on a machine with apt installs it; elsewhere the test is skipped, with the reason."""
    found = shutil.which(program)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with open(os.path.join(tempfile.gettempdir(), "tidemill-apt.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
                subprocess.run(["apt-get", "-qq", *command], capture_output=True, timeout=600)
        found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed and cannot be: apt-get install {package}")
    return found
