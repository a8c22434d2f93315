"""Any file of a database, removed, cut, emptied, changed by one bit or replaced: the right answer, or an error that
names the file. Never a traceback of a library, never another answer.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.sample import CHUNKS, answers, begin, files, go_on, is_named
from tests.paper.notation import raw, write
from tests.properties.effort import thorough
from tidemill.errors import TidemillError
from tidemill.runtime.integrity import openable

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


# Of the kinds of files, those that are opened by code of their own.
IN_THE_WAY = r"catalog|control|operators|checkpoint/tidemill|plans|Raw/files|Sent/committed|spool-.*log|waiting"


def put_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def test_a_directory_or_a_circle_of_links_in_the_place_of_a_file_is_named(places, tmp_path):
    mine, _, wanted = places
    by_kind = {re.sub(r"[0-9a-f]{6,}|[0-9]+", "#", name): name for name in files(mine)}
    chosen = [name for name in by_kind.values() if thorough() or re.search(IN_THE_WAY, name)]
    refused = set()
    for number, name in enumerate(chosen):
        for put in (put_directory, put_circle)[:: 1 if number % 2 else -1][: None if thorough() else 1]:
            place = tmp_path / f"{number}-{put.__name__}"
            shutil.copytree(mine, place)
            put(place / name)
            try:
                assert answers(place) == wanted, (name, put)
            except TidemillError as error:
                assert is_named(name, str(error)), (name, put, error)
                refused.add(name)
    assert len(refused) > len(chosen) // 2


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EACCES, "let the user"), (errno.EIO, "put the whole"), (errno.EMFILE, None)]
)
def test_what_cannot_be_opened_is_named_if_the_file_is_to_blame(number, hint):
    """Another user's file, a failing disk; too many open files say nothing about the one that was tried."""
    with pytest.raises(TidemillError if hint else OSError) as caught, openable("db/catalog.json"):
        raise OSError(number, os.strerror(number))
    if hint:
        assert caught.value.code == "TM607" and "db/catalog.json" in str(caught.value)
        assert caught.value.hint.startswith(hint) and os.strerror(number) in caught.value.detail
