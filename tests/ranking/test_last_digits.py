"""Aggregates whose last digits depend on the order of rows: a window takes back exactly the answers that it gave."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext

import duckdb
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tidemill.runtime.thresholds import smallest

VALUES = [0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1]
CALLS = ("entropy(k)", "sum(k / 7)", "stddev(k / 7)", "skewness(k)", "product(k + 0.1)")


@pytest.mark.parametrize("batch", [7, 20])
def test_a_window_without_order_has_one_answer_for_each_row(tmp_path, batch):
    lines = [f"{k},{i},+,{i}" for i, k in enumerate(VALUES)]
    lines += [f"{k},{100 + i},+,{30 + i}" for i, k in enumerate(VALUES[:13])]
    lines += [f"{k},{100 + i},-,{60 + i}" for i, k in enumerate(VALUES[:13])]
    (tmp_path / "s.csv").write_text("\n".join(["k,id,op,at", *lines, ""]))
    with LocalDatabase(str(tmp_path / "db"), shards=2) as db:
        db.execute(f"""
            REGISTER SOURCE R (k INTEGER, id INTEGER, op VARCHAR, at BIGINT) FROM FILES '{tmp_path}/s.csv'
            WITH (timestamp = 'at', batch_rows = {batch}, operation = 'op');
            CREATE TAGGED STREAM S OVER R KEY id;
        """)
        for i, call in enumerate(CALLS):
            db.execute(f"CREATE VIEW v{i} AS SELECT k, {call} OVER (PARTITION BY k % 2) AS x FROM S")
        db.run()
        for i, call in enumerate(CALLS):
            shown = db.query(f"SELECT * FROM v{i}")
            assert Counter(shown.column("k").to_pylist()) == Counter(VALUES), call


OVER = (
    "sum(x) OVER (PARTITION BY p ORDER BY o)",
    "avg(x) OVER (PARTITION BY p ORDER BY o, id ROWS BETWEEN 5 PRECEDING AND CURRENT ROW)",
    "sum(x) OVER (PARTITION BY p ORDER BY o RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING)",
    "stddev(x) OVER (ORDER BY id ROWS BETWEEN 20 PRECEDING AND 20 FOLLOWING)",
)


def records(count: int) -> list[tuple[int, int, int, float, int]]:
    """Records (id, p, o, x, at) that replace one another; no two sums of their numbers have one order of digits."""
    draw = random.Random(7)
    return [
        (draw.randrange(25), draw.randrange(3), draw.randrange(12), draw.random() * 10 ** draw.randrange(-3, 6), i // 3)
        for i in range(count)
    ]


@pytest.mark.parametrize("small", [False, True])
def test_sums_of_doubles_in_an_order_are_taken_back_as_they_were_given(tmp_path, small):
    """Also when the rows lie in other shards than before, and when a batch has more versions than fit into memory."""
    rows = records(60 if small else 120)
    half = len(rows) // 2
    head, lines = "id,p,o,x,at\n", [f"{i},{p},{o},{x!r},{at}\n" for i, p, o, x, at in rows]
    with smallest() if small else nullcontext(), CheckpointedDatabase(str(tmp_path / "db"), shards=2) as db:
        db.execute(f"""
            REGISTER SOURCE R (id INTEGER, p INTEGER, o INTEGER, x DOUBLE, at BIGINT) FROM FILES '{tmp_path}/*.csv'
            WITH (timestamp = 'at', batch_rows = 20);
            CREATE TAGGED STREAM S OVER R KEY id;
        """)
        for i, call in enumerate(OVER):
            db.execute(f"CREATE VIEW v{i} AS SELECT id, {call} AS y FROM S")
        (tmp_path / "1.csv").write_text(head + "".join(lines[:half]))
        db.run(final=False)
        db.rescale(3)
        (tmp_path / "2.csv").write_text(head + "".join(lines[half:]))
        db.run()
        shown = [db.query(f"SELECT id, y FROM v{i} ORDER BY id").to_pydict() for i in range(len(OVER))]
    with duckdb.connect() as duck:
        duck.execute("CREATE TABLE s (id INTEGER, p INTEGER, o INTEGER, x DOUBLE)")
        duck.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", [row[:4] for row in {r[0]: r for r in rows}.values()])
        for found, call in zip(shown, OVER, strict=True):
            wanted = duck.sql(f"SELECT id, {call} AS y FROM s ORDER BY id").fetchall()
            assert found["id"] == [i for i, _ in wanted], call
            assert found["y"] == pytest.approx([y for _, y in wanted]), call
