"""Windows and queries drawn by hypothesis, and the slow twin of the edge rate."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tidemill.optimize.share.weaving import Acq, sliding
from tidemill.plan.windows import Window


@st.composite
def windows(draw: st.DrawFn, most: int = 12) -> Window:
    """Small windows in all spellings: range and slide, synchronized with any offset, landmark."""
    slide = draw(st.integers(1, most))
    kind = draw(st.sampled_from(["range", "sync", "landmark"]))
    if kind == "range":
        return sliding(draw(st.integers(1, 3 * most)), slide)
    until = None if kind == "landmark" else draw(st.integers(1, 3 * most))
    return Window(slide, draw(st.integers(0, slide - 1)), 0, until)


@st.composite
def queries(draw: st.DrawFn, most: int = 7) -> list[Acq]:
    """Queries by their windows alone."""
    return [Acq(f"q{i}", w) for i, w in enumerate(draw(st.lists(windows(), min_size=1, max_size=most)))]


def counted_rate(windows: list[Window]) -> float:
    """The slow twin of the edge rate: mark every edge in one composite slide."""
    period = math.lcm(*(w.slide for w in windows))
    marked = np.zeros(period, dtype=bool)
    for window in windows:
        for phase in window.phases:
            marked[phase :: window.slide] = True
    return float(marked.mean())
