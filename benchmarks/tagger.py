"""Tagger, merged select-tagger, synchronizer, presynchronization: paper 004, sections 10.3 to 10.5, figures 6 to 11.

The axes are the paper's; the machine is not, so what is checked are its findings and not its seconds. Figures 7 to 9
are in `select_tagger`.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from benchmarks import data, select_tagger
from benchmarks.report import Result, Table
from benchmarks.sides import alternate
from benchmarks.tagger_plots import draw
from benchmarks.tagger_sheet import Sheet
from benchmarks.temperature import HOT, MORE_ROOMS, RATE, RATES, ROOMS, STEEPER, TAGGER, arriving, measure, pipeline

__all__ = ["draw", "run"]


def run(quick: bool, steps: Any) -> Result:
    """All figures; each adds its table, its series and the findings that it checks."""
    measure(data.readings(6_000, ROOMS, RATE), TAGGER)  # imports and first statements are not measured
    sheet = Sheet(quick, steps)
    rates = 2 * (len(RATES[:: sheet.thin]) + len(STEEPER[:: sheet.thin])) + 2 * sheet.rounds
    steps.expect(rates + select_tagger.steps(sheet) + len(sheet.periods) * (4 + 2 * sheet.rounds))
    for figure in (figure6, *select_tagger.FIGURES, figure10, figure11):
        figure(sheet)
    return sheet.result


def figure6(sheet: Sheet) -> None:
    """Arrival rate against execution time, and the rate at which the pipeline is saturated."""
    rows, series = [], {"rates": [], "input": [], str(ROOMS): [], str(MORE_ROOMS): []}
    for rate in (*RATES[:: sheet.thin], *STEEPER[:: sheet.thin]):
        row: list[Any] = [rate, sheet.tuples / rate]
        for rooms in (ROOMS, MORE_ROOMS):
            row.append(arriving(sheet.tuples, rooms, rate))
            series[str(rooms)].append(row[-1])
            sheet.steps.done(f"figure 6: {rate:,} tuples/s")
        series["rates"].append(rate)
        series["input"].append(row[1])
        rows.append(row)
    found = alternate(
        {
            str(rooms): pipeline(data.readings(sheet.tuples, rooms, RATE), TAGGER, timer=time.perf_counter)
            for rooms in (ROOMS, MORE_ROOMS)
        },
        sheet.rounds,
        lambda: sheet.steps.done("figure 6: saturation"),
    )
    speed = {rooms: sheet.tuples / median(r["seconds"] for r in runs) for rooms, runs in found.items()}
    sheet.result.series["6"] = series | {"saturation": speed}
    sheet.result.tables.append(
        Table(
            "Figure 6: effect of the arrival rate, seconds",
            ["tuples/s", "input time", f"{ROOMS} rooms", f"{MORE_ROOMS} rooms"],
            rows,
            f"Most tuples/s when all of them are there: {speed[str(ROOMS)]:,.0f} with {ROOMS} rooms,"
            f" {speed[str(MORE_ROOMS)]:,.0f} with"
            f" {MORE_ROOMS}. The rates of the paper are far below this, so there the execution time is the input"
            " time and the"
            " last micro-batch; rows below 20,000 continue the axis to saturation. The clock of arrivals is"
            " simulated, the work of each micro-batch is measured.",
        )
    )
    ratio = speed[str(MORE_ROOMS)] / speed[str(ROOMS)]
    sheet.finding(
        "figure 6: throughput does not depend on the number of rooms",
        f"{MORE_ROOMS} against {ROOMS} rooms within 0.8 to 1.25",
        f"{ratio:.2f}",
        0.8 <= ratio <= 1.25,
    )


def figure10(sheet: Sheet) -> None:
    """Synchronization period against output tuples, for few and many rooms."""
    series: dict[str, Any] = {"periods": [p / 10 for p in sheet.periods], str(ROOMS): [], str(MORE_ROOMS): []}
    rows = []
    for tenths in sheet.periods:
        row: list[Any] = [tenths / 10]
        for rooms in (ROOMS, MORE_ROOMS):
            files = data.readings(sheet.tuples, rooms, RATE)
            view = f"{TAGGER} SYNC EVERY {tenths * 100} MILLISECONDS"
            paper, ours = (measure(files, view, ("presynchronize",)), measure(files, view))
            assert paper["answer"] == ours["answer"], "the synchronizer above and below the tagger differ"
            series[str(rooms)].append(ours["output"])
            row.append(ours["output"])
            for _ in range(2):
                sheet.steps.done(f"figure 10: every {tenths / 10:g} s, {rooms} rooms")
        rows.append(row)
    sheet.result.series["10"] = series
    sheet.result.tables.append(
        Table(
            "Figure 10: tuples out of the synchronizer",
            ["period s", f"{ROOMS} rooms", f"{MORE_ROOMS} rooms"],
            rows,
            f"{sheet.tuples:,} tuples go in. The synchronizer above the tagger, as in the paper, and below it"
            " (presynchronized) gave the same tuples.",
        )
    )
    falls = all(
        a > b for rooms in (ROOMS, MORE_ROOMS) for a, b in zip(series[str(rooms)], series[str(rooms)][1:], strict=False)
    )
    sheet.finding(
        "figure 10: a longer period gives fewer tuples", "falls at every step", "falls" if falls else "does not", falls
    )
    grows = all(a < b for a, b in zip(series[str(ROOMS)], series[str(MORE_ROOMS)], strict=True))
    ratio = series[str(MORE_ROOMS)][-1] / series[str(ROOMS)][-1]
    sheet.finding("figure 10: more rooms give more tuples", "at every period", f"{ratio:.2f} × at the longest", grows)


def figure11(sheet: Sheet) -> None:
    """Tuples into the aggregate and time, with and without presynchronization."""
    files, rows = data.readings(sheet.tuples, ROOMS, RATE), []
    names = {"without": ("presynchronize",), "with": ()}
    series: dict[str, Any] = {
        "steps": [p / 10 for p in sheet.periods],
        "tuples": {n: [] for n in names},
        "seconds": {n: [] for n in names},
    }
    for tenths in sheet.periods:
        every = f"SYNC EVERY {tenths * 100} MILLISECONDS"
        view = f"CREATE STREAMED VIEW V AS SELECT V.Building, V.cntRooms FROM ({HOT}) V {every}"
        found = alternate(
            {name: pipeline(files, view, without) for name, without in names.items()},
            sheet.rounds,
            lambda tenths=tenths: sheet.steps.done(f"figure 11: every {tenths / 10:g} s"),  # type: ignore[misc]
        )
        assert found["with"][0]["answer"] == found["without"][0]["answer"], "presynchronization changed the answer"
        for name, runs in found.items():
            series["tuples"][name].append(runs[0]["tagged"])
            series["seconds"][name].append(median(r["seconds"] for r in runs))
        rows.append([tenths / 10, *(series[what][n][-1] for what in ("tuples", "seconds") for n in names)])
    sheet.result.series["11"] = series
    sheet.result.tables.append(
        Table(
            "Figure 11: presynchronization",
            ["step s", "tuples into the aggregate, without", "with", "s, without", "s, with"],
            rows,
            "Tuples are changes that leave the tagger for the aggregate; an update is two of them, the old row"
            " and the new one.",
        )
    )
    fewer = all(b < a for a, b in zip(series["tuples"]["without"], series["tuples"]["with"], strict=True))
    part = sum(series["tuples"]["with"]) / sum(series["tuples"]["without"])
    sheet.finding(
        "figure 11: presynchronization gives the aggregate fewer tuples", "at every step", f"{part:.2f} × in all", fewer
    )
    faster = sum(series["seconds"]["with"]) / sum(series["seconds"]["without"])
    sheet.finding(
        "figure 11: presynchronization saves time (paper: about half)", "< 1 ×", f"{faster:.2f} ×", faster < 1
    )
