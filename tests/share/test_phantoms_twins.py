"""What is remembered between looks at relations and configurations is what one would find again."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.phantoms_drawn import LETTERS, configurations, models
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.feeding import assemble
from tidemill.optimize.share.phantoms.model import Model

attributes = st.frozensets(st.sampled_from(LETTERS), min_size=1, max_size=3)
leaves = st.builds(Relation, attributes, st.none() | st.integers(0, 5))
feeders = st.frozensets(st.sampled_from(LETTERS), min_size=2).map(Relation)


def slow(asked: list[Relation], given_feeders: list[Relation]) -> Configuration:
    phantoms = [f for f in given_feeders if f not in asked]
    able = sorted(given_feeders, key=lambda r: (len(r.attributes), r.order))
    while True:
        fed = {r: next((f for f in able if f.feeds(r)), None) for r in [*asked, *phantoms]}
        idle = [p for p in phantoms if sum(f == p for f in fed.values()) < 2]
        if not idle:
            return Configuration.of(fed, asked)
        dropped = max(idle, key=lambda r: (len(r.attributes), r.order))
        phantoms.remove(dropped)
        able.remove(dropped)


@effort(200)
@given(st.lists(leaves, min_size=1, max_size=12, unique=True), st.lists(feeders, max_size=5, unique=True))
def test_leaves_that_look_alike_have_the_feeder_that_each_would_find(
    asked: list[Relation], able: list[Relation]
) -> None:
    assert assemble(asked, able, lambda r: len(r.attributes)) == slow(asked, able)


@effort(200)
@given(configurations())
def test_a_relation_answers_the_queries_at_and_below_it(c: Configuration) -> None:
    for r, answered in zip(c.relations, c.answered, strict=True):
        assert answered == {q for q in (r, *c.descendants(r)) if q in c.queries}


@effort(100)
@given(model=models(), drawn=st.lists(configurations(tags=False), min_size=2, max_size=3))
def test_a_model_keeps_configurations_apart(model: Model, drawn: list[Configuration]) -> None:
    for c in (*drawn, *reversed(drawn)):
        assert model.groups(c) == [model.statistics.of(r) for r in c.relations]
        assert model.bucket_sizes(c) == [model.sizes(r) for r in c.relations]
        assert model.flows(c) == [model.statistics.flow(depth) for depth in c.depths]


def test_a_relation_from_another_process_is_the_same() -> None:
    one = Relation(frozenset("AB"), 2)
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert again in {one}
