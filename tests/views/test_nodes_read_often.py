"""A node that many others read is looked at once: the work of planning grows with the nodes of a query, not with the
ways from its top to its inputs, which double with every subquery over the same rows.
"""

from __future__ import annotations

import sys

import pytest

from tests.harness import LocalDatabase
from tidemill.plan import relations as r
from tidemill.plan.sources import Column

SETUP = """
REGISTER SOURCE R (k INTEGER, v INTEGER, at BIGINT) FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM S OVER R;
CREATE VIEW Known WITH (unbounded_state = true) AS SELECT k, avg(v) AS mean FROM S GROUP BY k;
"""
QUERIES = {"conditions": "SELECT a.k FROM S AS a WHERE {}", "columns": "SELECT a.k, ({}) AS found FROM S AS a"}
ONE = "a.v > (SELECT avg(b.v) FROM S AS b WHERE b.k <> a.k + {})"
FEW, MANY = 2, 4


def calls_of(db: LocalDatabase, statement: str) -> int:
    """How many functions are called while a statement is executed."""
    found = [0]

    def count(frame, event, arg):
        found[0] += event == "call"

    sys.setprofile(count)
    try:
        db.execute(statement)
    finally:
        sys.setprofile(None)
    return found[0]


@pytest.mark.parametrize("begin", ["creation", "history"])
@pytest.mark.parametrize("place", QUERIES)
def test_planning_grows_with_the_subqueries_of_a_query(tmp_path, place, begin):
    (tmp_path / "1.csv").write_text("k,v,at\n1,1,1\n2,5,2\n3,9,3\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.run(final=False)
        calls = []
        for many in (FEW, FEW, MANY):  # the first one of all is not counted: it fills caches
            query = QUERIES[place].format(" AND ".join(ONE.format(i) for i in range(many)))
            db.execute("DROP VIEW IF EXISTS V")
            options = f"unbounded_state = true, begin = '{begin}'"
            calls.append(calls_of(db, f"CREATE VIEW V WITH ({options}) AS {query}"))
        assert calls[2] < 4 * calls[1], "twice the subqueries are at most four times the work"


def ladder(steps: int) -> r.Relation:
    """2 ** steps ways lead from the top to the one input."""
    node: r.Relation = r.Scan("T", (Column("k", "INTEGER"),), static=True)
    for _ in range(steps):
        node = r.Union((node, node))
    return node


@pytest.mark.parametrize("holds", [r.append_only, r.never_changes, r.may_precede_clock])
def test_what_holds_for_a_tree_is_found_where_ways_are_many(holds):
    assert holds(ladder(200))


def test_the_beginning_of_an_answer_is_found_where_ways_are_many():
    assert r.beginning(r.GroupBy(ladder(200), (), ())) == ((),)
