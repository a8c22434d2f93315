"""Arrow's allocator keeps freed memory for a second: it is told so before pyarrow is loaded, unless a user has."""

from __future__ import annotations

import os
import subprocess
import sys

from tidemill.runtime.freed_memory import MILLISECONDS, VARIABLE

_SAID = f"import tidemill, os, sys; print(os.environ['{VARIABLE}'], 'pyarrow' in sys.modules)"


def _import_tidemill(**more: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE} | more
    return subprocess.run(
        [sys.executable, "-c", _SAID], env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


def test_the_setting_is_there_before_pyarrow():
    assert _import_tidemill() == [str(MILLISECONDS), "False"]


def test_what_the_user_has_set_stays():
    assert _import_tidemill(**{VARIABLE: "10"}) == ["10", "False"]
