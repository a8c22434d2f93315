"""Queries drawn as in Table II of paper 003."""

from __future__ import annotations

import numpy as np

from tidemill.optimize.share.weaving import Acq, sliding

LONGEST, SKEW, OVERLAPS = 10_000, 0.6, (1, 50)


def table_two(count: int, seed: int, whole: bool = False) -> list[Acq]:
    """Slides by Zipf 0.6 over 1 … 10,000 time units; ranges are the slide times an overlap uniform in 1 … 50.

    The paper does not say whether overlaps are whole numbers. If they are, a window has one fragment in a slide, otherwise
    nearly always two.
    """
    rng = np.random.default_rng(seed)
    lengths = np.arange(1, LONGEST + 1)
    shares = lengths**-SKEW
    slides = rng.choice(lengths, count, p=shares / shares.sum())
    low, high = OVERLAPS
    overlaps = rng.integers(low, high + 1, count) if whole else rng.uniform(low, high, count)
    return [Acq(f"q{i}", sliding(round(s * w), int(s))) for i, (s, w) in enumerate(zip(slides, overlaps, strict=True))]
