"""The experiments of paper 001: settings, checks that can fail, and a small plan that is executed."""

from __future__ import annotations

import random

import pytest

from benchmarks.experiments.sites.counted import time_plan
from benchmarks.experiments.sites.one_way import Figure7
from benchmarks.experiments.sites.plans import CORRECTED, LINK, PRINTED, both_plans
from benchmarks.experiments.sites.settings import DEFAULT, FIGURE_9, TABLE_2, TOPOLOGIES, draw_graph, figure_7, graph_of
from tests.sites.twins.data import Kind
from tidemill.optimize.sites import price_plan
from tidemill.optimize.sites.parameters import PAPER


def model_figure(turned: bool = False) -> Figure7:
    """Figure 7 as if execution cost what the corrected model says, or the reverse of it."""
    figure = Figure7.__new__(Figure7)
    figure.sweeps = {s.letter: s for s in figure_7()}
    figure.counted = {
        letter: {n: [1 / v if turned else v for v in figure.model(sweep, n, False)] for n in PAPER}
        for letter, sweep in figure.sweeps.items()
    }
    return figure


def test_every_panel_of_figure_7_has_the_default_setting() -> None:
    sweeps = figure_7()
    assert [s.letter for s in sweeps] == list("abcdefg")
    for sweep in sweeps:
        same = [p for p in sweep.points if (p.second, p.latency, p.kbps, p.tau) == (DEFAULT, 0.025, 1024, 100)]
        assert len(same) == 1 and all(p.first == DEFAULT for p in sweep.points)


def test_queries_are_drawn_by_table_2() -> None:
    graph, kinds = draw_graph("cycle", random.Random(1))
    assert len(kinds) == 4 and graph.pairs == frozenset(TOPOLOGIES["cycle"])
    assert all(k.rate in TABLE_2["rate"] and k.window in TABLE_2["window"] for k in kinds)
    assert sum(map(len, FIGURE_9.values())) == 20


def test_findings_are_met_by_the_model_and_missed_by_its_reverse() -> None:
    honest, turned = model_figure(), model_figure(turned=True)
    for check in ("_groups", "_monotone"):
        assert all(c.met for c in getattr(honest, check)())
        assert not any(c.met for c in getattr(turned, check)())
    assert [c.met for c in honest._selectivity()] == [True, True, False]  # the third finding is the paper's own slip


@pytest.mark.parametrize("prices", [CORRECTED, PRINTED], ids=["corrected", "printed"])
def test_an_executed_plan_costs_what_the_corrected_model_says(prices) -> None:
    kinds = [Kind(100, 800, 500, 5, 25), Kind(50, 800, 250, 5, 25), Kind(50, 400, 750, 5, 50)]
    pairs = ((0, 1), (1, 2))
    graph = graph_of(kinds, pairs)
    for plan in both_plans(graph, prices):
        executed = time_plan(kinds, pairs, plan, LINK, intervals=30)
        assert executed == pytest.approx(price_plan(graph, plan, CORRECTED), rel=0.1)
