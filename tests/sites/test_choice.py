"""The choice of fragments: every algorithm is priced as the tree that runs, and the cheapest in time is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.sites.test_fragments import packets, query
from tidemill.optimize.sites import (
    Link,
    OneWayJoin,
    SiteStream,
    Situation,
    choose_methods,
    list_algorithms,
    list_known_shipments,
    price_choice,
    takes_over,
)
from tidemill.plan.sites import Equality, Method, SiteQuery

LINK = Link(0.025, 128_000, 200)
FEW = SiteStream("lyon", 300, 3.0, 1250, 36, 5)  # 5 % of R match
MANY = SiteStream("paris", 300, 3.0, 1250, 36, 100)
NAMES = {"SP-S": "sp_s", "SP-D": "sp_d", "SM-S1": "sm_s1", "SM-S2": "sm_s2", "SM-D1": "sm_d1", "SM-D2": "sm_d2"}


def situation(left=FEW, right=MANY, age=60.0, answer=(0.0, 0.0)):
    return Situation({"L": left, "R": right}, LINK, 0.1, age, answer)


def test_where_few_rows_match_a_semijoin_is_chosen():
    found = choose_methods(query(), situation())
    assert found.join_site == "lyon" and found.methods["R"].name in ("keys", "both", "bloom")
    everything = list_algorithms(query(), situation())["sp_s"]
    assert found.price.bytes <= 0.12 * everything.price.bytes and takes_over(everything.price, found.price)


def test_where_everything_matches_all_is_shipped():
    same = replace(FEW, distinct=100)
    found = choose_methods(query(), situation(left=same, age=10.0))
    assert {m.name for m in found.methods.values()} == {"whole"}
    assert not takes_over(found.price, found.price)


def test_the_answer_is_charged_where_the_join_is_elsewhere():
    small = replace(FEW, full=50)
    near = choose_methods(query(), situation(left=small, right=replace(MANY, distinct=5)))
    assert near.join_site == "paris"
    far = choose_methods(query(), situation(left=small, right=replace(MANY, distinct=5), answer=(10_000, 1300)))
    assert far.join_site == "lyon"


def test_a_limit_on_latency_rules_out_crossings():
    slow = replace(LINK, latency=1.0, bandwidth=1e9)
    free = Situation({"L": FEW, "R": MANY}, slow, 0.1, 1.0)
    chosen = choose_methods(query(), free, max_latency=1.5)
    assert chosen.methods["R"] == Method("whole")
    assert choose_methods(query(), free, max_latency=0.1).price.latency == pytest.approx(1.1, abs=0.05)


@effort(30)
@given(
    d1=st.sampled_from([5, 100, 5000]),
    d2=st.sampled_from([5, 100, 5000]),
    age=st.sampled_from([0.5, 5.0, 500.0]),
    size=st.sampled_from([50, 1250]),
)
def test_trees_cost_what_their_shipments_do(d1, d2, age, size):
    """Two ways to the same bytes: the tree of the plan, and the list by name."""
    left, right = replace(FEW, distinct=d1, full=size), replace(MANY, distinct=d2)
    found = list_algorithms(query(), Situation({"L": left, "R": right}, Link(0.025, 128_000), 0.1, age))
    for name, ours in NAMES.items():
        listed = list_known_shipments(name, OneWayJoin(left, right, 0.1), age)
        assert found[ours].price.bytes == pytest.approx(sum(s.bytes for s in listed)), name


def test_many_inputs_have_a_method_each():
    three = SiteQuery(
        (packets("A", "lyon"), packets("B", "paris"), packets("C", "nice")),
        (Equality.inner("A", ("ip",), "B", ("ip",)), Equality.inner("B", ("ip",), "C", ("ip",))),
        "lyon",
    )
    streams = {"A": FEW, "B": MANY, "C": replace(MANY, site="nice", distinct=2000)}
    known = Situation(streams, LINK, 0.1, 600.0, (1000.0, 3750))
    found = choose_methods(three, known)
    whole = price_choice(three, {}, "lyon", known)
    assert found.join_site == "lyon" and set(found.methods) == {"B", "C"}
    assert found.methods["C"].by == "B" and found.price.bytes < 0.2 * whole.price.bytes


def test_a_preserved_side_is_not_priced_as_reduced():
    kept = query(reduces=())
    found = list_algorithms(kept, situation())
    assert found["sm_s1"].price == found["sp_s"].price
