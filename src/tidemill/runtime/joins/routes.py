"""In which order a change of one input probes the others, and by which columns.

The equalities of a join fall into classes of columns that are all equal in a joined row. Once some inputs are bound,
the values of their classes are known, so the next input is looked up by one index and compared on every known class:
no pair is made that another equality would reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Place = tuple[int, str]  # a column of an input


@dataclass(frozen=True)
class ProbeStep:
    """One step: `input` is fetched by `own` columns, which equal the `other` columns of bound input `neighbour`.

    `known` lists for every class that is already bound: (class, column of this input, a bound column).
    """

    input: int
    neighbour: int
    own: tuple[str, ...]
    other: tuple[str, ...]
    known: tuple[tuple[int, str, Place], ...]


class JoinGraph:
    """Classes of equal columns.

    >>> graph = JoinGraph([(0, "a", 1, "b"), (1, "b", 2, "c")])
    >>> graph.class_of(0, "a") == graph.class_of(2, "c")
    True
    """

    def __init__(self, equalities: Sequence[tuple[int, str, int, str]]) -> None:
        classes: list[list[Place]] = []
        for i, a, j, b in equalities:
            ends = [(i, a), (j, b)]
            touched = [c for c in classes if any(end in c for end in ends)]
            merged = list(dict.fromkeys([*(place for c in touched for place in c), *ends]))
            classes = [c for c in classes if c not in touched] + [merged]
        self.classes = classes

    def class_of(self, number: int, column: str) -> int | None:
        """The class of a column; None where no equality names it."""
        return next((c for c, places in enumerate(self.classes) if (number, column) in places), None)

    def column(self, number: int, which: int) -> str | None:
        """The column that stands for a class in an input."""
        return next((column for i, column in self.classes[which] if i == number), None)

    def attributes(self, number: int) -> list[str]:
        """The join attributes of an input."""
        return [column for places in self.classes for i, column in places if i == number]

    def equal(self, number: int) -> list[tuple[str, str]]:
        """Columns of one input that must agree because all are in one class."""
        found = []
        for places in self.classes:
            own = [column for i, column in places if i == number]
            found += [(own[0], other) for other in own[1:]]
        return found

    def route(self, start: int, order: Sequence[int], nested: bool) -> list[ProbeStep]:
        """The steps of a change of input `start`. A nested loop reads all rows of an input and needs no index."""
        bound, steps = [start], []
        for j in order:
            every = range(len(self.classes))
            shared = {b: [c for c in every if self.column(j, c) and self.column(b, c)] for b in bound}
            best = max(bound, key=lambda b: (len(shared[b]), -bound.index(b)))
            by = [] if nested else shared[best]
            known = []
            for c in every:
                holder = next((b for b in bound if self.column(b, c)), None)
                own = self.column(j, c)
                if own is not None and holder is not None:
                    known.append((c, own, (holder, str(self.column(holder, c)))))
            steps.append(
                ProbeStep(
                    j,
                    best,
                    tuple(str(self.column(j, c)) for c in by),
                    tuple(str(self.column(best, c)) for c in by),
                    tuple(known),
                )
            )
            bound.append(j)
        return steps
