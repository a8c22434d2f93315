"""The glossary: one entry for each word, and rooms that exist."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.places import ROOT, SOURCE

ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| word |")
]


def test_each_word_has_one_entry():
    """A word with several meanings names the thing in brackets: `edge (of a window)`, `edge (of a plan)`."""
    names = Counter(row[0] for row in ROWS)
    assert ROWS and [word for word, times in names.items() if times > 1] == []
    plain = {word.split(" (")[0] for word in names if " (" in word} & set(names)
    assert plain == set(), f"say which one is meant: {plain}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_room_of_a_word_exists(row):
    rooms = re.findall(r"`([\w/.]+)`", row[-1])
    assert rooms, "a word of the trade lives somewhere"
    for room in rooms:
        assert (SOURCE / "tidemill" / room).exists() or (ROOT / room).exists(), room
