"""Queries drawn as in Table II of paper 003."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.optimize.share.weaving import Acq, sliding

SKEW, OVERLAPS = 0.6, (1, 50)
TABLE_II = range(1, 10_001)
TEMPLATES: dict[str, Sequence[int]] = {
    "1, 2, 3, … 10,000": TABLE_II,
    "1, 2, 3, … 100": range(1, 101),
    "1, 2, 5, 10, … 10,000": (*(d * 10**e for e in range(4) for d in (1, 2, 5)), 10_000),
}


def table_two(count: int, seed: int, whole: bool = False, slides: Sequence[int] = TABLE_II) -> list[Acq]:
    """Slides by Zipf 0.6 over 1 … 10,000 time units; ranges are the slide times an overlap uniform in 1 … 50.

    The paper does not say whether overlaps are whole numbers. If they are, a window has one fragment in a slide,
    otherwise nearly always two.
    """
    rng = np.random.default_rng(seed)
    shares = np.arange(1, len(slides) + 1) ** -SKEW
    drawn = rng.choice(slides, count, p=shares / shares.sum())
    low, high = OVERLAPS
    overlaps = rng.integers(low, high + 1, count) if whole else rng.uniform(low, high, count)
    return [Acq(f"q{i}", sliding(round(s * w), int(s))) for i, (s, w) in enumerate(zip(drawn, overlaps, strict=True))]
