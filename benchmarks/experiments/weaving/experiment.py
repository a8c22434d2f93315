"""The experiments of paper 003, section VII: figures 10 to 13, and how long planning takes.

Costs are aggregate operations in a unit of time by equations 3 and 4, as in the paper; edge rates are counted exactly
or estimated (docs/ideas/weaving.md). Every point is the mean of several draws by Table II.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.experiments.weaving import tables
from benchmarks.experiments.weaving.executed import operations, same_plan
from benchmarks.experiments.weaving.points import PLANS, RATES, SPARSE, Points, held, mean, measured
from benchmarks.report import Result

FIGURE_10 = (256, 500, 1_000)
COUNTS = (50, 100, 256, 500, 750, 1_000)
QUICK = (50, 256, 500)
FIGURES = {11: tables.LOW, 12: tables.MEDIUM, 13: tables.HIGH}
SETUP = (
    "Queries by Table II: slides by Zipf 0.6 over 1 to 10,000 time units, overlaps uniform in 1 to 50, {draws} draws"
    " for each point. The paper does not say whether overlaps are whole numbers: figures are drawn for real ones, where"
    " a window has two fragments in a slide; the first table has both. Cost is the number of aggregate operations in a"
    " unit of time by equations 3 (TwoOps) and 4 (TriOps)."
)


def run(quick: bool, steps: Any) -> Result:
    draws, counts = (2, QUICK) if quick else (8, COUNTS)
    steps.expect(2 * len(counts) + 4)
    found = {}
    for whole in (False, True):
        for count in counts:
            found[whole, count] = [measured(count, seed, whole) for seed in range(draws)]
            steps.done(f"{count} queries, {'whole' if whole else 'real'} overlaps")
    points = Points(found)
    shown = [count for count in FIGURE_10 if count in counts]
    result = Result("Weaving (paper 003)", SETUP.format(draws=draws))
    result.series = {"figure 10": _figure_10(points, shown)}
    for number, rate in FIGURES.items():
        result.series[f"figure {number}"] = _normalized(points, counts, rate)
    result.tables = [tables.ratios(points, shown), tables.templates(shown[-1], min(draws, 3))]
    steps.done("other slides")
    result.tables += [tables.groups(points, counts), tables.savings(points, counts), tables.times(counts)]
    result.checks = tables.checks(points, shown, counts)
    steps.done("planning times")
    for table, check in (operations(min(256, shown[-1]), 1 if quick else 2), same_plan(shown, min(draws, 3))):
        result.tables.append(table)
        result.checks.append(check)
        steps.done(check.what)
    return result


def _figure_10(points: Points, counts: Sequence[int]) -> dict[str, Any]:
    """Cost of TriWeave normalized to Weave Share, over the input rate."""
    lines = {f"{n} ACQs": [points.mean(lambda p: p.ratio, n, r) for r in RATES] for n in counts}
    sparse = [r for r in RATES if r <= SPARSE]
    most = counts[-1]
    return {
        "rates": RATES,
        "lines": lines,
        "sparse": {"name": f"{most} ACQs, fragments with rows", "rates": sparse},
        "held": [points.mean(held, most, r) for r in sparse],
    }


def _normalized(points: Points, counts: Sequence[int], rate: float) -> dict[str, Any]:
    """Costs normalized to Shared with TwoOps, over the number of queries."""
    lines: dict[str, list[float]] = {}
    for count in counts:
        for plan in PLANS:
            drawn = points.of(count, rate)
            lines.setdefault(f"{plan}, TwoOps", []).append(mean(p.twoops[plan] / p.twoops["Shared"] for p in drawn))
            lines.setdefault(f"{plan}, TriOps", []).append(mean(p.triops[plan] / p.twoops["Shared"] for p in drawn))
    return {"counts": list(counts), "lines": lines}


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """Figures 10 to 13."""
    from benchmarks import plots

    found = series["figure 10"]
    figure, (axes,) = plots.panels(1)
    lines = [(name, found["rates"], values) for name, values in found["lines"].items()]
    lines.append((found["sparse"]["name"], found["sparse"]["rates"], found["held"]))
    plots.lines(axes, "TriWeave, TriOps", "rows a time unit", "cost to Weave Share, TwoOps", lines)
    axes.set_xscale("log")
    axes.axhline(1, color="grey", linestyle=":")
    drawn = [_finding(plots.save(figure, folder, "weaving_10", TITLES[10]), 10)]
    for number, rate in FIGURES.items():
        found = series[f"figure {number}"]
        figure, (axes,) = plots.panels(1)
        lines = [(name, found["counts"], values) for name, values in found["lines"].items()]
        plots.lines(axes, f"{rate:,} rows a unit", "ACQs", "cost to Shared, TwoOps", lines)
        # With TwoOps, TriWeave's many groups would press all other lines together.
        axes.set_ylim(bottom=0.01)
        axes.set_yscale("log")
        axes.legend(fontsize=6, ncols=2)
        drawn.append(_finding(plots.save(figure, folder, f"weaving_{number}", TITLES[number]), number))
    return drawn


def _finding(plot: dict[str, str], number: int) -> dict[str, str]:
    paper, here = FINDINGS[number]
    return {**plot, "title": TITLES[number], "paper": paper, "here": here}


TITLES = {
    10: "Figure 10: TriWeave to Weave Share by input rate",
    11: "Figure 11: plans with TwoOps and TriOps, 50 rows a unit",
    12: "Figure 12: plans with TwoOps and TriOps, 300 rows a unit",
    13: "Figure 13: plans with TwoOps and TriOps, 10,000 rows a unit",
}
FINDINGS = {
    10: (
        "TriWeave costs up to 65 % less than Weave Share, and less than 40 % less at low input rates.",
        "The same shape with a larger gain in the middle, where Weave Share pays λ for a group and therefore has few"
        " groups with many edges, while TriWeave pays E. How large depends on the list of template slides, which the"
        " paper does not give: the second table has lists with a greatest gain below and above the paper's. At the"
        " right end λ is most of the cost of any plan: with 256 ACQs and 10,000 rows it is three fifths of what Weave"
        " Share costs, and no plan can save more than the rest. At one row and less there are no fewer edges than rows,"
        " and (4) is above (3), the paper's extreme case. But many of those fragments are empty. Counting those with"
        " rows, TriWeave is below on the mean; single draws of 50 ACQs are up to 1 % above, because (4), by which it"
        " merges, makes a group dearer than it then is.",
    ),
    11: (
        "TriOps gains 40 to 60 % over TwoOps for a plan with at least two groups, and loses for Shared. The gain grows"
        " with the number of ACQs.",
        "Shared costs E more with TriOps: one group, interceded for nothing. Weave Share's plan gains about a"
        " third; it was made for TwoOps and has merged most of what TriOps could save (the last table). TriWeave's plan"
        " is far below both, and with TwoOps it is dear, because each of its many groups aggregates every row. Its gain"
        " over Shared grows up to some 250 ACQs and then stays: λ no longer counts, and final aggregation"
        " grows alike in both.",
    ),
    12: (
        "As figure 11; the gain grows faster with the number of ACQs.",
        "As figure 11. TriWeave's gain over Weave Share is greatest here: λ is large enough to keep Weave Share from"
        " splitting, and not yet most of the cost.",
    ),
    13: (
        "As figure 11; the gain grows fastest with the number of ACQs.",
        "Weave Share has one group like Shared, up to 750 ACQs, so TriOps gains nothing for its plan. TriWeave's gain"
        " grows fastest here, from a tenth at 50 ACQs to two thirds at 1,000.",
    ),
}
