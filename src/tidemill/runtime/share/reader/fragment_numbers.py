"""Numbers of fragments, so that tables know them as small integers: the finest ones, and those of every relation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.plan.physical import LftaRelation
from tidemill.runtime.kernels.share.edges import floor_edges, fragment_runs

Edges = tuple[np.ndarray, np.ndarray]


class FragmentNumbers:
    """Fragments in the order of their appearance; `maps` has, for each relation, the number of the fragment in which a
    fragment of its parent lies.
    """

    def __init__(self, relations: Sequence[LftaRelation], edges: Sequence[Edges], finest: Edges) -> None:
        self.relations, self.edges, self.finest = relations, edges, finest
        self.places: dict[int, int] = {}  # start of a finest fragment → its number
        self.own: list[dict[int, int]] = [{} for _ in relations]  # the same for each relation's fragments
        self.maps: list[np.ndarray] = [np.zeros(0, np.int32) for _ in relations]

    def __len__(self) -> int:
        return len(self.places)

    def starts(self, r: int) -> np.ndarray:
        """Where the fragments of a relation begin, by number."""
        return np.array(list(self.own[r]), np.int64)

    def of(self, times: np.ndarray) -> np.ndarray:
        """The number of each row's finest fragment."""
        # Untouched pages of an array cost nothing, and rows in order make few runs.
        room = np.empty((2, len(times)), np.int64)
        runs = fragment_runs(times, *self.finest, *room)
        begins, starts = room[0, :runs], room[1, :runs]
        distinct, which = np.unique(starts, return_inverse=True)
        fresh = [int(s) for s in distinct if int(s) not in self.places]
        if fresh:
            for start in fresh:
                self.places[start] = len(self.places)
            self._coarsen(np.array(fresh, np.int64))
        numbers = np.array([self.places[int(s)] for s in distinct], np.int32)[which]
        return np.repeat(numbers, np.diff(begins, append=len(times)))

    def _coarsen(self, fresh: np.ndarray) -> None:
        """Each relation's fragments are unions of its parent's: the intercede aggregation of paper 003 happens here."""
        added: list[np.ndarray] = []  # for each relation the starts of its new fragments
        for r, relation in enumerate(self.relations):
            above = fresh if relation.parent < 0 else added[relation.parent]
            starts = np.empty_like(above)
            floor_edges(above, *self.edges[r], starts)
            own, new, places = self.own[r], [], np.empty(len(starts), np.int32)
            for i, start in enumerate(starts.tolist()):
                if start not in own:
                    own[start] = len(own)
                    new.append(start)
                places[i] = own[start]
            self.maps[r] = np.concatenate([self.maps[r], places])
            added.append(np.array(new, np.int64))
