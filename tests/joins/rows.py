"""Random rows that meet: few different keys, some NULLs, records that replace and delete, sums that are exact.

In a skewed stream half of the rows have one key.
"""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from tests.properties.streams import Stream
from tidemill.plan.sources import Column

TABLE = (
    Column("k", "INTEGER"),
    Column("b", "BIGINT"),
    Column("s", "VARCHAR"),
    Column("v", "INTEGER"),
    Column("x", "DOUBLE"),
    Column("d", "DECIMAL(8,2)"),
)
APPENDED = (*TABLE, Column("tm", "INTEGER"))
KEYED = (*TABLE, Column("op", "VARCHAR"), Column("tm", "INTEGER"))
ODD = (float("inf"), float("-inf"), float("nan"), -0.0)


def record(rng: Random, strange: bool, skewed: bool, nulls: float) -> dict[str, Any]:
    """Doubles are multiples of 1/8, and infinities or NaN where `strange`; where `skewed`, half of the keys are 0."""
    values = {
        "k": 0 if skewed and rng.random() < 0.5 else rng.randrange(3),
        "b": rng.choice((0, 1, 2) * 3 + (300,)),
        "s": rng.choice("aaaabbbb1") if rng.random() < 0.95 else "",
        "v": rng.randint(-4, 9),
        "x": rng.choice(ODD) if strange and rng.random() < 0.2 else rng.randint(-16, 40) / 8,
        "d": Decimal(rng.randint(-500, 2500)) / 100,
    }
    return {n: None if rng.random() < nulls else value for n, value in values.items()}


def stream(rng: Random, name: str, kind: str, most: int, strange: bool, skewed: bool) -> Stream:
    """A stream that only grows, a keyed one with deletions, or a table; in files and batches of any size."""
    count = rng.choice((*[most] * 60, *[most // 2] * 8, 1, 0))
    nulls = rng.choice((0, 0, 0.08, 0.2))
    rows = [record(rng, strange, skewed, nulls) for _ in range(count)]
    form = rng.choice(("parquet", "json", "csv"))
    if kind == "static":
        return Stream(name, TABLE, tuple(rows[:6]), format=form, static=True)
    lateness, top, times = rng.choice((0, 0, 2)), 0, []
    for _ in range(count):
        times.append(max(top - rng.randint(0, lateness), 0))
        top = max(top, times[-1]) + rng.choice((0, 0, 1, 1, 1, 2))
    timed = [{**row, "tm": t} for row, t in zip(rows, times, strict=True)]
    columns: tuple[Column, ...] = APPENDED
    key: tuple[str, ...] = ()
    if kind == "keyed":
        columns, key = KEYED, rng.choice((("v",), ("k",), ("k", "s")))
        timed = [{**row, "op": rng.choice(("insert", "update", "upsert", "delete", None))} for row in timed]
    sizes = tuple(rng.randint(1, most) for _ in range(rng.randrange(3)))
    return Stream(name, columns, tuple(timed), key, lateness, form, sizes, rng.choice((None, 4, 7, 12)))
