"""What the readers counted: flow lengths that are no luck, and counts beside predictions of the plan that ran."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from tests.properties.streams import PLAIN, Stream
from tests.properties.trial import database
from tidemill.engine.adapt.sharing import Sharing
from tidemill.optimize.share.flows import significant_flow
from tidemill.optimize.share.phantoms.configuration import relation
from tidemill.optimize.share.reader_plan import Settings, plan_from_json, plan_reader, plan_to_json
from tidemill.optimize.share.report import compare_counts
from tidemill.optimize.share.stored_statistics import WindowStatistics

RNG = np.random.default_rng(5)
COUNT = 6_000
ROWS = tuple(
    {"k": int(k), "v": int(v), "x": None, "d": None, "s": "abcdefgh"[k % 8], "tm": i // 600}
    for i, (k, v) in enumerate(zip(RNG.integers(0, 40, COUNT), RNG.integers(0, 30, COUNT), strict=True))
)
STREAM = Stream("A", PLAIN, ROWS, format="parquet", batch_rows=2_000)


def create(db, memory=600):
    db.execute(f"SET lfta_memory = {memory}")
    for i, keys in enumerate(("k, v", "v, s", "k", "v % 3 AS m, s")):
        grouped = keys.replace(" AS m", "")
        db.execute(f"CREATE VIEW q{i} AS SELECT {keys}, COUNT(*) AS n FROM A [RANGE 4 SLIDE 2] GROUP BY {grouped}")


def met(groups, buckets, length, rng, probes=60_000):
    """The entries that one table makes of groups that come in flows of a length."""
    place = rng.integers(0, buckets, groups)
    slots, found = np.full(buckets, -1), 0
    for group in rng.integers(0, groups, probes // length).tolist():  # only the first row of a flow can make one
        found += slots[place[group]] != group
        slots[place[group]] = group
    return found


@pytest.mark.parametrize(("groups", "buckets"), [(30, 100), (61, 249), (200, 1000), (500, 100), (40, 5)])
def test_a_table_that_was_lucky_has_no_flows(groups, buckets):
    """Of tables with random rows most have a length of 1, and none one that would be worth another plan."""
    rng = np.random.default_rng(groups)
    found = [significant_flow(60_000, groups, buckets, met(groups, buckets, 1, rng)) for _ in range(40)]
    assert sorted(found)[2] == sorted(found)[37] == 1.0 and min(found) > 0.6 and max(found) < 1.6


@pytest.mark.parametrize("length", [5, 20])
def test_flows_are_still_seen(length):
    rng = np.random.default_rng(length)
    keys = 2000 * (1 - np.exp(-60_000 / length / 2000))
    found = [significant_flow(60_000, keys, 500, met(2000, 500, length, rng)) for _ in range(5)]
    assert all(0.5 * length < flow < 1.1 * length for flow in found)


@pytest.mark.parametrize(("probes", "groups", "buckets"), [(500, 3000, 4000), (2_000, 3000, 500), (300, 100, 1000)])
def test_a_table_that_is_not_full_yet_has_no_flows(probes, groups, buckets):
    """It collides less than a full one; that was taken for long flows."""
    rng = np.random.default_rng(probes)
    keys = groups * (1 - np.exp(-probes / groups))
    found = [significant_flow(probes, keys, buckets, met(groups, buckets, 1, rng, probes)) for _ in range(20)]
    assert sorted(found)[1] == sorted(found)[18] == 1.0


def test_more_entries_than_random_rows_make_count_too():
    assert significant_flow(60_000, 2000, 500, met=55_000) < 1.0 < significant_flow(60_000, 2000, 500, met=20_000)


def test_random_rows_do_not_move_the_plan_again_and_again():
    """The table of `k` is small and may be lucky: a plan was installed then whose phantoms had one bucket each."""
    flows = []
    learn = Sharing.learn

    def watched(self, op, counts, look=True, rested=True):
        found = learn(self, op, counts, look, rested)
        flows.append(self.settings.statistics["ASource"]["flows"])
        return found

    with patch.object(Sharing, "learn", watched), database([STREAM], shards=1, cores=1) as db:
        create(db)
        db.run()
    assert len(flows) >= 3 and all(length < 1.15 for found in flows for length in found)


def test_explain_shows_the_plan_that_ran_with_its_counts_beside_the_predicted_ones():
    with database([STREAM], shards=1, cores=1) as db:
        create(db, memory=4_000)
        assert all("probes" not in r for r in db.explain().to_dict()["sharing"][0]["relations"])
        db.run()
        (made,) = db.workload.sharing.settings.reader_plans.values()
        (shown,) = db.explain().to_dict()["sharing"]
    assert shown["configuration"] == str(made.chosen.configuration)
    assert [r["buckets"] for r in shown["relations"]] == [n.buckets for n in made.tree]
    assert shown["statistics"] == "measured" and set(shown["known"]) == {
        "rows_per_second",
        "rows_per_share",
        "groups",
        "flow_lengths",
    }
    assert shown["measured_cost"] == pytest.approx(shown["tables_cost"], rel=0.1)
    assert len(shown["relations"]) >= 3
    for r in shown["relations"]:
        assert r["probes"] == pytest.approx(r["predicted_probes"], rel=0.1)
        assert r["evictions"] == pytest.approx(r["predicted_evictions"], rel=0.15)
        assert r["measured_evicted"] == pytest.approx(r["predicted_evicted"], abs=0.1)


def test_counts_of_another_plan_are_not_shown():
    with database([STREAM], shards=1, cores=1) as db:
        create(db)
        db.run()
        (made,) = db.workload.sharing.settings.reader_plans.values()
        settings = db.workload.sharing.settings
        measured = settings.statistics["ASource"]
    label = made.tree[0].label
    assert label in compare_counts(made, measured, settings)
    larger = replace(made, tree=(replace(made.tree[0], buckets=made.tree[0].buckets + 1), *made.tree[1:]))
    assert label not in compare_counts(larger, measured, settings)
    moved: WindowStatistics = {**measured, "relations": {label: {**measured["relations"][label], "feeder": "k·s·v"}}}
    assert label not in compare_counts(made, moved, settings)
    assert compare_counts(made, {}, settings) == {}


def test_a_setting_or_another_query_shows_the_plan_to_come():
    with database([STREAM], shards=1, cores=1) as db:
        create(db)
        db.run()
        before = db.explain().to_dict()["sharing"][0]
        db.execute("SET lfta_memory = 60000")
        after = db.explain().to_dict()["sharing"][0]
        assert sum(r["bytes"] for r in after["relations"]) > 10 * sum(r["bytes"] for r in before["relations"])
        beside = db.explain("SELECT v, COUNT(*) AS n FROM A [RANGE 6 SLIDE 3] GROUP BY v").to_dict()["sharing"][0]
        assert beside["queries"] == before["queries"] + 1


def test_an_expression_is_told_by_its_text():
    with database([STREAM], shards=1, cores=1) as db:
        create(db)
        (shown,) = db.explain().to_dict()["sharing"]
    ((name, text),) = shown["attributes"].items()
    assert name in shown["configuration"] and text == '"v" % 3'


def reader_plans(weaving):
    """Shapes as the engine makes them, with and without tables below."""
    with database([STREAM], shards=1, cores=1) as db:
        db.execute(f"SET weaving = {weaving}")
        create(db)
        for i in range(20):
            db.execute(
                f"CREATE VIEW m{i} AS SELECT k, s, SUM(v) AS t FROM A [RANGE {3 + i % 5} SLIDE {1 + i % 3}]"
                f" WHERE v > {i} GROUP BY k, s"
            )
        db.run()
        (made,) = db.workload.sharing.settings.reader_plans.values()
        return made


@pytest.mark.parametrize("weaving", ["gtweave", "unshared", "shared"])
def test_a_pinned_plan_outlives_the_process(weaving):
    made = reader_plans(weaving)
    told = json.loads(json.dumps(plan_to_json(made)))
    again = plan_from_json(told, made.queries, made.parts)
    assert again is not None and (again.tree, again.groups, again.cost) == (made.tree, made.groups, made.cost)
    assert again.chosen.configuration == made.chosen.configuration and again.group_tree == made.group_tree
    lies: WindowStatistics = {"groups": {"k": 100_000.0}, "tuples": 10.0, "rate": 1.0, "flows": [7.0]}
    pinned = Settings(memory=70, pinned=True, stored_plans={"A": told}, statistics={"A": lies})
    assert plan_reader("A", made.queries, made.parts, pinned).tree == made.tree
    assert plan_reader("A", made.queries[1:], made.parts, pinned).queries == made.queries[1:]
    assert pinned.stored_plans["A"] != told  # what stays is the plan of the queries that stand
    assert (
        plan_from_json(told, made.queries[1:], made.parts) is None
        and plan_from_json({}, made.queries, made.parts) is None
    )
    assert plan_from_json(told, made.queries, made.parts + 1) is None


def test_a_plan_that_is_not_pinned_is_not_recalled():
    made = reader_plans("gtweave")
    free = Settings(memory=70, stored_plans={"A": plan_to_json(made)})
    assert plan_reader("A", made.queries, made.parts, free).tree != made.tree
    assert relation(made.tree[0].label) == made.chosen.configuration.relations[0]
