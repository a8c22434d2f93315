"""The order in which Algorithm 1 of paper 003 merges weaved groups.

Merging i and j saves one group and costs E_ij·(Ω_i + Ω_j) - E_i·Ω_i - E_j·Ω_j more in final aggregation, its *loss*.
What a saved group is worth is the same for all groups: λ under TwoOps (3), E under TriOps (4). So Weave Share and
TriWeave, at any input rate, make the same merges in the same order and only stop at different places: at the first
merge whose loss is not below that worth. The order is computed once, and only as far as it is needed.

With I_ij the edges common to both, loss = E_i·Ω_j + E_j·Ω_i - I_ij·(Ω_i + Ω_j). An upper bound of I_ij gives a lower
bound of the loss, and I(i ∪ j, k) <= min(I_ik + I_jk, E_k). The loss of the pair with the least bound is computed
exactly; if it is still the least, the pair is merged. So each step makes the same merge as the full search of
Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.optimize.share.weaving.edges import Edges, common_rates, edge_rate, union

# Losses that differ by less are equal: the order of merges must not depend on the last bits of a float.
_DIGITS = 12


@dataclass(frozen=True)
class Merge:
    """Group `second` is merged into group `first`, which then has these edges. `loss` is in edges · overlap."""

    first: int
    second: int
    edges: Edges
    rate: float
    loss: float


class MergeOrder:
    """All merges down to one group, computed lazily. Groups are numbered like the given sets.

    `evaluated` is the number of unions whose edge rate was computed.
    """

    def __init__(self, edges: Sequence[Edges], overlaps: Sequence[float]) -> None:
        self.evaluated = 0
        self._edges = list(edges)
        self._overlap = np.array(overlaps, dtype=float)
        self._rate = np.array([edge_rate(e).value for e in edges], dtype=float)
        self._common = common_rates(edges)
        self._unit = float((self._rate * self._overlap).max(initial=0.0)) or 1.0
        self._sure = np.ones(self._common.shape, dtype=bool)
        self._alive = np.ones(len(self._edges), dtype=bool)
        self._loss = np.full(self._common.shape, np.inf)
        for i in range(len(self._edges)):
            self._loss[i] = self._bound_losses(i)
        self._near = self._loss.argmin(axis=1) if len(self._edges) else np.zeros(0, dtype=np.int64)
        self._least = self._loss.min(axis=1, initial=np.inf)
        self._found: list[Merge] = []

    def merges_until(self, worth: float) -> list[Merge]:
        """The merges up to the first whose loss is not below what a saved group is worth."""
        found: list[Merge] = []
        while (merge := self.merge(len(found), worth)) and merge.loss < _limit_below(worth):
            found.append(merge)
        return found

    def merge(self, number: int, worth: float = np.inf) -> Merge | None:
        """The merge with this number, from 0; None after the last, or when its loss is not below `worth`."""
        while len(self._found) <= number:
            if not self._find_least(worth):
                return None
            self._found.append(self._merge())
        return self._found[number]

    def _find_least(self, worth: float) -> bool:
        """Evaluate unions until the pair with the least bound has the least loss; False if no merge pays."""
        while len(self._found) < len(self._edges) - 1:
            i = int(self._least.argmin())
            j = int(self._near[i])
            if self._least[i] >= _limit_below(worth):
                return False
            if self._sure[i, j]:
                return True
            self._evaluate(i, j)
        return False

    def _evaluate(self, i: int, j: int) -> None:
        self.evaluated += 1
        both = edge_rate(union(self._edges[i], self._edges[j])).value
        self._common[i, j] = self._common[j, i] = self._rate[i] + self._rate[j] - both
        self._sure[i, j] = self._sure[j, i] = True
        self._loss[i, j] = self._loss[j, i] = self._bound_losses(i)[j]
        self._refresh(i)
        self._refresh(j)

    def _bound_losses(self, i: int) -> np.ndarray:
        """A lower bound of the loss of merging i with each other group."""
        overlap, rate = self._overlap, self._rate
        loss = rate[i] * overlap + rate * overlap[i] - self._common[i] * (overlap[i] + overlap)
        loss[~self._alive] = np.inf
        loss[i] = np.inf
        return np.round(np.maximum(loss, 0.0) / self._unit, _DIGITS) * self._unit

    def _refresh(self, i: int) -> None:
        self._near[i] = self._loss[i].argmin()
        self._least[i] = self._loss[i, self._near[i]]

    def _merge(self) -> Merge:
        i, j = sorted((int(self._least.argmin()), int(self._near[self._least.argmin()])))
        loss = float(self._loss[i, j])
        edges = union(self._edges[i], self._edges[j])
        self._edges[i] = edges
        self._rate[i] += self._rate[j] - self._common[i, j]
        self._overlap[i] += self._overlap[j]
        common = np.minimum(self._common[i] + self._common[j], np.minimum(self._rate, self._rate[i]))
        self._common[i] = self._common[:, i] = common
        self._sure[i] = self._sure[:, i] = False
        self._alive[j] = False
        self._loss[j] = self._loss[:, j] = np.inf
        self._least[j] = np.inf
        self._loss[i] = self._loss[:, i] = self._bound_losses(i)
        self._refresh(i)
        for k in np.flatnonzero(self._alive & ((self._near == i) | (self._near == j))):
            self._refresh(int(k))
        closer = self._alive & (self._loss[:, i] < self._least)
        self._near[closer] = i
        self._least[closer] = self._loss[closer, i]
        return Merge(i, j, edges, float(self._rate[i]), loss)


def _limit_below(worth: float) -> float:
    """Losses below this are less than `worth` even after rounding."""
    return worth * (1 - 10.0**-_DIGITS)
