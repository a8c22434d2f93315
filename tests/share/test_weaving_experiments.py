"""Plans of paper 003 that are executed take as many operations as the equations say."""

from __future__ import annotations

import pytest

from benchmarks.experiments.weaving.executed import Executed, executed, fragment_starts
from benchmarks.experiments.weaving.workload import table_two
from tidemill.optimize.share.weaving import Acq, Weaving, sliding

SLIDES = range(1, 21)


@pytest.mark.parametrize("plan", ["shared", "weave_share", "triweave"])
@pytest.mark.parametrize("rate", [20, 200])
def test_operations_counted_are_those_of_the_equations(plan: str, rate: float) -> None:
    made = getattr(Weaving(table_two(30, 3, slides=SLIDES)), plan)(rate)
    done = executed(made, span=2_000, longest=1_000)
    assert done.total() == pytest.approx(made.triops, rel=0.02)
    assert done.total(groups=len(made.groups)) == pytest.approx(made.twoops, rel=0.02)


def test_the_kernel_takes_two_operations_for_a_fragment_whatever_the_overlap() -> None:
    for overlap in (5, 50):
        plan = Weaving([Acq("q", sliding(overlap * 4, 4))]).shared(100)
        done = executed(plan, span=4_000, longest=1_000)
        assert done.final == pytest.approx(overlap / 4, rel=0.01)
        assert done.sliding == pytest.approx(2 / 4, rel=0.02)


def test_fragments_begin_at_every_edge() -> None:
    assert fragment_starts(((4, 1), (6, 0)), 14).tolist() == [0, 1, 5, 6, 9, 12, 13]


def test_totals_are_those_of_both_models() -> None:
    done = Executed(rows=10, intercede=3, final=20, sliding=5)
    assert (done.total(), done.total(kernel=True), done.total(groups=2)) == (33, 18, 40)
