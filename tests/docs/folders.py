"""The folders of src/tidemill with one sentence each, as ARCHITECTURE.md prints them.

The sentences are the first lines of the docstrings in `__init__.py`. `python -m tests.docs.folders` writes them into
the page; test_folders.py compares them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.places import ROOT, SOURCE

PAGE = ROOT / "ARCHITECTURE.md"
BLOCK = re.compile(r"(?<=^```text folders\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
# The order in which a query meets them; other folders follow by name.
ORDER = ("serve", "engine", "sql", "plan", "optimize", "runtime")


def sentence(folder: Path) -> str:
    """The first line of a package's docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert text, f"{folder} has no docstring"
    return text.splitlines()[0]


def packages(folder: Path) -> list[Path]:
    found = [path.parent for path in folder.glob("*/__init__.py")]
    return sorted(found, key=lambda path: (ORDER.index(path.name) if path.name in ORDER else len(ORDER), path.name))


def tree(folder: Path, depth: int = 0) -> list[tuple[str, str]]:
    """(indented name, sentence) of a folder and everything below it."""
    name = "src/tidemill" if depth == 0 else folder.name
    below = [line for path in packages(folder) for line in tree(path, depth + 1)]
    return [("  " * depth + name + "/", sentence(folder)), *below]


def drawn() -> str:
    """All folders, the sentences below each other."""
    lines = tree(SOURCE / "tidemill")
    width = max(len(name) for name, _ in lines)
    return "".join(f"{name.ljust(width)}  {text}\n" for name, text in lines)


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: drawn(), PAGE.read_text(encoding="utf-8"), count=1), encoding="utf-8")
