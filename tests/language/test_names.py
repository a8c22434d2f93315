"""Whatever users call their columns, the answers are the same: no name is used up by the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, rows_of, tagged
from tidemill.errors import TidemillError

AWKWARD = "k n i d s x l r m rows running copies base delta stamp count order window".split()
PLAIN = [f"c{i}" for i in range(len(AWKWARD))]


def quoted(names: list[str], table: str = "") -> str:
    return ", ".join(f'{table}"{n}"' for n in names)


def logs(folder: Path, names: list[str]) -> dict[str, list[Any]]:
    """Every kind of operator over columns of these names."""
    db = LocalDatabase(str(folder / "db"))
    declared = ", ".join(f'"{n}" INTEGER' for n in names)
    feed = Feed(db, folder, "Raw", declared)
    feed.names = [*names, "at"]
    first = list(range(len(names)))
    feed.send([(*first, 1), (*first, 2), (1, *first[1:], 3), (0, *(v + 1 for v in first[1:]), 4), (*first, 9)])
    db.execute(f'CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY "{names[0]}"')
    every, key, some = quoted(names), f'"{names[0]}"', f'"{names[1]}"'
    views = {
        "plain": f"SELECT {every} FROM S",
        "keyed": f"SELECT {every} FROM K WHERE {some} > 0",
        "set": f"SELECT DISTINCT {every} FROM S",
        "except": f"SELECT {every} FROM S EXCEPT ALL SELECT {every} FROM K",
        "groups": f'SELECT {quoted(names[:4])}, count(*) AS "{names[4]}", max({some}) AS "{names[5]}",'
        f' count(DISTINCT {some}) AS "{names[6]}", sum({some}) AS "{names[7]}" FROM K'
        f" GROUP BY {quoted(names[:4])}",
        "now": f"SELECT {every} FROM S WHERE NOW - 3 < TS",
        "last": f"SELECT {every} FROM S [ROWS 2]",
        "join": f"SELECT {quoted(names, 'A.')}, {quoted(names[:3], 'B.')} FROM K A LEFT JOIN K B ON A.{key} = B.{some}",
        "points": f"SELECT {every} FROM S SYNC EVERY 2 ROWS",
        "stamped": f"SELECT {every} FROM (SELECT {every} FROM K) q WHERE NOW - 4 < q.TS",
    }
    for name, query in views.items():
        db.execute(f'CREATE STREAMED VIEW "{name}" AS {query}')
    db.execute(f"CREATE RSTREAM VIEW again AS {views['groups']}")
    db.run()
    found = {name: tagged(db, name) for name in views}
    found["again"] = rows_of(db, "SELECT * FROM again ORDER BY ALL")  # type: ignore[assignment]
    assert db.query("SELECT * FROM dead_letters").num_rows == 0
    db.close()
    return found


def test_no_name_of_a_column_has_a_meaning(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = logs(tmp_path / "a", PLAIN)
    assert all(plain.values())
    assert logs(tmp_path / "b", AWKWARD) == plain


@pytest.mark.parametrize("name", ["TAG", "OLD"])
def test_names_of_the_change_log_are_refused(db, tmp_path, name):
    Feed(db, tmp_path, "Raw", "x INTEGER")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    with pytest.raises(TidemillError) as caught:
        db.execute(f"CREATE STREAMED VIEW V AS SELECT x AS {name} FROM S")
    assert name in str(caught.value) and caught.value.hint
