"""A query as the weaving optimizers see it."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.windows import Window


@dataclass(frozen=True)
class Acq:
    """An aggregate continuous query (paper 003, section III-A): window, predicate, group-by attributes."""

    name: str
    window: Window
    group_by: frozenset[str] = frozenset()
    predicate: str | None = None


def sliding(range: int, slide: int) -> Window:
    """The paper's window (r, s): rows of [k·s, k·s + r), reported at k·s + r.

    >>> sliding(8, 5).phases
    (0, 3)
    """
    return Window(slide, range % slide, 1, range + 1)
