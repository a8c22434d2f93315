"""The engine runs the texts of fragments: sites that hand files to each other have the log of one site."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import log_of
from tests.sites.cases import COLUMNS
from tidemill.plan.sites import Equality, SiteInput, SiteQuery, plan_sites
from tidemill.plan.sources import Column

UNIT, END = 1_000_000, 40
TEXT = "SELECT A.k, A.v AS av, A.tm AS atm, B.v AS bv, B.tm AS btm FROM ⟨A⟩ JOIN ⟨B⟩ ON A.k = B.k"
Rows = list[dict[str, Any]]


def make_rows(seed: int, values: list[int | None]) -> Rows:
    chance = random.Random(seed)
    times = sorted(chance.randint(0, END - 5) for _ in range(30))
    return [{"k": chance.choice(values), "v": i, "tm": t} for i, t in enumerate(times)]


def query(window: str, kept: int | None, row_local: bool) -> SiteQuery:
    inputs = tuple(
        SiteInput(alias, f"S{alias}", site, COLUMNS, "tm", window, row_local, True, kept)
        for alias, site in (("A", "n1"), ("B", "n2"))
    )
    return SiteQuery(inputs, (Equality.inner("A", ("k",), "B", ("k",)),), "n1", TEXT)


class Site:
    """Streams and edges as files; each query runs in a database of its own, to the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sources, self.runs = folder, dict[str, tuple[tuple[Column, ...], str]](), 0

    def write(self, name: str, columns: tuple[Column, ...], time: str, rows: Rows) -> None:
        """All sources have a last row without a key, so that every clock gets to the same end."""
        place = self.folder / name
        place.mkdir()
        last = {c.name: END if c.name == time else None for c in columns}
        listed = [*sorted(rows, key=lambda r: r[time]), last]
        (place / "0.json").write_text("".join(json.dumps(r) + "\n" for r in listed))
        self.sources[name] = (columns, time)

    def run(self, sql: str) -> list[tuple[int, str, tuple[Any, ...]]]:
        self.runs += 1
        with LocalDatabase(str(self.folder / f"db{self.runs}")) as db:
            for name, (columns, time) in self.sources.items():
                listed = ", ".join(f"{c.name} {c.type}" for c in columns)
                db.execute(
                    f"REGISTER SOURCE {name}Source ({listed}) FROM FILES '{self.folder / name}/*.json'"
                    f" WITH (timestamp = '{time}'); CREATE TAGGED STREAM {name} OVER {name}Source;"
                )
            db.execute(f"CREATE STREAMED VIEW V WITH (unbounded_state = true) AS {sql}")
            db.run()
            return sorted(((c.time, c.tag, c.row) for c in log_of(db, "V")), key=repr)

    def ship(self, fragment: Any) -> int:
        """Run a fragment and hand its changes over; how many rows crossed."""
        names = [c.name for c in fragment.columns]
        log = self.run(fragment.sql)
        came = [dict(zip(names, row, strict=True)) | {"came": time // UNIT} for time, tag, row in log if tag == "+"]
        if fragment.role == "keys":
            assert all(tag == "+" for _, tag, _ in log)
            self.write(fragment.edge, (*fragment.columns, Column("came", "INTEGER")), "came", came)
        else:
            self.write(fragment.edge, fragment.columns, "tm", [{n: r[n] for n in names} for r in came])
        return len(came)


@pytest.mark.parametrize("algorithm", ["sp_s", "sm_s1", "sm_s2", "sm_d1", "bloom"])
def test_files_between_sites_give_the_log_of_one_site(algorithm, tmp_path):
    site = Site(tmp_path)
    site.write("SA", COLUMNS, "tm", make_rows(1, [0, 1, 2, None]))
    site.write("SB", COLUMNS, "tm", make_rows(2, [1, 2, 2, 3, 4, 5, None]))
    plan = plan_sites(query("[WINDOW 6]", 6 * UNIT, True), algorithm)
    crossed = {f.role: site.ship(f) for f in plan.fragments if f.role != "result"}
    expected = site.run(TEXT.replace("⟨A⟩", "SA [WINDOW 6] AS A").replace("⟨B⟩", "SB [WINDOW 6] AS B"))
    assert site.run(plan.sql) == expected and len(expected) > 20
    assert crossed["rows"] < 30 if "keys" in crossed else crossed["rows"] == 31
