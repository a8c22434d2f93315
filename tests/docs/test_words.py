"""Comments, docstrings and pages name the thing that acts: no indefinite persons or quantities."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

WORDS = re.compile(r"\b(nobody|somebody|everybody|whoever|so\s+many)\b", re.IGNORECASE)
FOLDERS = ("src", "benchmarks", "tests", "docs")
HERE = Path(__file__)


def prose(path: Path) -> Iterator[str]:
    """Comments and docstrings of a module; names of things and texts that it works with are not looked at."""
    with tokenize.open(path) as file:
        text = file.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node, clean=False) or ""
    with path.open("rb") as file:
        yield from (token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT)


def found_in(path: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8")] if path.suffix == ".md" else prose(path)
    return [f"{path.relative_to(ROOT)}: {found[0]}" for text in texts for found in WORDS.finditer(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_prose_names_what_acts(folder):
    paths = [path for ending in ("py", "md") for path in sorted((ROOT / folder).rglob(f"*.{ending}")) if path != HERE]
    assert paths and [words for path in paths for words in found_in(path)] == []


def test_pages_at_the_top_name_what_acts():
    assert [words for path in sorted(ROOT.glob("*.md")) for words in found_in(path)] == []
