"""Aggregates whose last digits depend on the order of rows: a window takes back exactly the answers that it gave."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.harness import LocalDatabase

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
