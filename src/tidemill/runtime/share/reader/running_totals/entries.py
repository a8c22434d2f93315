"""What running totals hold before and after they are totals: entries of the first rows, and cells of panes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Entry(NamedTuple):
    """Entries of one fragment as a table would evict them: groups, classes, and parts[entry, part]."""

    start: int
    groups: np.ndarray
    classes: np.ndarray
    parts: np.ndarray


class Entries(NamedTuple):
    """Entries of several fragments as rows: starts, attributes, truth of each predicate, parts."""

    starts: np.ndarray
    attributes: list[np.ndarray]
    truths: list[np.ndarray]
    parts: list[np.ndarray]


class Piece(NamedTuple):
    """The cells of one pane of one query: groups of its leaf, and parts[part, cell]."""

    start: int
    query: int
    groups: np.ndarray
    parts: np.ndarray
