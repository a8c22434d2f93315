"""6,000 rows a side in batches of 700: a band join under every kind of SYNC has exactly DuckDB's pairs."""

from __future__ import annotations

import os
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.properties.effort import thorough
from tidemill.runtime.thresholds import sizes

ROWS, SPAN, KEYS, BATCH = 6_000, 9_000, 60, 700
BANDS = {  # low <= O.TS - I.TS <= high
    "BETWEEN I.TS AND I.TS + 40": (0, 40),
    "BETWEEN I.TS - 25 AND I.TS": (-25, 0),
    "BETWEEN I.TS - 30 AND I.TS + 30": (-30, 30),
    "BETWEEN I.TS + 20 AND I.TS + 60": (20, 60),
    "BETWEEN I.TS - 70 AND I.TS - 30": (-70, -30),
}
EVENTS = "SELECT R.TS FROM R(O) R WHERE R.v % 211 = 0"
CLOCK = "SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint % 170 = 3"
# How the inputs and the join are held back: (I, O, the join).
HELD = {
    "nothing": ("", "", ""),
    "both": ("SYNC EVERY 100", "SYNC EVERY 100", ""),
    "differently": ("SYNC EVERY 150", "SYNC EVERY 40", ""),
    "left": ("SYNC EVERY 300", "", ""),
    "right": ("", "SYNC EVERY 300", ""),
    "above": ("", "", "SYNC EVERY 120"),
    "both and above": ("SYNC EVERY 30", "SYNC EVERY 50", "SYNC EVERY 200"),
    "rows": ("SYNC EVERY 333 ROWS", "", ""),
    "rows both": ("SYNC EVERY 250 ROWS", "SYNC EVERY 400 ROWS", ""),
    "events": ("SYNC ON Events", "", ""),
    "clock": ("SYNC ON Ticks", "SYNC ON Ticks", ""),
    "events above": ("", "SYNC EVERY 60", "SYNC ON Events"),
}
SHAPES = [(band, held) for band in BANDS for held in HELD]
QUICK = list(zip(BANDS, ("both", "right", "above", "events", "rows both"), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("rows")
    for seed, name in enumerate("IO"):
        chance = np.random.default_rng(seed)
        table = pa.table(
            {"k": chance.integers(0, KEYS, ROWS), "v": np.arange(ROWS), "tm": np.sort(chance.integers(0, SPAN, ROWS))}
        )
        os.makedirs(place / name)
        pq.write_table(table, place / name / "0.parquet", row_group_size=500)
    return place


def statements(folder, band, held):
    left, right, above = HELD[held]
    found = [
        f"REGISTER SOURCE {n}Raw (k BIGINT, v BIGINT, tm BIGINT) FROM FILES '{folder}/{n}/*.parquet'"
        f" WITH (timestamp = 'tm', batch_rows = {BATCH}); CREATE TAGGED STREAM {n} OVER {n}Raw"
        for n in "IO"
    ]
    found += [f"CREATE VIEW Events AS {EVENTS}", f"CREATE VIEW Ticks AS {CLOCK}"]
    text = f"SELECT I.v AS i, O.v AS o FROM I {left} AS I, O {right} AS O WHERE I.k = O.k AND O.TS {band}"
    text = f"SELECT q.i AS i, q.o AS o FROM ({text}) {above} AS q" if above else text
    return ";".join([*found, f"CREATE VIEW J AS {text}"])


class Points:
    """The last time that each synchronizer lets out, by rows that are all there."""

    def __init__(self, folder):
        self.rows = {n: pq.read_table(folder / n / "0.parquet").to_pydict() for n in "IO"}
        self.end = max(max(rows["tm"]) for rows in self.rows.values())

    def last(self, sync, own):
        if not sync:
            return self.end
        if sync == "SYNC ON Events":
            return max(t for t, v in zip(self.rows["O"]["tm"], self.rows["O"]["v"], strict=True) if v % 211 == 0)
        if sync == "SYNC ON Ticks":
            return max(t for t in range(self.end + 1) if t % 170 == 3)
        number = int(sync.split()[2])
        if sync.endswith("ROWS"):
            return self.rows[own]["tm"][ROWS // number * number - 1]
        return self.end // number * number


def _time(stamp, sync):
    """When a row comes out of its synchronizer, as far as a synchronizer above may see it."""
    every = int(sync.split()[2]) if sync.startswith("SYNC EVERY") and not sync.endswith("ROWS") else 1
    return f"({stamp} + {every - 1}) // {every} * {every}"


def pairs(folder, band, held):
    """What DuckDB says of the rows that the synchronizers have let out."""
    (low, high), (left, right, above), points = BANDS[band], HELD[held], Points(folder)
    came = f"greatest({_time('i.tm', left)}, {_time('o.tm', right)})"
    sql = (
        f"SELECT i.v, o.v FROM '{folder}/I/0.parquet' i JOIN '{folder}/O/0.parquet' o ON i.k = o.k"
        f" AND o.tm - i.tm BETWEEN {low} AND {high} WHERE i.tm <= {points.last(left, 'I')}"
        f" AND o.tm <= {points.last(right, 'O')} AND {came} <= {points.last(above, '')}"
    )
    return Counter(duckdb.sql(sql).fetchall())


@pytest.mark.parametrize(("band", "held"), SHAPES if thorough() else QUICK)
def test_no_pair_is_lost(tmp_path, folder, band, held, monkeypatch):
    monkeypatch.setattr(sizes, "expired_rows", 200)
    expected = pairs(folder, band, held)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(statements(folder, band, held))
        db.run()
        found = Counter(tuple(row.values()) for row in db.query("SELECT i, o FROM J").to_pylist())
    assert len(expected) > 1_000
    assert found == expected, f"{found.total()} pairs instead of {expected.total()}"
