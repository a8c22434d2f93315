"""The engine's choice by every method of paper 002: who chooses, who divides the memory, what an epoch may cost."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.outcomes import UNSHARED, check_same, run
from tests.share.phantoms_drawn import queries
from tests.share.workloads import Taste, shared_workloads
from tidemill.optimize.share import reader_plan
from tidemill.optimize.share.phantoms.choose import gc, gp
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation, relations
from tidemill.optimize.share.phantoms.method import Allocation, Chooser, Method, choose_configuration
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.peak import peak_load
from tidemill.optimize.share.phantoms.space import pl, pr, sl, sr
from tidemill.optimize.share.phantoms.statistics import Statistics

PAPER = {1: 552, 2: 1846, 3: 2117, 4: 2837}
UNIFORM = Statistics(lambda r: PAPER[len(r.attributes)])
ASKED = relations("A B C D")
methods = st.builds(
    Method,
    st.sampled_from(get_args(Chooser)),
    st.sampled_from(get_args(Allocation)),
    st.sampled_from([None, None, 1.0, 500.0, 1e5]),
)


@pytest.mark.parametrize(("name", "scheme"), [("sl", sl), ("sr", sr), ("pl", pl), ("pr", pr)])
def test_memory_is_divided_as_asked(name: Allocation, scheme) -> None:
    chosen = choose_configuration(ASKED, UNIFORM, 40_000, method=Method(allocation=name))
    model = Model(UNIFORM, only_occupied=True)
    assert chosen.configuration == gc(ASKED, model, 40_000, scheme).configuration
    assert chosen.table_sizes == scheme(chosen.configuration, model, 40_000)
    assert set(chosen.alternatives) == {"no phantoms", f"GC{name.upper()}"}


def test_the_exhaustive_method_is_the_cheapest_and_gp_never_better_than_gc() -> None:
    def cost(chooser: Chooser, allocation: Allocation) -> float:
        return choose_configuration(ASKED, UNIFORM, 40_000, method=Method(chooser, allocation)).cost

    best = cost("epes", "es")
    others = [cost(c, a) for c in get_args(Chooser) for a in get_args(Allocation) if a != "refined"]
    assert min(others) >= 0.999 * best  # sizes between two steps of 1 % may be better by a trifle
    assert cost("gp", "pl") >= cost("gc", "sl") and cost("gc", "es") <= cost("gc", "sl") * 1.001


def test_gp_chooses_and_the_asked_scheme_divides() -> None:
    chosen = choose_configuration(ASKED, UNIFORM, 40_000, method=Method("gp", "pl"))
    model = Model(UNIFORM, only_occupied=True)
    expected = gp(ASKED, model, 40_000, 1.0)
    assert (chosen.configuration, chosen.table_sizes) == (expected.configuration, expected.table_sizes)
    assert set(chosen.alternatives) == {"GP"}


def test_many_queries_are_not_enumerated() -> None:
    asked = [Relation(frozenset("AB"), tag) for tag in range(40)]
    chosen = choose_configuration(asked, UNIFORM, 400_000, method=Method("epes", "es"))
    assert set(chosen.configuration.queries) == set(asked)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_the_end_of_an_epoch_costs_no_more_than_it_may(share: float) -> None:
    free = choose_configuration(ASKED, UNIFORM, 40_000)
    model = Model(UNIFORM, only_occupied=True)
    limit = share * peak_load(free.configuration, free.table_sizes, model)
    chosen = choose_configuration(ASKED, UNIFORM, 40_000, method=Method(peak=limit))
    assert peak_load(chosen.configuration, chosen.table_sizes, model) <= limit
    assert chosen.cost > free.cost
    assert chosen.rates == dict(
        zip(chosen.configuration.relations, model.rates(chosen.configuration, chosen.table_sizes), strict=True)
    )


@effort(40)
@given(asked=queries(), method=methods, memory=st.sampled_from([1, 50, 3000, 60_000]), phantoms=st.booleans())
def test_every_method_answers_every_query_within_the_memory(asked, method, memory, phantoms) -> None:
    statistics = Statistics(lambda r: 7.0 ** len(r.attributes), (3.0, 1.0))
    chosen = choose_configuration(
        asked, statistics, memory, evictions=lambda below: len(below) + 1.0, forbid_phantoms=not phantoms, method=method
    )
    assert set(chosen.configuration.queries) == set(asked)
    assert phantoms or chosen.configuration == Configuration.without_phantoms(asked)
    used = sum(b * (len(r.attributes) + 1) for r, b in chosen.buckets.items())
    least = sum(len(r.attributes) + 1 for r in chosen.configuration.relations)
    assert min(chosen.buckets.values()) >= 1 and used <= max(memory, least)


@effort(4)
@given(workload=shared_workloads(Taste(failing=True)), method=methods)
def test_no_answer_depends_on_the_method(workload, method) -> None:
    stream, views = workload
    expected, _ = run(stream.recut((), None), views, without=UNSHARED, shards=1, cores=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_plan, "choose_configuration", _by(method))
        found, _ = run(stream, views, "SET lfta_memory = 300")
    check_same(found, expected)


def _by(method: Method):
    def chosen(*given, **options):
        return choose_configuration(*given, **{**options, "method": method})

    return chosen
