"""ARCHITECTURE.md and the folders of src/tidemill are in step."""

from __future__ import annotations

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
