"""Which running totals are kept for which queries: all about them that stays the same as long as the plan does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tidemill.plan.scalars import columns_of
from tidemill.runtime import predicates
from tidemill.runtime.intercede import Edges
from tidemill.runtime.kernels.intercede_rows import classify
from tidemill.runtime.thresholds import sizes


@dataclass(frozen=True)
class Verdicts:
    """How predicates are decided: by a row's own columns, whose values fall into classes, or by its group.

    `wanted[r, c]`: row predicate number r holds for rows of class c. `programs` are those of the group predicates, over
    the columns of attributes, `grouping` all those that they look at.
    """

    rows: dict[int, int]  # predicate → its number among the row predicates
    cuts: dict[str, predicates.Cuts]
    wanted: np.ndarray
    groups: dict[int, int]  # predicate → its number among the group predicates
    programs: list[list[Any]]
    grouping: frozenset[str]

    @classmethod
    def of(cls, programs: Sequence[list[Any] | None], attributes: set[str]) -> Verdicts | None:
        """None where a predicate has no program, or looks at several columns that are not all attributes."""
        own: dict[str, list[int]] = {}
        shared: list[int] = []
        grouping: set[str] = set()
        for i, program in enumerate(programs):
            if program is None:
                return None
            columns = predicates.columns_of(program)
            if columns <= attributes:
                shared.append(i)
                grouping |= columns
            elif len(columns) == 1:
                own.setdefault(next(iter(columns)), []).append(i)
            else:
                return None
        known = [p for p in programs if p is not None]
        cuts, classes = {}, 1
        for column, numbers in own.items():
            found = predicates.Cuts.of([known[i] for i in numbers], sizes.running_classes // classes + 1)
            if found is None:
                return None
            cuts[column], classes = found, classes * len(found)
        rows = {i: n for n, i in enumerate(i for numbers in own.values() for i in numbers)}
        wanted = _wanted(own, cuts, known, classes, len(rows))
        return cls(rows, cuts, wanted, {i: n for n, i in enumerate(shared)}, [known[i] for i in shared],
                   frozenset(grouping))

    def classes(self, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The class of each row."""
        found, scale = np.zeros(rows, np.uint8), 1
        for column, cuts in self.cuts.items():
            classify(columns[column], cuts.least, cuts.table, scale, found)
            scale *= len(cuts)
        return found


def _wanted(own: Mapping[str, list[int]], cuts: Mapping[str, predicates.Cuts], programs: Sequence[list[Any]],
            classes: int, count: int) -> np.ndarray:
    """Which row predicates hold for which classes; a class is a digit for each column, the first one the lowest."""
    wanted, number, scale = np.zeros((count, classes), bool), 0, 1
    for column, numbers in own.items():
        digit = np.arange(classes) // scale % len(cuts[column])
        for i in numbers:
            wanted[number] = predicates.evaluate(programs[i], {column: cuts[column].values})[digit]
            number += 1
        scale *= len(cuts[column])
    return wanted


class Leaf(NamedTuple):
    """A relation that answers queries: its attributes among those of the raw relation, and its queries, numbered
    through all leaves from `first` on. Query i sees value number values[i] (`Layout.values`) of the groups that satisfy
    group predicate number tests[i], of all groups if that is -1.
    """

    relation: int
    picks: list[int]
    first: int
    values: list[int]
    tests: list[int]


@dataclass(frozen=True)
class Layout:
    """What stays the same as long as the plan does."""

    verdicts: Verdicts
    columns: list[str]  # those that are the raw relation's attributes
    leaves: list[Leaf]
    edges: tuple[np.ndarray, np.ndarray, np.ndarray]  # of all queries: slides, phases, where those of a query begin
    finest: Edges

    @classmethod
    def of(cls, params: dict[str, Any], finest: Edges) -> Layout | None:
        """None where tables must do it: below the raw relation there are some, or queries need more than sums."""
        raw, *below = params["relations"]
        attributes = [params["attributes"][a]["sql"] for a in raw["attributes"]]
        if not below or any(r["parent"] < 0 or r["buckets"] for r in below) or not attributes:
            return None
        own = [next(iter(columns_of(sql))) for sql in attributes]
        verdicts = Verdicts.of([p["program"] for p in params["predicates"]], set(own))
        wrong = len(own) < len(params["attributes"]) or any(q["objects"] or not q["edges"] for q in params["queries"])
        if verdicts is None or wrong:
            return None
        leaves: list[Leaf] = []
        edges: list[list[list[int]]] = []
        for r, relation in enumerate(params["relations"]):
            if relation["emits"] < 0:
                continue
            queries = [params["queries"][q] for q in relation["own"]]
            picks = [raw["attributes"].index(a) for a in relation["attributes"]]
            asked = [q["predicate"] for q in queries]
            leaves.append(Leaf(r, picks, len(edges), [1 + verdicts.rows.get(p, -1) for p in asked],
                               [verdicts.groups.get(p, -1) for p in asked]))
            edges += [q["edges"] for q in queries]
        pairs = np.array([e for classes in edges for e in classes], np.int64).reshape(-1, 2)
        bounds = np.concatenate(([0], np.cumsum([len(classes) for classes in edges])))
        return cls(verdicts, own, leaves, (pairs[:, 0].copy(), pairs[:, 1].copy(), bounds), finest)

    @property
    def queries(self) -> int:
        return len(self.edges[2]) - 1

    @cached_property
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums that queries see of a group, number 0 of all its rows, number 1 + r of those that satisfy row
        predicate r: stretches of classes, and where those of each value begin, as `settle` has them.
        """
        wanted = np.vstack([np.ones((1, self.classes), bool), self.verdicts.wanted])
        edges = np.diff(np.pad(wanted, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        # Row by row, every stretch begins with +1 and ends with -1.
        stretches = np.stack([np.nonzero(edges > 0)[1], np.nonzero(edges < 0)[1]], axis=1).astype(np.int64)
        return stretches, np.concatenate(([0], np.cumsum((edges > 0).sum(axis=1)))).astype(np.int64)

    @property
    def classes(self) -> int:
        return self.verdicts.wanted.shape[1]

    def capacity(self, parts: int) -> int:
        """Groups of the raw relation that are kept, at most."""
        own = len(self.verdicts.programs) + len(self.columns) + len(self.leaves) + 4
        sums = self.classes + 1 + len(self.verdicts.rows) + self.queries
        return max(sizes.running_groups, sizes.running_bytes // 8 // (own + parts * sums))
