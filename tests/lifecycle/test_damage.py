"""Any file of a database, removed, cut, emptied, changed by one bit or replaced: the right answer, or an error that
names the file. Never a traceback of a library, never another answer.
"""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.sample import CHUNKS, answers, begin, files, go_on, is_named
from tests.paper.notation import raw, write
from tests.properties.effort import thorough
from tidemill.errors import TidemillError

CASES = None if thorough() else 50


def make(folder: Path) -> Path:
    """A database with files of every kind, closed after two runs."""
    go_on(folder, begin(folder), CHUNKS[1])
    return folder / "db"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A database, another one like it, what the first answers, and what it answers when it is whole."""
    base = tmp_path_factory.mktemp("damage")
    mine, other = make(base / "mine"), make(base / "other")
    write(base / "mine" / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
    whole = base / "whole"
    shutil.copytree(mine, whole)
    return mine, other, answers(whole)


def same_kind(other: Path, name: str) -> Path | None:
    """The file of another database in the same place; names of some are random."""
    found = other / name
    if found.exists():
        return found
    return next(iter(sorted(found.parent.glob(f"*{found.suffix}"))), None)


def damages(path: Path, chance: random.Random, substitute: Path | None) -> dict[str, Any]:
    data = path.read_bytes()
    flips = sorted({0, len(data) // 2, max(0, len(data) - 2), *(chance.randrange(max(1, len(data))) for _ in range(3))})
    found: dict[str, Any] = {
        "removed": path.unlink,
        "emptied": lambda: path.write_bytes(b""),
        "cut in half": lambda: path.write_bytes(data[: len(data) // 2]),
        "one byte short": lambda: path.write_bytes(data[:-1]),
        "two bytes short": lambda: path.write_bytes(data[:-2]),
    }
    for at in flips:
        bit = 1 << chance.randrange(8)
        found[f"bit {bit} of byte {at} flipped"] = lambda at=at, bit=bit: path.write_bytes(
            data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] if data else b"x"
        )
    if substitute is not None and substitute.read_bytes() != data:
        found["of another database"] = lambda: path.write_bytes(substitute.read_bytes())
    return found


def test_a_damaged_file_is_named_or_does_no_harm(places, tmp_path):
    mine, other, wanted = places
    seed = random.SystemRandom().randrange(1 << 30) if thorough() else 11
    chance = random.Random(seed)
    cases = [
        (name, how) for name in files(mine) for how in damages(mine / name, random.Random(name), same_kind(other, name))
    ]
    chance.shuffle(cases)
    by_file = {name: how for name, how in cases}  # each file once, then others
    chosen = list(itertools.islice(dict.fromkeys([*by_file.items(), *cases]), CASES))
    faults, refused = [], 0
    for number, (name, how) in enumerate(chosen):
        place = tmp_path / str(number)
        shutil.copytree(mine, place)
        damages(place / name, random.Random(name), same_kind(other, name))[how]()
        try:
            if answers(place) != wanted:
                faults.append(f"{name} {how}: another answer")
        except TidemillError as error:
            refused += 1
            if not is_named(name, str(error)):
                faults.append(f"{name} {how}: not named by {error}")
        except Exception as error:
            faults.append(f"{name} {how}: {type(error).__name__}: {error}")
        shutil.rmtree(place)
    assert not faults, f"seed {seed}, {len(faults)} of {len(chosen)}:\n" + "\n".join(faults)
    assert refused > len(chosen) // 4
