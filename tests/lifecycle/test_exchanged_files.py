"""Any file of a database replaced by another file of it, or by an older version of itself: the right answer, or an
error that names the file.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.lifecycle.sample import CHUNKS, answers, begin, files, go_on, is_named, sized
from tests.paper.notation import Feed, raw, write
from tests.properties.effort import thorough
from tidemill.errors import TidemillError

# What is done between two copies of the database: rows, and a change of what stands or of settings.
STEPS = [
    "CREATE VIEW H AS SELECT v, count(*) AS n FROM S GROUP BY v",
    "DROP VIEW H; CREATE VIEW H AS SELECT v + 1 AS w FROM S",
    "CREATE VIEW L AS SELECT k FROM S WHERE v > 3",
]

Case = tuple[str, str]  # (the file that is replaced, the file that takes its place)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Copies of a database as it was when it was closed, oldest first; and what the last one answers."""
    base = tmp_path_factory.mktemp("exchanged")
    feed = begin(base / "mine")
    copies = [_copied(base)]
    for step, chunk in zip(STEPS, [*CHUNKS[1:], None], strict=True):
        _go_on(base, feed, step, chunk)
        copies.append(_copied(base))
    write(base / "mine" / "Raw" / "000009.json", ["k", "v", "at"], raw("<a,4>20 <e,1>21 <c,2>22"))
    shutil.copytree(copies[-1], base / "whole")
    return copies, answers(base / "whole")


def _copied(base: Path) -> Path:
    number = sum(1 for _ in base.glob("copy*"))
    return Path(shutil.copytree(base / "mine" / "db", base / f"copy{number}"))


def _go_on(base: Path, feed: Feed, step: str, chunk: str | None) -> None:
    """One more run with rows; the last statement is never run."""
    with sized(), CheckpointedDatabase(str(base / "mine" / "db")) as db:
        db.execute(step)
    if chunk is not None:
        go_on(base / "mine", feed, chunk)


def older(copies: list[Path]) -> list[Case]:
    """Every file with every older version of itself."""
    newest = copies[-1]
    return [
        (name, str(copy / name))
        for name in files(newest)
        for copy in copies[:-1]
        if (copy / name).exists() and (copy / name).read_bytes() != (newest / name).read_bytes()
    ]


def others(copies: list[Path]) -> list[Case]:
    """Every file with every other one, from any time."""
    newest = copies[-1]
    return [
        (name, str(copy / other))
        for copy in copies
        for other in files(copy)
        for name in files(newest)
        if name != other and (copy / other).read_bytes() != (newest / name).read_bytes()
    ]


def folder(path: str) -> str:
    """Where a file is, in whichever copy: the folder of a state store or a source stands for all of its kind."""
    parts = Path(path).parent.parts
    at = next((i + 1 for i, part in enumerate(parts) if part.startswith("copy")), 0)
    return "/".join(parts[at:][:2] if "checkpoint" in parts else parts[at:][:1])


def chosen(copies: list[Path]) -> tuple[int, list[Case]]:
    """By default each older version of a file from the last copy, some of each folder and some of any two folders."""
    seed = random.SystemRandom().randrange(1 << 30) if thorough() else 5
    chance = random.Random(seed)
    aged, mixed = older(copies), others(copies)
    chance.shuffle(aged)
    chance.shuffle(mixed)
    alike = [case for case in mixed if folder(case[0]) == folder(case[1])]
    if thorough():
        return seed, list(dict.fromkeys([*aged, *alike[:600], *mixed[:300]]))
    kinds: dict[str, list[Case]] = {}
    for case in [*aged, *alike]:
        kinds.setdefault(folder(case[0]) or case[0], []).append(case)
    return seed, [case for cases in kinds.values() for case in cases[:2]] + mixed[:4]


def test_an_exchanged_file_is_named_or_does_no_harm(places, tmp_path):
    """offsets/3 replaced by a copy of offsets/0 gave wrong answers."""
    copies, wanted = places
    seed, cases = chosen(copies)
    faults, refused = [], 0
    for number, (name, other) in enumerate(cases):
        place = tmp_path / str(number)
        shutil.copytree(copies[-1], place)
        shutil.copyfile(other, place / name)
        case = f"{name} replaced by {Path(other).relative_to(copies[0].parent)}"
        try:
            if answers(place) != wanted:
                faults.append(f"{case}: another answer")
        except TidemillError as error:
            refused += 1
            if not is_named(name, str(error)):
                faults.append(f"{case}: not named by {error}")
        except Exception as error:
            faults.append(f"{case}: {type(error).__name__}: {error}")
        shutil.rmtree(place)
    assert not faults, f"seed {seed}, {len(faults)} of {len(cases)}:\n" + "\n".join(faults)
    assert refused > len(cases) // 4
