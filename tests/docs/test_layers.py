"""The import contracts can fail: a forbidden import is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.places import ROOT, SOURCE

FORBIDDEN = {
    "plan/node.py": "tidemill.runtime.duckdb.duck",
    "sql/parse/statements.py": "tidemill.optimize.lower",
    "runtime/duckdb/duck.py": "tidemill.sql.parse.statements",
    "serve/render.py": "tidemill.runtime.duckdb.duck",
    "engine/show/status.py": "tidemill.serve.render",
    "runtime/stage/ports.py": "tidemill.runtime.views.changes",
    "runtime/kernels/grouping/distinct.py": "tidemill.runtime.integrity",
    "runtime/sources/postgres/slot.py": "tidemill.runtime.targets.postgres",
    "runtime/secrets.py": "tidemill.runtime.kafka_client",
}


def check_layers(tmp_path, module=None, line=""):
    """What import-linter says of the sources with one more line in one module."""
    shutil.copytree(SOURCE / "tidemill", tmp_path / "tidemill", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if module is not None:
        path = tmp_path / "tidemill" / module
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(text + f"\n{line}\n", encoding="utf-8")
    code = "from importlinter.cli import lint_imports_command as check; check()"
    return subprocess.run([sys.executable, "-c", code, "--no-cache"], cwd=tmp_path, capture_output=True, text=True)


@pytest.mark.parametrize("module", [None, *FORBIDDEN])
def test_a_forbidden_import_fails_the_check(tmp_path, module):
    done = check_layers(tmp_path, module, f"import {FORBIDDEN.get(module, '')}")
    assert (done.returncode == 0) == (module is None), done.stdout + done.stderr


@pytest.mark.parametrize("module", ["unplaced.py", "runtime/unplaced.py"])
def test_a_module_without_a_layer_fails_the_check(tmp_path, module):
    done = check_layers(tmp_path, module)
    assert done.returncode != 0 and "unplaced" in done.stdout, done.stdout + done.stderr


def test_no_modules_import_each_other():
    """Not even inside functions or for types: `prepare` raises CycleError with the cycle."""
    graph = grimp.build_graph("tidemill", cache_dir=None)
    TopologicalSorter({m: graph.find_modules_directly_imported_by(m) - {m} for m in graph.modules}).prepare()
