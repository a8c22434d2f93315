"""Streams of thousands of rows: the last answer of every view is DuckDB's, whatever cuts and thresholds are."""

from __future__ import annotations

import random
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tests.properties import queries
from tests.properties.effort import effort, thorough
from tests.properties.streams import KEYED, PLAIN, UNIT, Stream
from tests.properties.test_answers import places
from tests.properties.test_invariance import rounded, run
from tests.properties.trial import check_directly, create, drawn_database, plain_sql, used_sources

MOST = 10_000 if thorough() else 600
WORDS = ["a", "b", "c", "", "Ä", "it's"]


def bulk(name: str, rows: int, seed: int, batch_rows: int | None, keyed: bool) -> Stream:
    """Many rows by a seed: few of them share a key, so that joins stay small."""
    draw = random.Random(seed)
    lateness, now, found = draw.choice([0, 3]), 0, []
    for _ in range(rows):
        now += draw.choice([0, 0, 0, 1])
        record = {
            "k": draw.randrange(max(4, rows // 6)) if draw.random() > 0.02 else None,
            "v": draw.randint(-rows, rows),
            "x": draw.randint(-20, 40) / 4,
            "d": Decimal(draw.randint(-500, 2500)) / 100,
            "s": draw.choice(WORDS),
        }
        if keyed:
            record["op"] = draw.choice(["insert", "update", "delete", None])
        found.append(record | {"tm": max(0, now - draw.randint(0, lateness))})
    kind = draw.choice(["parquet", "json", "csv"])
    return Stream(
        name, KEYED if keyed else PLAIN, tuple(found), ("k",) if keyed else (), lateness, kind, (rows // 3,), batch_rows
    )


@st.composite
def large_workloads(draw):
    """Streams A and K, sometimes B, with the views of the other properties over them."""
    batches = st.sampled_from([None, 97, 700, 2_000])
    found = [
        bulk(name, draw(st.integers(MOST // 10, MOST)), draw(st.integers(0, 10**6)), draw(batches), name == "K")
        for name in ("A", "K", "B")[: draw(st.sampled_from([2, 3]))]
    ]
    return found, draw(queries.views(found, odd=False, most=3))


def last_moment(db, sources) -> int:
    return max((row["tm"] for s in used_sources(db, sources) for row in s.punctual()[0]), default=0) * UNIT


@effort(4, thorough_cases=500)
@given(workload=large_workloads(), place=places)
def test_last_answers_of_large_streams_are_those_of_duckdb(workload, place):
    sources, views = workload
    with drawn_database(sources, **place) as db:
        made = create(db, views)
        db.run()
        with plain_sql(sources) as duck:
            for view in made:
                check_directly(db, view, duck, [last_moment(db, sources)])


@effort(2, thorough_cases=100)
@given(workload=large_workloads(), first=places, second=places)
def test_logs_of_large_streams_do_not_depend_on_cuts(workload, first, second):
    sources, views = workload
    others = [s.recut((), 1_100) for s in sources]
    assert rounded(run(others, views, **second)) == rounded(run(sources, views, **first))
