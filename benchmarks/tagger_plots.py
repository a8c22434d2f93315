"""Figures 6 to 11 of paper 004 as measured here, on the axes of the paper."""

from __future__ import annotations

from typing import Any

from benchmarks import plots
from benchmarks.temperature import MORE_ROOMS, RATES, ROOMS


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    made = []
    six = series["6"]
    figure, (left, right) = plots.panels(2)
    named = [
        ("input time", six["input"]),
        (f"{ROOMS} rooms", six[str(ROOMS)]),
        (f"{MORE_ROOMS} rooms", six[str(MORE_ROOMS)]),
    ]
    slow = [i for i, rate in enumerate(six["rates"]) if rate <= RATES[-1]]
    plots.lines(
        left,
        "Figure 6, axes of the paper",
        "arrival rate, tuples/s",
        "s",
        [(n, [six["rates"][i] for i in slow], [y[i] for i in slow]) for n, y in named],
    )
    plots.lines(
        right, "Figure 6, on to saturation", "arrival rate, tuples/s", "s", [(n, six["rates"], y) for n, y in named]
    )
    right.set(xscale="log", yscale="log")
    right.set_ylim(bottom=min(min(y) for _, y in named) / 2)
    right.axvline(six["saturation"][str(ROOMS)], color="grey", linestyle=":")
    made.append(plots.save(figure, folder, "figure6", "figure 6: effect of the arrival rate"))
    times = (("seconds", "operators, s"), ("whole", "with output, s"))
    for number, title, axis, units in (
        ("7", "cost of the tagging operation", "sizes", times),
        ("8", "effect of key selectivity", "selectivity", (*times, ("state", "rows of state"))),
        ("9", "effect of non-key selectivity", "selectivity", (*times, ("state", "rows of state"))),
    ):
        figure, places = plots.panels(len(units))
        for place, (what, unit) in zip(places, units, strict=True):
            plots.lines(
                place,
                f"Figure {number}: {title}",
                "input tuples" if axis == "sizes" else axis,
                unit,
                [(n, series[number][axis], y) for n, y in series[number][what].items()],
            )
        made.append(plots.save(figure, folder, f"figure{number}", f"figure {number}: {title}"))
    figure, (left,) = plots.panels(1)
    plots.lines(
        left,
        "Figure 10: tuples out of the synchronizer",
        "synchronization period, s",
        "tuples",
        [(f"{rooms} rooms", series["10"]["periods"], series["10"][str(rooms)]) for rooms in (ROOMS, MORE_ROOMS)],
    )
    made.append(plots.save(figure, folder, "figure10", "figure 10: effect of the number of objects"))
    figure, (left, right) = plots.panels(2)
    for place, what, unit in ((left, "tuples", "tuples into the aggregate"), (right, "seconds", "s")):
        plots.lines(
            place,
            "Figure 11: presynchronization",
            "synchronization step, s",
            unit,
            [(f"{n} presynchronization", series["11"]["steps"], y) for n, y in series["11"][what].items()],
        )
    made.append(plots.save(figure, folder, "figure11", "figure 11: effect of presynchronization"))
    return made
