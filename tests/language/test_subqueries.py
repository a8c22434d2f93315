"""Subqueries in expressions of standing queries: answers, keys, bad input and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import batch, fill, rows

FILE = Path(__file__).with_name("subquery_answers.sql")
QUERIES = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One database with all the queries as views, and a plain DuckDB over the same files."""
    folder = tmp_path_factory.mktemp("subqueries")
    db = LocalDatabase(str(folder / "db"))
    fill(db, folder)
    refused = {}
    for i, query in enumerate(QUERIES):
        try:
            db.execute(f"CREATE VIEW v{i} WITH (unbounded_state = true) AS {query}")
        except Exception as error:
            refused[i] = error
    db.run()
    duck = batch(folder)
    yield db, duck, refused
    db.close()
    duck.close()


@pytest.mark.parametrize("i", range(len(QUERIES)), ids=[q[:100] for q in QUERIES])
def test_standing_answer_equals_the_batch_answer(both, i):
    db, duck, refused = both
    if i in refused:
        raise refused[i]
    mine, theirs = db.query(f"SELECT * FROM v{i}"), duck.sql(QUERIES[i]).to_arrow_table()
    assert rows(mine) == rows(theirs)
    declared = [c.type for c in db.workload.views[f"v{i}"].stored.columns]
    assert declared == [str(t) for t in duck.sql(QUERIES[i]).types]


def test_nothing_was_put_aside(both):
    assert both[0].query("SELECT * FROM dead_letters").num_rows == 0
