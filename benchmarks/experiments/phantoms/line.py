"""Figure 12 of paper 002: the curve of equation 13, and the straight line through its low part (section 5.4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.experiments.checks import at_most
from benchmarks.experiments.figures import Figure, Panel
from benchmarks.experiments.phantoms.setting import Part, Setting
from tidemill.optimize.share.phantoms.collisions import ALPHA, MU, collision_rate, linear_rate

GROUPS, LOW = 3_000, 0.4


def curve(loads: np.ndarray) -> np.ndarray:
    """Equation 13 over g/b."""
    return np.array([collision_rate(GROUPS, GROUPS / load) for load in loads])


def low_part(step: float = 0.01) -> np.ndarray:
    """Loads g/b whose rate is below 0.4, evenly spaced; equation 13 rises with g/b."""
    loads = np.arange(step, 3, step)
    return loads[curve(loads) < LOW]


def straight_line(setting: Setting, done: Callable[[str], None]) -> Part:
    """The line by least squares, and the one that the paper prints and SL is derived from."""
    low, wide = low_part(), np.arange(0.05, 10.01, 0.05)
    rates = curve(low)
    mu, alpha = np.polyfit(low, rates, 1)
    ours, printed = alpha + mu * low, np.array([linear_rate(load, 1) for load in low])
    errors = {name: float(np.mean(np.abs(line / rates - 1))) for name, line in (("ours", ours), ("paper", printed))}
    whole = float(np.mean(np.abs(printed - rates)) / np.mean(rates))
    figure = Figure(
        "phantoms_12",
        "Figure 12: the collision rate curve and its low part",
        f"The part below 0.4 is almost straight: x = {ALPHA} + {MU} g/b with an average error below 5 %.",
        f"Least squares over g/b up to {low[-1]:.2f} give x = {alpha:.4f} + {mu:.3f} g/b. The average distance of the"
        f" paper's line is {whole:.1%} of the average rate, and {errors['paper']:.1%} of the rate at each point (ours"
        f" {errors['ours']:.1%}): near zero, where the rate goes to 0 and the line to {ALPHA}, no line is close in"
        " proportion.",
        [
            Panel(
                "equation 13",
                "g/b",
                "collision rate",
                [("~equation 13", wide.tolist(), curve(wide).tolist())],
                from_zero=True,
            ),
            Panel(
                "rates below 0.4",
                "g/b",
                "collision rate",
                [
                    ("~equation 13", low.tolist(), rates.tolist()),
                    ("~least squares", low.tolist(), ours.tolist()),
                    ("~the paper's line", low.tolist(), printed.tolist()),
                ],
                from_zero=True,
            ),
        ],
    )
    checks = [
        at_most("figure 12: the paper's line, average distance to the average rate below 0.4", [whole], 0.05),
        at_most("figure 12: slope by least squares to the paper's 0.354", [float(abs(mu / MU - 1))], 0.05),
    ]
    done("straight line")
    return Part([figure], [], checks)
