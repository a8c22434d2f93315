"""The tables of the experiments with aggregation joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.experiments.joins.model import NAMES, PAPER, Family, compared
from benchmarks.experiments.joins.points import Grouped, Point, units_of
from benchmarks.experiments.joins.results import Set, name, shape_of, total
from benchmarks.experiments.joins.setting import BUCKETS, DEFAULT_4
from benchmarks.experiments.joins.shape import TERMS
from benchmarks.report import Table
from tidemill.optimize.joins import Constants


def rankings(sets: Sequence[Set]) -> Table:
    """How often the cost functions rank plans as they were measured."""
    rows: list[list[Any]] = []
    for figure in sorted({s.sweep.figure[0] for s in sets}):
        of = [s for s in sets if s.sweep.figure[0] == figure]
        for title, part in [*((f"{s.sweep.figure}, {s.sweep.title}", [s]) for s in of), (f"figure {figure}", of)]:
            found = [total(part, kind) for kind in ("paper", "paper_tuned", "engine")]
            whole = [total(part, kind, with_overhead) for kind in ("paper", "engine")]
            late = [total(part, kind, Point.with_late) for kind in ("paper", "engine")]
            rows.append(
                [title, found[0].pairs, *(a.shown for a in (*found, *whole)), late[0].pairs, *(a.shown for a in late)]
            )
    return Table(
        "Pairs of plans at a point that differ by more than 10 %, and how many are ranked as measured",
        [
            "set",
            "pairs",
            "paper, calibrated",
            "paper, tuned",
            "engine, calibrated",
            "paper, with the batch's own cost",
            "engine, with it",
            "pairs with the late aggregation",
            "paper, with it",
            "engine, with it",
        ],
        rows,
        "“Paper”: equations 19 to 26 with B = 1021. “Engine”: the same with hash tables on the whole key and rows that"
        " are fetched once for a micro-batch, which is what the optimizer uses. Then with times that include"
        " what a micro-batch costs by itself, and at last with times of the join and the late aggregation behind it,"
        " which gets the same rows from every plan: fewer pairs differ by more than 10 % then.",
    )


def with_overhead(point: Point, plan: str) -> float:
    """The time of the join with the micro-batch's own cost."""
    return point.seconds(plan, overhead=True)


def disagreements(sets: Sequence[Set]) -> Table:
    """Which pairs are ranked the other way round."""
    found: Counter[tuple[str, str, str]] = Counter()
    for s in sets:
        for p in s.points:
            wrong = [pair for pair, same in compared(p, s.sweep.plans, s.engine) if not same]
            found.update((s.sweep.figure[0], name(fast), name(slow)) for fast, slow in wrong)
    rows = [[f"figure {figure}", fast, slow, count] for (figure, fast, slow), count in sorted(found.items())]
    return Table(
        "Pairs that the optimizer's cost functions rank the other way round",
        ["", "faster as measured", "slower", "points"],
        rows,
    )


def points(sets: Sequence[Set], figure: str) -> Table:
    """All times of a figure."""
    of = [s for s in sets if s.sweep.figure[0] == figure]
    plans = of[0].sweep.plans
    rows = [
        [f"{s.sweep.figure}, {s.sweep.across} = {p.x:g}", *(1e3 * p.seconds(plan) for plan in plans)]
        for s in of
        for p in s.points
    ]
    return Table(f"Figure {figure}, milliseconds for a unit of time", ["point", *map(name, plans)], rows)


def late_points(sets: Sequence[Set], figure: str) -> Table:
    """All times of a figure with the late aggregation, and how much of them it is."""
    of = [s for s in sets if s.sweep.figure[0] == figure]
    plans = of[0].sweep.plans
    rows = [
        [
            f"{s.sweep.figure}, {s.sweep.across} = {p.x:g}",
            *(1e3 * p.with_late(plan) for plan in plans),
            f"{1 - min(p.seconds(plan) / p.with_late(plan) for plan in plans):.0%}",
        ]
        for s in of
        for p in s.points
    ]
    return Table(
        f"Figure {figure} with the late aggregation, milliseconds for a unit of time",
        ["point", *map(name, plans), "late aggregation, at most"],
        rows,
        "The late aggregation is a group-by on changes. It gets a row for each group that each change"
        " touches, from every plan the same. Rows of one change and group are added up in the join already.",
    )


def constants(sets: Sequence[Set], calibrated: Constants) -> Table:
    names = ("P_h", "U_h", "P_n", "U_n", "U_g", "U_r")
    rows: list[list[Any]] = [["calibrated", *(getattr(calibrated, n) for n in names)]]
    for s in sets:
        given = {n: getattr(s.tuned, n) for n in NAMES[s.sweep.method]}
        rows.append([f"tuned to {s.sweep.figure}", *(_small(given.get(n)) for n in names)])
    return Table(
        "Constants, nanoseconds",
        ["", *names],
        rows,
        "Tuned constants are not negative. Where every row of a bucket matches, P_h and U_g can hardly be told apart,"
        " and what the rows that come out cost has to go into some constant.",
    )


def _small(value: float | None) -> Any:
    return "" if value is None else 0 if value < 1e-3 else value


def default_setting() -> Table:
    """What a unit of time takes at the default setting of figure 4, and the late aggregation behind the join."""
    rows: list[list[Any]] = []
    for plan in ("00", "10", "01", "11"):
        grouped = Grouped(plan, "hash", DEFAULT_4)
        join = grouped.join
        joined, late = (min(each) for each in zip(*(grouped.unit() for _ in range(3)), strict=True))
        counts = [join.note.pairs, join.note.groups, sum(i.stored for i in join.note.inputs)]
        nothing = min(join.nothing() for _ in range(3))
        rows.append([name(plan), *(1e3 * x for x in (joined, nothing, late)), *counts])
    return Table(
        "The default setting of figure 4, one unit of time in a micro-batch",
        ["plan", "join, ms", "empty batch, ms", "late aggregation, ms", "joined rows", "rows out", "rows stored"],
        rows,
        "The late aggregation gets the same rows whatever the plan. With times all different, each change has a row for"
        " every group that it touches.",
    )


def shapes(sets: Sequence[Set]) -> Table:
    rows: list[list[Any]] = []
    for figure in sorted({s.sweep.figure[0] for s in sets if s.sweep.method == "hash"}):
        each, found, error = shape_of([s for s in sets if s.sweep.figure[0] == figure])
        rows.append(
            [f"figure {figure}", *(_small(1e9 * x) for x in each), f"{100 * found.share:.0f} %", f"{100 * error:.0f} %"]
        )
    return Table(
        "What the hash join really pays, nanoseconds, by least squares over a figure",
        ["", *TERMS, "ranked as measured", "median error"],
        rows,
        "A joined row is of the same group as the one before (“one group”) where the input met last has no groups.",
    )


def few_buckets(sets: Sequence[Set]) -> Table:
    """Where there are more join values than buckets: equations with B = 1021, with as many as it takes, measured."""
    rows: list[list[Any]] = []
    for s in sets:
        for p in s.points:
            if s.sweep.method != "hash" or s.sweep.figure[1] != "d" or p.inputs[0].values <= BUCKETS:
                continue
            for plan in (s.sweep.plans[0], s.sweep.plans[-1]):
                rows.append([f"{s.sweep.figure}, σ = {p.x:g}", name(plan), *_walked(s, p, plan), 1e3 * p.seconds(plan)])
    return Table(
        "More join values than buckets",
        [
            "point",
            "plan",
            "rows in a bucket, B = 1021",
            "rows that match",
            "model, B = 1021, ms",
            "model, B = ∞, ms",
            "measured, ms",
        ],
        rows,
        "Rows of the first stream's table. Our operator meets rows that match and no others: B is nothing to it.",
    )


def _walked(s: Set, point: Point, plan: str) -> list[float]:
    known, free = PAPER.known(point), Family("free", False, float("inf"))
    table = known.probed_table(0, plan, [1])
    return [
        table.size / table.buckets,
        table.fan_out,
        *(1e3 * f.cost(point, plan, s.sweep.method, s.calibrated) for f in (PAPER, free)),
    ]


def showcases(sets: Sequence[Set]) -> Table:
    rows: list[list[Any]] = []
    for s in (s for s in sets if s.sweep.figure[0] == "6"):
        for p in s.points:
            predicted = min(s.sweep.plans, key=lambda plan: s.engine(p, plan))
            rows.append(
                [
                    s.sweep.title,
                    int(p.x),
                    *(1e3 * p.seconds(plan) for plan in s.sweep.plans),
                    name(predicted),
                    name(s.winner(p)),
                ]
            )
    return Table(
        "Figure 6, milliseconds for a unit of time",
        ["setting", "λ1", "LAP", "EAP01", "EAP10", "EAP11", "predicted best", "measured best"],
        rows,
        "Nested loop, λ2 = 300, w1 = w2 = 5,000, σ1 = σ2 = 0.004.",
    )


def sizes(sets: Sequence[Set]) -> Table:
    """Units of time in a micro-batch and its own cost."""
    rows: list[list[Any]] = []
    for s in sets:
        units = sorted({units_of(p.inputs) for p in s.points})
        fixed = s.points[0].fixed
        rows.append(
            [
                s.sweep.figure,
                ", ".join(map(str, units)),
                *(1e3 * fixed[plan] for plan in (s.sweep.plans[0], s.sweep.plans[-1])),
            ]
        )
    return Table(
        "Units of time in a micro-batch, and what it costs by itself, ms",
        ["set", "units", "all late", "all early"],
        rows,
        "A micro-batch in which one tuple of each input comes and goes, and meets one row of each other.",
    )
