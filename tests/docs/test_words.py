"""Prose names the thing that acts: no indefinite persons or quantities. Functions are named by what they do."""

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


PARTICIPLE = re.compile(
    r"_*(\w*[a-z]{2}ed|begun|bound|broken|built|chosen|done|drawn|given|gone|grown|held|hidden|kept|known|left|lost|made"
    r"|meant|met|said|seen|sent|shown|taken|told|written)"
)
NAMED_SO = {
    "changed": "`with changed(…)`: how things are inside of the block",
    "compiled": "a decorator: how the function is afterwards",
    "damaged": "`raise damaged(…)`: what is wrong",
    "mixed": "`with mixed(…)`: how things are inside of the block",
    "quoted": "the argument in another form, as Python's `sorted` and `reversed`",
    "shared": "the paper's name of a plan",
    "unshared": "the paper's name of a plan",
}


def participles(tree: ast.Module) -> Iterator[str]:
    """Functions whose name is a past participle and nothing else; a property may have such a name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            name = PARTICIPLE.fullmatch(node.name)
            if name and "_" not in name[1] and name[1] not in OTHER_WORDS and not is_property:
                yield node.name


OTHER_WORDS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"}


def test_functions_are_named_by_what_they_do():
    found = {n for path in sorted((ROOT / "src").rglob("*.py")) for n in participles(ast.parse(path.read_text()))}
    assert found == set(NAMED_SO)


def test_a_participle_is_found():
    code = "class A:\n    @property\n    def kept(self): ...\n    def _noted(self): ...\n    def seen(self): ...\n"
    assert set(participles(ast.parse(code + "def feed(): ...\ndef note_rows(): ...\n"))) == {"_noted", "seen"}
