"""Where many queries share, only raw relations have tables; and once these hold the rows back, no plan is sought."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.trial import contents_of, database
from tests.share.test_shared_many import STREAM, plan
from tidemill.optimize.share import measure, reader_plan
from tidemill.optimize.share.reader_plan import bucket_units
from tidemill.plan.physical import Lfta

PAIRS = ("k", "s", "k, s")


def create(db, count):
    """This many queries by each of three group-bys, with predicates and windows of their own."""
    for i in range(count):
        for j, keys in enumerate(PAIRS):
            db.execute(
                f"CREATE RSTREAM VIEW v{i}_{j} AS SELECT {keys}, COUNT(*) AS n, SUM(v) AS t"
                f" FROM A [RANGE {4 + i % 3} SLIDE {2 + i % 2}] WHERE v > {10 * i} GROUP BY {keys}"
            )
    return [f"v{i}_{j}" for i in range(count) for j in range(len(PAIRS))]


def relations(db):
    (lfta,) = [op for op in plan(db).reader if isinstance(op, Lfta)]
    return lfta.relations


@pytest.mark.parametrize(("count", "bare"), [(2, False), (12, True)])
def test_many_queries_of_a_leaf_need_no_tables_below_the_raw_one(count, bare):
    with database([STREAM], shards=2) as db:
        names = create(db, count)
        db.run()
        raw, *below = relations(db)
        assert raw.parent < 0 and raw.buckets and below
        assert all((relation.buckets == 0) == bare for relation in below)
        found = [contents_of(db, name) for name in names]
    with database([STREAM], shards=1) as db:
        db.execute("SET cells = off")
        create(db, count)
        db.run()
        assert all(relation.buckets for relation in relations(db))
        assert [contents_of(db, name) for name in names] == found


def test_the_raw_relation_gets_the_memory_of_the_others():
    with database([STREAM], shards=1) as db:
        create(db, 12)
        db.run()
        (made,) = db.workload.sharing.settings.reader_plans.values()

    def units(nodes):
        return sum(n.buckets * bucket_units(len(n.attributes), made.parts) for n in nodes)

    every = reader_plan._build_tree(made.chosen, reader_plan._group_leaves(made.queries, made.groups))
    one = bucket_units(len(made.tree[0].attributes), made.parts)
    assert units(every) - one < units(made.tree) <= units(every)


def test_a_table_that_holds_back_the_rows_is_settled():
    with database([STREAM], shards=1) as db:
        create(db, 12)
        db.run()
        (made,) = db.workload.sharing.settings.reader_plans.values()
    label = made.tree[0].label

    def counted(evicted):
        return {"relations": {label: {"probes": 10_000, "collisions": evicted, "turnovers": 0, "flushed": 0}}}

    assert measure.is_settled(made, counted(1_000))
    assert not measure.is_settled(made, counted(5_000))
    assert not measure.is_settled(made, {})
    tabled = (made.tree[0], *(replace(node, buckets=1) for node in made.tree[1:]))
    assert not measure.is_settled(replace(made, tree=tabled), counted(1_000))


def test_explain_says_which_relations_have_no_table():
    with database([STREAM], shards=1) as db:
        create(db, 12)
        db.run()
        text, chart = str(db.explain()), db.explain().to_mermaid()
    assert "relations without buckets have no table" in text and "running totals" in text
    assert "no table" in chart and " 0 buckets" not in chart
