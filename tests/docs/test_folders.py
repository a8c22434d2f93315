"""ARCHITECTURE.md and the folders of src/tidemill are in step."""

from __future__ import annotations

import ast

from tests.docs.folders import BLOCK, PAGE, drawn, packages, sentence
from tests.places import SOURCE


def test_the_page_shows_every_folder_with_its_sentence():
    """`python -m tests.docs.folders` writes the folders of today."""
    found = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert found and found[1] == drawn()


def test_every_folder_of_python_files_is_a_package():
    folders = {path.parent for path in (SOURCE / "tidemill").rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_a_sentence_is_one_line_that_ends():
    packs = [SOURCE / "tidemill"]
    for folder in packs:
        packs += packages(folder)
    assert len(packs) > 40 and not [str(folder) for folder in packs if sentence(folder)[-1] not in ".:"]


MANY = 14  # modules: who opens such a folder needs to be told where to begin


def test_large_folders_say_what_each_of_their_modules_is_for():
    large = {}
    for init in (SOURCE / "tidemill").rglob("__init__.py"):
        modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
        if len(modules) >= MANY:
            text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
            large[init.parent.name] = {name for name in modules if f"`{name}`" not in text}
    assert len(large) > 9 and not any(large.values()), large
