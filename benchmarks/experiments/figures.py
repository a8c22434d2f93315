"""Figures as plain data: what the paper shows, what came out here, and the lines to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Line = tuple[str, Sequence[float], Sequence[float]]


@dataclass
class Panel:
    """Lines over common axes. A line named with a leading ~ is drawn dashed, for a model."""

    title: str
    across: str
    up: str
    lines: list[Line]
    log: bool = False
    from_zero: bool = False
    log_across: bool = False


@dataclass
class Figure:
    """One figure of a paper, with the paper's finding and ours in words."""

    file: str
    title: str
    paper: str
    here: str
    panels: list[Panel] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def draw(figures: Iterable[dict[str, Any]], folder: str) -> list[dict[str, str]]:
    """Draw figures given as dictionaries; the answer is what the page shows of each."""
    from benchmarks import plots  # who only wants numbers needs nothing to draw with

    drawn = []
    for figure in figures:
        canvas, axes = plots.panels(len(figure["panels"]))
        for place, panel in zip(axes, figure["panels"], strict=True):
            _panel(place, panel, plots.MARKS)
        saved = plots.save(canvas, folder, figure["file"], figure["title"])
        drawn.append({**saved, "title": figure["title"], "paper": figure["paper"], "here": figure["here"]})
    return drawn


def _panel(axes: Any, panel: dict[str, Any], marks: Sequence[str]) -> None:
    for number, (name, x, y) in enumerate(panel["lines"]):
        model = name.startswith("~")
        axes.plot(
            x,
            y,
            linestyle="--" if model else "-",
            marker=None if model else marks[number % len(marks)],
            color="black" if model and panel["lines"][0][0] == name else None,
            markersize=4,
            label=name.removeprefix("~"),
        )
    axes.set(title=panel["title"], xlabel=panel["across"], ylabel=panel["up"])
    if panel["log_across"]:
        axes.set_xscale("log")
    if panel["log"]:
        axes.set_yscale("log")
    elif panel["from_zero"]:
        axes.set_ylim(bottom=0)
    axes.legend()
