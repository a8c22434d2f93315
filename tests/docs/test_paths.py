"""The files and folders that the pages name are there."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.places import ROOT, SOURCE

PAGES = sorted(
    [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    + [ROOT / "docs" / name for name in ("papers.md", "glossary.md")]
    + [path for folder in ("ideas", "architecture") for path in (ROOT / "docs" / folder).glob("*.md")]
)
NAMED = re.compile(r"`((?:[\w.-]+/)*(?:[\w-]+\.py|[\w.-]+/))`")
ROOMS = ("plan", "sql", "optimize", "runtime", "engine", "serve", "src", "tests", "benchmarks", "docs")
MADE = ("your_", "my_")  # what an exercise asks the reader to write


@cache
def known_names() -> frozenset[str]:
    return frozenset(
        path.name for folder in (SOURCE, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.py")
    )


def exists(name: str) -> bool:
    """A path from the root or from src/tidemill; a bare file name may be anywhere."""
    if "/" not in name:
        return name in known_names()
    return any((place / name).exists() for place in (ROOT, SOURCE / "tidemill"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page):
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    code = {name for name in named if "/" not in name or name.split("/")[0] in ROOMS}
    missing = sorted(name for name in code if not exists(name) and not any(mark in name for mark in MADE))
    assert not missing


def test_a_file_that_is_not_there_is_found():
    assert exists("runtime/stage/stage.py") and not exists("runtime/stage/stages.py") and not exists("no_such_file.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_name_in_a_file_is_in_that_file(page):
    """`tagged` in `runtime/views/changes.py`."""
    claimed = re.findall(r"`(\w+)` in `([\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert not [
        (name, file)
        for name, file in claimed
        if not re.search(rf"\b{name}\b", text_of(file)) and not file.startswith(MADE)
    ]


def text_of(name: str) -> str:
    """The file of that name, by its path or wherever it is."""
    paths = [place / name for place in (ROOT, SOURCE / "tidemill") if (place / name).exists()]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths or SOURCE.rglob(name))
