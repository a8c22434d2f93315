"""Plots as SVG files that do not change when the numbers do not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "tidemill",
        "font.size": 9,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.constrained_layout.use": True,
        "legend.frameon": False,
    }
)

from matplotlib import pyplot  # noqa: E402

MARKS = ("o", "s", "^", "D", "v")
Line = tuple[str, Sequence[float], Sequence[float]]


def panels(count: int) -> tuple[Any, list[Any]]:
    """A figure with panels side by side."""
    figure, axes = pyplot.subplots(1, count, figsize=(4.6 * count, 3.2), squeeze=False)
    return figure, list(axes[0])


def lines(axes: Any, title: str, across: str, up: str, series: Iterable[Line], marks: bool = True) -> None:
    """Lines with markers over common axes that begin at zero."""
    for number, (name, x, y) in enumerate(series):
        axes.plot(x, y, marker=MARKS[number % len(MARKS)] if marks else None, markersize=4, label=name)
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.set_ylim(bottom=0)
    axes.legend()


def bars(axes: Any, title: str, up: str, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Grouped bars, one group for each name."""
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = [i - 0.4 + width * (number + 0.5) for i in range(len(names))]
        drawn = axes.bar(places, values, width, label=label)
        axes.bar_label(drawn, fmt="%.1f", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set(title=title, ylabel=up)
    axes.legend()


def rates(axes: Any, title: str, up: str, names: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Grouped bars over a logarithmic axis, without the sides that have nothing to show."""
    bars(axes, title, up, names, {label: values for label, values in series.items() if any(values)})
    axes.set_yscale("log")
    for text in list(axes.texts):  # one digit after the point says nothing of the slowest
        text.remove()
    for drawn in axes.containers:
        axes.bar_label(drawn, fmt="%.2g", fontsize=7)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def save(figure: Any, folder: str, name: str, caption: str) -> dict[str, str]:
    """Write the figure; the answer says where it is and what it shows."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.svg")
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    with suppress(OSError), open(path, encoding="utf-8") as file:
        text = "\n".join(line.rstrip() for line in file.read().splitlines()) + "\n"
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    return {"file": f"{name}.svg", "caption": caption}
