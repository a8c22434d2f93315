"""Section 10.6 of paper 004: what the cost model predicts for the pipelines of figure 12, what is counted, how long it
takes; and the tuples behind a synchronizer (figure 10(b)).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.experiments.checks import Explained, at_most
from benchmarks.experiments.pipelines.counted import run_setting, synchronized
from benchmarks.experiments.pipelines.settings import FIGURES, METERS, MODES, SECOND, Setting
from benchmarks.report import Check, Result, Table
from tidemill.optimize.views.cost import Updates, synchronizer_output, union_gaps
from tidemill.optimize.views.figure12 import Counts

Found = dict[tuple[str, str], dict[str, dict[str, Any]]]  # by setting and aggregates, then by mode
RATE, RATIOS = 20_000, (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
PLANS = {"off": "a", "tagger": "a′", "phantom": "b"}
SETUP = (
    "Rooms, groups, periods and 650 units of time as the paper has them; figure 14 with 1,000 rooms in the third class,"
    " so that there are 5,000. Every update changes both answers. One process, one reader, one shard. Rows are"
    " changes: an update is two. NS has the rows that reach synchronizers, NG those that reach groupings; our groupings"
    " need no synchronizer above them, so NS of (a) is what arrives, twice. Predictions are what EXPLAIN says of all"
    " three pipelines when (a) has run. Cheap aggregates are one sum or count, dear ones the mean and the deviation of"
    f" {len(METERS)} columns; c2 / c1 is what a row costs a grouping to what it costs a synchronizer, counted in (a)."
)
CHEAP, DEAR = "cheap", "dear"
_WHY_MODEL = (
    "So say the paper's own equations: the finer grouping has 2,000 groups, and (b) has 7 % more rows in groupings than"
    " (a), which outweighs what is saved in synchronizers once a row costs a grouping three times as much."
)
_WHY_TAGGERS = (
    "The paper counts synchronizers and groupings. In ours (a) also has a tagger for each query, which costs more for a"
    " row than a synchronizer and most groupings, so one tagger for both saves more than is added above it."
)
_WHY_ADDED = (
    "Dear sums of the finer grouping are added up in its statement and again in those of the groupings, over wider"
    " rows; only where many changes fall into one group it passes on few enough rows to make up for that."
)


def run(quick: bool, steps: Any) -> Result:
    settings, rounds = (FIGURES[-1:], 1) if quick else (FIGURES, 3)
    rooms, tenths = ((200, 600), (2, 10)) if quick else ((200, 400, 600, 800, 1_000), (1, 2, 4, 6, 8, 10))
    steps.expect(2 * len(settings) * rounds * (len(MODES) + 1) + len(rooms) * len(tenths))
    result = Result("Pipelines over keyed streams (paper 004)", SETUP)
    _figure_10b(result, 40_000 if quick else 200_000, rooms, tenths, steps)
    found = {(s.name, c): _run_modes(s, c, rounds, steps) for s in settings for c in (CHEAP, DEAR)}
    result.tables.append(_counts_table(settings, found))
    result.tables.append(_times_table(settings, found))
    result.tables.append(_paper_table(settings))
    result.checks += _checks(settings, found)
    result.series["figure 13"] = {
        "ratios": RATIOS,
        "lines": {
            f"{s.name}, ({letter})": [_relative(s, mode, c2) for c2 in RATIOS]
            for s in settings
            for mode, letter in (("tagger", "a′"), ("phantom", "b"))
        },
    }
    return result


def _figure_10b(result: Result, tuples: int, rooms: Sequence[int], tenths: Sequence[int], steps: Any) -> None:
    rows, errors = [], []
    for count in rooms:
        row: list[Any] = [count]
        for period in tenths:
            updates = Updates(count, RATE / count / SECOND)
            predicted = synchronizer_output([updates], union_gaps([(period * SECOND // 10, 0)], tuples / RATE * SECOND))
            counted = synchronized(tuples, count, RATE, period)
            errors.append(abs(predicted / counted - 1))
            row.append(f"{counted:,.0f} ({predicted:,.0f})")
            steps.done(f"figure 10(b): {count} rooms")
        rows.append(row)
    titles = ["rooms", *(f"every {t / 10:g} s" for t in tenths)]
    result.tables.append(Table("Figure 10(b): tuples behind a synchronizer, counted (predicted)", titles, rows))
    result.checks.append(at_most("figure 10(b): predicted tuples against counted", errors, 0.1))


def _run_modes(setting: Setting, aggregates: str, rounds: int, steps: Any) -> dict[str, dict[str, Any]]:
    runs: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for mode in (*MODES, "auto"):
            runs.setdefault(mode, []).append(run_setting(setting, mode, aggregates == DEAR))
            steps.done(f"{setting.name}, {aggregates}: {mode}")
    first = runs["off"][0]["answer"]
    assert all(each["answer"] == first for found in runs.values() for each in found), "logs differ"
    return {
        mode: {**found[0], "seconds": median(r["seconds"] for r in found), "ratio": median(r["ratio"] for r in found)}
        for mode, found in runs.items()
    }


def _counts_table(settings: Sequence[Setting], found: Found) -> Table:
    rows = []
    for setting in settings:
        for mode in MODES:
            counted, predicted = _counted_and_predicted(setting, mode, found)
            rows.append([setting.name, PLANS[mode], *(round(v) for v in (counted.NS, predicted.NS))])
            rows[-1] += [round(v) for v in (counted.NG, predicted.NG)]
    titles = ["setting", "pipeline", "NS", "predicted", "NG", "predicted"]
    return Table("Figure 12: rows into synchronizers and groupings, counted and predicted", titles, rows)


def _counted_and_predicted(setting: Setting, mode: str, found: Found) -> tuple[Counts, Counts]:
    """What a pipeline counted, and what EXPLAIN said of it when (a) had run."""
    runs = found[setting.name, CHEAP]
    return runs[mode]["counts"], runs["off"]["prices"][mode]


def _times_table(settings: Sequence[Setting], found: Found) -> Table:
    modes = (*MODES, "auto")
    rows = [
        [s.name, c, found[s.name, c]["off"]["ratio"], *(found[s.name, c][m]["seconds"] for m in modes)]
        for s in settings
        for c in (CHEAP, DEAR)
    ]
    titles = ["setting", "aggregates", "c2 / c1", *(PLANS.get(m, m) for m in modes)]
    return Table("Figures 13 to 15: seconds of the processor", titles, rows)


def _paper_table(settings: Sequence[Setting]) -> Table:
    """The paper's own pipelines, whose queries have two synchronizers each, by the model."""
    rows: list[list[Any]] = []
    for setting in settings:
        priced = setting.paper_model()
        rows += [
            [setting.name, name, *(round(v) for v in counts)]
            for name, counts in (("a", priced.separate), ("a′", priced.tagger), ("b", priced.phantom))
        ]
    return Table("The paper's pipelines by the cost model, in tagged tuples", ["setting", "pipeline", "NS", "NG"], rows)


def _relative(setting: Setting, mode: str, c2: float) -> float:
    """The cost of a shared pipeline of the paper to that of (a), where a row costs a grouping c2 times as much."""
    priced = setting.paper_model()
    return getattr(priced, mode).cost(1, c2) / priced.separate.cost(1, c2)


def _checks(settings: Sequence[Setting], found: Found) -> list[Check]:
    errors: dict[str, list[float]] = {"NS": [], "NG": []}
    for setting in settings:
        for mode in MODES:
            counted, predicted = _counted_and_predicted(setting, mode, found)
            errors["NS"].append(abs(predicted.NS / counted.NS - 1))
            errors["NG"].append(abs(predicted.NG / counted.NG - 1))
    checks = [at_most(f"EXPLAIN's {what} against counted", values, 0.1) for what, values in errors.items()]
    slower = [f["auto"]["seconds"] / min(f[m]["seconds"] for m in MODES) for f in found.values()]
    checks.append(at_most("`auto` to the fastest pipeline", slower, 1.1))
    for setting in settings:
        checks += [_check_model(setting), _check_measured(setting, found)]
    return checks


def _check_model(setting: Setting) -> Check:
    """What the paper found of (b), by its model and over all costs of aggregates."""
    ratios = [_relative(setting, "phantom", c2) for c2 in RATIOS]
    said, met = _expect(setting, ratios)
    shown = f"{min(ratios):.2f} to {max(ratios):.2f} × (a)"
    return Explained(f"{setting.name}: the paper's model", said, shown, met, _WHY_MODEL)


def _check_measured(setting: Setting, found: Found) -> Check:
    """The same as measured with cheap and with dear aggregates."""
    runs = [found[setting.name, c] for c in (CHEAP, DEAR)]
    ratios = [run["phantom"]["seconds"] / run["off"]["seconds"] for run in runs]
    said, met = _expect(setting, ratios)
    shown = f"{ratios[0]:.2f} × (a) cheap, {ratios[1]:.2f} × (a) dear"
    return Explained(
        f"{setting.name}: measured", said, shown, met, _WHY_TAGGERS if setting.figure == "15" else _WHY_ADDED
    )


def _expect(setting: Setting, ratios: Sequence[float]) -> tuple[str, bool]:
    """What the paper says of (b) to (a), and whether these ratios, of cheap aggregates first, say so too."""
    if setting.figure == "15":
        return "(b) loses", min(ratios) > 1
    if setting.figure == "13" and setting.groups > 200:
        return "(b) wins for cheap aggregates only", ratios[0] < 1 < ratios[-1]
    return "(b) wins", max(ratios) < 1


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """Figures 13 to 15 as the model has them."""
    from benchmarks import plots

    found = series["figure 13"]
    figure, (axes,) = plots.panels(1)
    lines = [(name, found["ratios"], values) for name, values in found["lines"].items()]
    plots.lines(axes, "the paper's pipelines, by the model", "c2 / c1", "cost to (a)", lines)
    axes.set_xscale("log")
    axes.axhline(1, color="grey", linestyle=":")
    plot = plots.save(figure, folder, "pipelines_13", "Figures 13 to 15: shared to separate pipelines")
    return [
        {
            **plot,
            "title": "Figures 13 to 15: shared to separate pipelines",
            "paper": "With 200 groups sharing saves up to half of the time; with 2,000 only cheap aggregates gain;"
            " it saves less where rooms report slowly (figure 14), and costs up to twice as much where most of them are"
            " slower than the points (figure 15).",
            "here": "The model says the same of the paper's pipelines, but for figure 14 with dear aggregates. "
            + _WHY_TAGGERS,
        }
    ]
