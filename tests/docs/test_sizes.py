"""Files and functions stay small; what is larger, and nothing else, is named here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.places import SOURCE

MOST_LINES = 400  # of a file
MOST_FUNCTION_LINES = 40
MOST_BRANCHES = 15

_BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.match_case, ast.IfExp)
_KERNELS = "runtime/kernels/"  # numba inlines one function into a loop; a call between loops costs more than its lines

ALGORITHM = "a named algorithm of a paper, easier to compare in one piece"

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS = {"optimize/share/phantoms/choose.py gp": ALGORITHM, "runtime/calibrate/joins.py join_costs": ALGORITHM}
BRANCHING: dict[str, str] = {}


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted((SOURCE / "tidemill").rglob("*.py")):
        place = path.relative_to(SOURCE / "tidemill").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{place} {node.name}", node


def test_files_are_short_unless_their_header_says_why():
    """A kernel file may be long where numba needs it in one piece; its docstring says so."""
    found = set()
    for path in sorted((SOURCE / "tidemill").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > MOST_LINES and "numba" not in (ast.get_docstring(ast.parse(text)) or ""):
            found.add(path.relative_to(SOURCE / "tidemill").as_posix())
    assert found == set(LONG_FILES), "split it, or say in its header why numba needs it in one piece"


def test_functions_are_short():
    long = {
        name
        for name, node in _functions()
        if (node.end_lineno or 0) - node.lineno + 1 > MOST_FUNCTION_LINES and not name.startswith(_KERNELS)
    }
    assert long == set(LONG_FUNCTIONS)


def test_functions_branch_little():
    branching = {
        name for name, node in _functions() if sum(isinstance(n, _BRANCHES) for n in ast.walk(node)) > MOST_BRANCHES
    }
    assert branching == set(BRANCHING)
