"""Any file of a database, removed, cut, emptied, changed by one bit or replaced: the right answer, or an error that
names the file. Never a traceback of a library, never another answer.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.paper.notation import Feed, raw, write
from tests.properties.effort import thorough
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import changed

SETUP = """
    CREATE TAGGED STREAM S OVER Raw;
    CREATE TAGGED STREAM K OVER Raw KEY k;
    CREATE STREAMED VIEW Log AS SELECT k, v FROM S WHERE v > 1;
    CREATE VIEW Latest AS SELECT k, v FROM K;
    CREATE VIEW G AS SELECT k, count(*) AS n, sum(v) AS s FROM S GROUP BY k;
    CREATE VIEW GG AS SELECT n, count(*) AS m FROM G GROUP BY n;
    CREATE VIEW W AS SELECT k, sum(v) AS s FROM S [RANGE 4 SLIDE 2] GROUP BY k;
    CREATE RSTREAM VIEW R AS SELECT k, max(v) AS m FROM S [RANGE 6 SLIDE 3] GROUP BY k;
    CREATE VIEW J AS SELECT S.k, T.label FROM S JOIN T ON S.k = T.k;
"""
CHUNKS = ["<a,1>1 <b,2>2 <c,3>4", "<a,3>5 <c,4>6 <d,9>9", "<b,0>11 <d,9>12 <a,2>15"]
CASES = None if thorough() else 40
# What says how others shall be read, but holds nothing itself.
HARMLESS = {"lock", "status.json", "spark.log", "metadata"}


def make(folder: Path) -> Path:
    """A database with files of every kind, closed after two runs."""
    folder.mkdir()
    write(folder / "t.json", ["k", "label"], [("a", "Alpha"), ("b", "Beta")])
    with sized(), CheckpointedDatabase(str(folder / "db")) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute(f"REGISTER TABLE T (k VARCHAR, label VARCHAR) FROM FILES '{folder}/t.json'")
        db.execute(SETUP)
        for chunk in CHUNKS[:2]:
            feed.send(chunk)
            db.run()
    return folder / "db"


def sized():
    """Everything that can be a file is one."""
    return changed(inline_bytes=0, sealed_rows=1)


def answers(root: Path) -> dict[str, Any]:
    """Open, take in what is there, read everything."""
    with sized(), CheckpointedDatabase(str(root)) as db:
        before = _read(db)
        db.run()
        return {"before": before, "after": _read(db)}


def _read(db: CheckpointedDatabase) -> dict[str, Any]:
    found: dict[str, Any] = {"Log": db.changes("Log").to_pylist()}
    with db.store.reading() as duck:
        for view in db.workload.views.values():
            rows = duck.sql(db.store.relation_sql(view.stored, duck)).fetchall()
            found[view.entry.name] = sorted(rows, key=str)
    return found


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A database, another one like it, what the first answers, and what it answers when it is whole."""
    base = tmp_path_factory.mktemp("damage")
    mine, other = make(base / "mine"), make(base / "other")
    write(base / "mine" / "Raw" / "000003.json", ["k", "v", "at"], raw(CHUNKS[2]))
    whole = base / "whole"
    shutil.copytree(mine, whole)
    return mine, other, answers(whole)


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name not in HARMLESS)


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
        "removed": path.unlink, "emptied": lambda: path.write_bytes(b""),
        "cut in half": lambda: path.write_bytes(data[:len(data) // 2]),
        "one byte short": lambda: path.write_bytes(data[:-1]), "two bytes short": lambda: path.write_bytes(data[:-2]),
    }
    for at in flips:
        bit = 1 << chance.randrange(8)
        found[f"bit {bit} of byte {at} flipped"] = lambda at=at, bit=bit: path.write_bytes(
            data[:at] + bytes([data[at] ^ bit]) + data[at + 1:] if data else b"x")
    if substitute is not None and substitute.read_bytes() != data:
        found["of another database"] = lambda: path.write_bytes(substitute.read_bytes())
    return found


def test_a_damaged_file_is_named_or_does_no_harm(places, tmp_path):
    mine, other, wanted = places
    seed = random.SystemRandom().randrange(1 << 30) if thorough() else 11
    chance = random.Random(seed)
    cases = [(name, how) for name in files(mine) for how in damages(mine / name, random.Random(name),
                                                                    same_kind(other, name))]
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


def is_named(name: str, text: str) -> bool:
    """The file or, of a part that is others' (a state store, a log), the folder."""
    folder = name.split(os.sep)[:2] if name.startswith("checkpoint") else name.split(os.sep)[:1]
    return name in text or os.path.join("", *folder) in text
