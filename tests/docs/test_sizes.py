"""Files and functions stay small; what is larger, and nothing else, is named here, with the reason.

Branches are statements and conditional expressions. Operands of `and` and `or`, and loops and conditions inside of
comprehensions, are not counted: they are read as one expression, and the lines of a function bound them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT, SOURCE

MOST_LINES = 400  # of a file
MOST_FUNCTION_LINES = 40
MOST_BRANCHES = 15

_BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp)

CACHED = "numba's cache of an entry point watches only the entry point's own file"
LONG_FILES = {
    "src/tidemill/runtime/kernels/share/lfta_loops.py": CACHED,
    "src/tidemill/runtime/kernels/text/lines.py": CACHED,
}

LOOP = "one loop whose state is local; functions of its parts would hand that state to and fro"
LONG_FUNCTIONS = {
    "optimize/share/phantoms/choose.py gp": "a named algorithm of paper 002, easier to compare with it in one piece",
    "runtime/kernels/share/lfta_loops.py _probe_loop": "makes `probe`, and is nothing else",
    "runtime/kernels/share/lfta_loops.py probe": LOOP,
}
BRANCHING: dict[str, str] = {}


def _files() -> Iterator[Path]:
    for folder in (SOURCE, ROOT / "tests", ROOT / "benchmarks"):
        yield from sorted(folder.rglob("*.py"))


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted((SOURCE / "tidemill").rglob("*.py")):
        place = path.relative_to(SOURCE / "tidemill").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{place} {node.name}", node


def test_files_are_short():
    found = {path for path in _files() if len(path.read_text(encoding="utf-8").splitlines()) > MOST_LINES}
    assert {path.relative_to(ROOT).as_posix() for path in found} == set(LONG_FILES), "split it"


def test_long_kernels_say_why_in_their_header():
    for name in LONG_FILES:
        header = ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8"))) or ""
        assert "numba's cache" in header, name


def test_functions_are_short():
    long = {name for name, node in _functions() if (node.end_lineno or 0) - node.lineno + 1 > MOST_FUNCTION_LINES}
    assert long == set(LONG_FUNCTIONS)


def test_functions_branch_little():
    branching = {
        name for name, node in _functions() if sum(isinstance(n, _BRANCHES) for n in ast.walk(node)) > MOST_BRANCHES
    }
    assert branching == set(BRANCHING)
