"""Numbers that engine and runtime have as constants say beside them what they count, or why they are as they are.

Kernels are left out: their numbers are codes of formats and letters, and widths of the loops, which their docstrings
explain.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.places import SOURCE
from tidemill.runtime.thresholds import names

PLAIN = (0, 1, 2)  # nothing has to be said of them
ROOMS = ("engine", "runtime")
OPERATORS = (ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop, ast.Load)


def unexplained(text: str) -> Iterator[str]:
    """The constants of a module that are computed of numbers alone and have no comment beside or above them."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and all(isinstance(part, OPERATORS) for part in ast.walk(node.value)):
            numbers = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            telling = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool) and n not in PLAIN]
            said = "".join(lines[node.lineno - 1 : node.end_lineno])
            if telling and "#" not in said and not lines[node.lineno - 2].startswith("#"):
                yield ast.unparse(node)


def test_constants_say_what_they_are():
    files = [path for room in ROOMS for path in sorted((SOURCE / "tidemill" / room).rglob("*.py"))]
    assert len(files) > 300
    found = {
        f"{path.name}: {one}" for path in files if "kernels" not in path.parts for one in unexplained(path.read_text())
    }
    assert found == set()


def test_thresholds_say_what_they_count():
    text = (SOURCE / "tidemill/runtime/thresholds.py").read_text()
    (kind,) = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "Thresholds")
    fields = [n for n in kind.body if isinstance(n, ast.AnnAssign)]
    lines = text.splitlines()
    assert len(fields) == len(names())
    assert all("#" in "".join(lines[f.lineno - 1 : f.end_lineno]) for f in fields)


def test_a_bare_number_is_found():
    assert list(unexplained("import os\n\nMOST = 3 << 20\nHALF = 1 / 2\n# rows\nSOME = 7\nMORE = 8  # rows\n")) == [
        "MOST = 3 << 20"
    ]
