"""The import contracts can fail: a forbidden import is found."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.places import ROOT, SOURCE

FORBIDDEN = {
    "plan/node.py": "tidemill.runtime.duck",
    "sql/parse.py": "tidemill.optimize.lower",
    "runtime/duck.py": "tidemill.sql.parse",
    "serve/render.py": "tidemill.runtime.duck",
    "engine/status.py": "tidemill.serve.render",
}


@pytest.mark.parametrize("module", [None, *FORBIDDEN])
def test_a_forbidden_import_fails_the_check(tmp_path, module):
    shutil.copytree(SOURCE / "tidemill", tmp_path / "tidemill", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if module is not None:
        path = tmp_path / "tidemill" / module
        path.write_text(path.read_text(encoding="utf-8") + f"\nimport {FORBIDDEN[module]}\n", encoding="utf-8")
    code = "from importlinter.cli import lint_imports_command as check; check()"
    done = subprocess.run([sys.executable, "-c", code, "--no-cache"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == (module is None), done.stdout + done.stderr
