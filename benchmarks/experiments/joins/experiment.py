"""The experiments of paper 000, section 7: figures 4 and 5 (hash join) and 6 (nested loop), measured and predicted.

Settings are in `joins_setting`, measurements in `joins_points`, the cost functions in `joins_model`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments import figures
from benchmarks.experiments.figures import Figure, Line, Panel
from benchmarks.experiments.joins import tables
from benchmarks.experiments.joins.checks import checks
from benchmarks.experiments.joins.points import BEFORE, MOST_UNITS, RUNS, UNITS
from benchmarks.experiments.joins.results import Set, measured_set, name
from benchmarks.experiments.joins.setting import ends, figure_4, figure_5, figure_6
from benchmarks.report import Result
from tidemill.engine.adapt.calibration import measure_joins
from tidemill.optimize.joins import Constants
from tidemill.runtime.calibrate import joins

SETUP = (
    "The query of figure 3 over the operator of the engine: G1, G2, SUM(A1), SUM(A2) of a join on J; join and grouping"
    " attributes are strings, aggregation attributes integers, uniform and independent. Windows are full: with every"
    " tuple that comes the oldest one leaves, and every change has a time of its own. Times are for a unit of time, in"
    f" which λ tuples come and go: seconds of the processor, the least of {RUNS} runs in which the plans take turns"
    f" on the same data, after {BEFORE} that do not count. {UNITS} to {MOST_UNITS} units of time are one micro-batch."
    " Figures 4 and 5 are also drawn with the late aggregation behind the join in the time."
    " What a micro-batch costs that does next to nothing is not part of the paper's model and is taken out, except"
    " where the first table says so. Predictions are by equations 19 to 26, with constants as `tidemill calibrate`"
    " measures them: as the optimizer has them, with hash tables on the whole key and rows that are fetched once for"
    " all changes of a micro-batch that find them; and as printed, with AS_i hashed on the join attribute alone,"
    " B = 1021 and every tuple by itself, there also with constants tuned to each set of experiments, as in the paper."
)
PAPER = {
    "4a": "LAP and EAP01 rise linearly with w1. EAP10 and EAP11 are constant when w1 exceeds 2,000, and all EAPs are"
    " better than LAP.",
    "4b": "As g1 grows, EAP10 approaches LAP and EAP11 approaches EAP01.",
    "4c": "All are linear in λ1; LAP and EAP10 grow faster than EAP01 and EAP11.",
    "4d": "All rise with σ.",
    "6a": "EAP11 is the best when both g1 and g2 are low.",
    "6b": "EAP10 is the best when g1 is low and g2 is high.",
    "6c": "EAP01 is the best when g1 is high and g2 is low.",
    "6d": "LAP is the best when both g1 and g2 are high.",
}
WHY = {
    "4a": " A change of S2 finds g1 (1 - (1 - 1/g1)^(w1 σ)) groups on average: 111 with w1 = 2,000 and 145 with 5,000,"
    " where appendix A has 150 for both. Each is a row that comes out, so early plans still rise.",
    "4b": " Each group that a change touches is a row that comes out, and that is most of the time of every plan when"
    " there are many. Joined rows of S1's changes are all of one group and cost next to nothing: EA on S2 saves"
    " little.",
    "4c": " Changes of S1 find rows of S2, which has one group, and are cheap by any plan.",
    "6d": " Our operator stores an input in one form only: updating AS_i takes the place of updating W_i and is no work"
    " besides. Where nothing is consolidated, all plans do almost the same.",
}
TREND = "The same trends as with two inputs, and a greater advantage of early aggregation."


def run(quick: bool, steps: Any) -> Result:
    """All three figures; some minutes on two cores."""
    sweeps = [*figure_4(), *figure_5(), *figure_6()]
    sweeps, runs = (ends(sweeps), 1) if quick else (sweeps, RUNS)
    steps.expect(1 + sum(len(s.points) for s in sweeps) + 1)
    costs = measure_joins(rounds=2 if quick else joins.ROUNDS)
    constants = Constants(**costs.nanoseconds())
    steps.done("calibrated")
    sets = [measured_set(sweep, constants, steps.done, runs) for sweep in sweeps]
    result = Result("Aggregation joins (paper 000)", SETUP)
    result.tables = [
        tables.rankings(sets),
        tables.disagreements(sets),
        tables.showcases(sets),
        tables.default_setting(),
        tables.shapes(sets),
        tables.constants(sets, constants),
        tables.few_buckets(sets),
        tables.sizes(sets),
        *(tables.points(sets, n) for n in "45"),
        *(tables.late_points(sets, n) for n in "45"),
    ]
    result.checks = checks(sets)
    result.series = {"figures": [figure(s).to_dict() for s in sets]}
    steps.done("default setting")
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """The figures as SVG files."""
    return figures.draw(series["figures"], folder)


def figure(s: Set) -> Figure:
    """Measured and predicted, side by side."""
    measured: list[Line] = [(name(plan), s.across, [1e3 * y for y in s.line(plan)]) for plan in s.sweep.plans]
    panels = [_panel(s, "measured", measured)]
    for title, predict in (("cost functions of the optimizer", s.engine), ("the paper's, tuned", s.paper_tuned)):
        lines: list[Line] = [
            (name(plan), s.across, [1e3 * predict(p, plan) for p in s.points]) for plan in s.sweep.plans
        ]
        panels.append(_panel(s, title, lines))
    number = s.sweep.figure
    if number[0] in "45":
        whole: list[Line] = [
            (name(plan), s.across, [1e3 * p.with_late(plan) for p in s.points]) for plan in s.sweep.plans
        ]
        panels.insert(1, _panel(s, "with the late aggregation", whole))
    return Figure(f"joins_{number}", f"Figure {number}: {s.sweep.title}", PAPER.get(number, TREND), _here(s), panels)


def _panel(s: Set, title: str, lines: list[Line]) -> Panel:
    return Panel(
        title, s.sweep.across, "ms for a unit of time", lines, s.sweep.figure in ("4d", "5d"), True, s.sweep.log_across
    )


def _here(s: Set) -> str:
    """Both ends of the sweep in numbers."""
    at = []
    for p in (s.points[0], s.points[-1]):
        times = ", ".join(f"{name(plan)} {1e3 * p.seconds(plan):.1f}" for plan in s.sweep.plans)
        at.append(f"{times} ms with {s.sweep.across} = {p.x:g}")
    found, tuned = (s.agreement(predict) for predict in (s.engine, s.paper_tuned))
    return (
        f"{'; '.join(at)}. Of {found.pairs} pairs of plans that differ by more than 10 %, {found.same} are ranked"
        f" as measured by the optimizer's cost functions, {tuned.same} by the paper's with tuned constants."
        f"{WHY.get(s.sweep.figure, '')}"
    )
