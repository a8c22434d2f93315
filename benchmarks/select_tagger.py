"""What tagging costs a selection: paper 004, section 10.3, figures 7 to 9.

Every run is timed twice, in time of the processor: to the end of the operators (`seconds`), and with the output tuples
made and stored (`whole`). What the paper says of the cost of an operator (figures 7 and 8) is checked in the first,
what it says of the cost of output tuples (figure 9) in the second; the tables show both.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks import data
from benchmarks.report import Table
from benchmarks.sides import alternate, medians
from benchmarks.tagger_sheet import Sheet
from benchmarks.temperature import PIPELINES, RATE, ROOMS, SPAN, Run, costs, pipeline, selecting

NOISE = 1.05  # two times nearer than this are equal
MEASURES = {"seconds": "operators", "whole": "with output"}
INPUTS = ("key", "non-key, distribution 1 (calm)", "non-key, distribution 2 (wild)")
MORE_ROUNDS = 3  # times as many rounds in figure 9, where sides differ least

Values = dict[str, list[Any]]


def steps(sheet: Sheet) -> int:
    """How many runs there are."""
    three = len(PIPELINES) * sheet.rounds
    return len(sheet.sizes) * three + len(sheet.selectivities) * (three + len(INPUTS) * MORE_ROUNDS * sheet.rounds)


def _three(sheet: Sheet, files: str, predicate: str, what: str, **options: Any) -> dict[str, list[Run]]:
    sides = {
        name: pipeline(files, selecting(stream, predicate), without, **options)
        for name, (stream, without) in PIPELINES.items()
    }
    found = alternate(sides, sheet.rounds, lambda: sheet.steps.done(what))
    separate, merged = (found[n][0] for n in list(PIPELINES)[:2])
    assert separate["answer"] == merged["answer"], "the merged select-tagger gave other tuples"
    return found


def _titles(names: Sequence[str], *also: str) -> list[str]:
    return [f"{n}, {what}" for what in (*(f"{m} s" for m in MEASURES.values()), *also) for n in names]


def _sums(series: dict[str, Values], which: Sequence[int]) -> list[float]:
    """The time of the operators of all sides, summed over some places of the axis."""
    return [sum(values[i] for i in which) for values in series["seconds"].values()]


def figure7(sheet: Sheet) -> None:
    """Input size against execution time of the three pipelines."""
    series: dict[str, Values] = {measure: {name: [] for name in PIPELINES} for measure in MEASURES}
    for size in sheet.sizes:
        files = data.readings(size, ROOMS, RATE)
        found = _three(sheet, files, "R.Temperature > 80", f"figure 7: {size:,} tuples")
        for measure, values in series.items():
            for name, seconds in medians(found, measure).items():
                values[name].append(seconds)
    sheet.result.series["7"] = {"sizes": sheet.sizes, **series}
    rows = [[size, *(series[m][n][i] for m in MEASURES for n in PIPELINES)] for i, size in enumerate(sheet.sizes)]
    speeds = (f"{n} {sheet.tuples / series['seconds'][n][-1]:,.0f}" for n in PIPELINES)
    sheet.result.tables.append(
        Table(
            "Figure 7: cost of the tagging operation",
            ["tuples", *_titles(list(PIPELINES))],
            rows,
            "Tuples for each second of the operators at the largest size: "
            + ", ".join(speeds)
            + " (paper: 12,000, 14,000, 16,000).",
        )
    )
    sheet.result.tables.append(costs(found, sheet.tuples))
    separate, merged, plain = _sums(series, [len(sheet.sizes) - 1])
    sheet.finding(
        "figure 7: the merged select-tagger is at least as fast as tagger and select",
        f"≤ {NOISE:g} × its time",
        f"{merged / separate:.2f} ×",
        merged <= NOISE * separate,
    )
    sheet.finding(
        "figure 7: tagging does not double the time of a selection",
        "merged < 2 × select only",
        f"{merged / plain:.2f} ×",
        merged < 2 * plain,
    )


def figure8(sheet: Sheet) -> None:
    """Selectivity of a predicate on the key against time and state."""
    files, rows = data.readings(sheet.tuples, ROOMS, RATE), []
    series: dict[str, Values] = {what: {n: [] for n in PIPELINES} for what in (*MEASURES, "state")}
    fits = True
    for part in sheet.selectivities:
        kept = ROOMS * part // SPAN
        found = _three(sheet, files, f"R.RoomID < {kept}", f"figure 8: {part / SPAN:.2f}", watch_state=True)
        for name, runs in found.items():
            series["state"][name].append(runs[0]["state"])
            for measure in MEASURES:
                series[measure][name].append(median(r[measure] for r in runs))
        fits = fits and [states[-1] for states in series["state"].values()] == [ROOMS, kept, 0]
        rows.append([part / SPAN, *(values[-1] for what in series.values() for values in what.values())])
    sheet.result.series["8"] = {"selectivity": [part / SPAN for part in sheet.selectivities], **series}
    sheet.result.tables.append(
        Table(
            "Figure 8: effect of key selectivity",
            ["selectivity", *_titles(list(PIPELINES), "rows of state")],
            rows,
            "The merged operator's predicate is on the key alone, so it is tested before records travel, as without"
            " tagging. What tagging adds to the operators is the tagger and two changes for every update. What it adds"
            " to the output is more: the two changes of an update are found and put together, the tuple carries"
            " its old row, and the view keeps its current rows beside them. Without tagging a stored tuple is the"
            " record itself, and there are no other rows to keep.",
        )
    )
    separate, merged, _ = _sums(series, range(len(sheet.selectivities)))
    sheet.finding(
        "figure 8: merged is faster than separate over all key selectivities",
        "< 1 ×",
        f"{merged / separate:.2f} ×",
        merged < separate,
    )
    low = [i for i, part in enumerate(sheet.selectivities) if 0 < part <= SPAN // 2]
    _, merged, plain = _sums(series, low)
    sheet.finding(
        "figure 8: up to a selectivity of one half, tagging costs nearly nothing",
        "merged ≤ 1.2 × select only",
        f"{merged / plain:.2f} ×",
        merged <= 1.2 * plain,
    )
    sheet.finding(
        "figure 8: merged state is proportional to the key selectivity, separate state is all rooms, append-only"
        " has none",
        "exactly",
        "exactly" if fits else f"{[r[-3:] for r in rows]}",
        fits,
    )


def figure9(sheet: Sheet) -> None:
    """Selectivity of a predicate on another column, for calm and wild readings, with the merged select-tagger."""
    series = _fluctuating(sheet)
    selectivity = [part / SPAN for part in sheet.selectivities]
    sheet.result.series["9"] = {"selectivity": selectivity, **series, "names": list(INPUTS)}
    between = [i for i, s in enumerate(selectivity) if 0 < s < 1]
    shown = (*MEASURES, "state", "output")
    sheet.result.tables.append(
        Table(
            "Figure 9: effect of non-key selectivity (merged select-tagger)",
            ["selectivity", *_titles(INPUTS, "most rows of state", "output tuples")],
            [[s, *(series[what][n][i] for what in shown for n in INPUTS)] for i, s in enumerate(selectivity)],
            "State is looked at after every micro-batch; the most rows that were there. "
            + _further_tuple(series, between, MORE_ROUNDS * sheet.rounds),
        )
    )
    output = [[series["output"][n][i] for n in INPUTS] for i in between]
    sheet.finding(
        "figure 9: a non-key predicate gives more output tuples than a key predicate, and more when rooms fluctuate",
        "key < calm < wild, at every selectivity between 0 and 1",
        " · ".join(
            f"{selectivity[i]:.2f}: " + " / ".join(f"{n:,}" for n in row)
            for i, row in zip(between[:3], output, strict=False)
        ),
        all(k < c < w for k, c, w in output),
    )
    slower = _ratio(series["whole"], between)
    sheet.finding(
        "figure 9: distribution 2 costs more time than distribution 1, with its output tuples",
        f"> {NOISE:g} ×",
        f"{slower:.2f} × (operators alone {_ratio(series['seconds'], between):.2f} ×)",
        slower > NOISE,
    )
    sheet.finding(
        "figure 9: the state may reach the number of rooms, and never exceeds it",
        f"≤ {ROOMS}, reached at selectivity 1",
        str(max(max(s) for s in series["state"].values())),
        all(max(series["state"][n]) == ROOMS for n in INPUTS),
    )


def _fluctuating(sheet: Sheet) -> dict[str, Values]:
    """What figure 9 is drawn from, by input and selectivity."""
    calm, wild = data.readings(sheet.tuples, ROOMS, RATE, calm=True), data.readings(sheet.tuples, ROOMS, RATE)
    first = {"state": "most", "output": "output", "changes": "tagged"}  # these are the same in every run
    series: dict[str, Values] = {what: {n: [] for n in INPUTS} for what in (*MEASURES, *first)}
    for part in sheet.selectivities:
        hotter = selecting("RoomTempStr", f"R.Temperature > {data.HOTTEST - part}")
        rooms = selecting("RoomTempStr", f"R.RoomID < {ROOMS * part // SPAN}")
        sides = {
            name: pipeline(files, view, watch_state=True)
            for name, (files, view) in zip(INPUTS, ((wild, rooms), (calm, hotter), (wild, hotter)), strict=True)
        }
        done = f"figure 9: {part / SPAN:.2f}"
        found = alternate(sides, MORE_ROUNDS * sheet.rounds, lambda done=done: sheet.steps.done(done))  # type: ignore[misc]
        for name, runs in found.items():
            for measure in MEASURES:
                series[measure][name].append(median(r[measure] for r in runs))
            for what, of in first.items():
                series[what][name].append(runs[0][of])
    return series


def _more(values: Values, between: Sequence[int]) -> tuple[float, float]:
    """Distributions 1 and 2, summed over the selectivities between 0 and 1."""
    calm, wild = (sum(values[name][i] for i in between) for name in INPUTS[1:])
    return calm, wild


def _ratio(values: Values, between: Sequence[int]) -> float:
    """Distribution 2 against distribution 1."""
    calm, wild = _more(values, between)
    return wild / calm


def _further_tuple(series: dict[str, Values], between: Sequence[int], rounds: int) -> str:
    """Where distribution 2 costs more, and how much for each tuple that it puts out more."""
    (calm, wild), (fewer, more) = (_more(series[what], between) for what in ("whole", "output"))
    each = (wild - calm) * 1e6 / (more - fewer)
    return (
        f"Medians of {rounds} runs in turns. Distribution 2 gives {more / fewer:.2f} × the output tuples of"
        f" distribution 1, from {_ratio(series['changes'], between):.2f} × its changes: a row that is replaced and a"
        " row that leaves and comes again are two changes each, but one tuple and two. A batch moves the state of a"
        " room once, however often the room went in and out. So the operators, which pass changes on, have no more to"
        f" do ({_ratio(series['seconds'], between):.2f} ×), and the paper's difference begins where changes become"
        f" tagged tuples: with the output it is {wild / calm:.2f} × in time, {each:.2f} µs for each tuple more."
    )


FIGURES = (figure7, figure8, figure9)
