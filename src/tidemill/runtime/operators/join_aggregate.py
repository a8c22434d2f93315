"""GROUP BY over an inner join: the late plan and every early one, as one operator (paper 000).

Every input is a set of rows with a count and additive parts, consolidated (early) or not (late); joining multiplies
counts, and parts by the counts of the others (Definition 5). The output is the partial aggregates of the change of the
join at each time, for the late aggregation that every plan retains:

    Δ(A_1 ⋈ … ⋈ A_m)(t) = Σ_k A_1(t) ⋈ … ⋈ A_{k-1}(t) ⋈ ΔA_k(t) ⋈ A_{k+1}(t-) ⋈ … ⋈ A_m(t-)

All annotations add up in whatever form they came, so the plan may change between any two micro-batches. A micro-batch
costs O(its changes and the pairs they find).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidemill.plan.relations import STATIC_TIME
from tidemill.runtime.operators.aggregation_sets import AggregationSets
from tidemill.runtime.operators.base import Batch, Operator
from tidemill.runtime.operators.hot_keys import HotKeys
from tidemill.runtime.operators.routes import JoinGraph
from tidemill.runtime.state import Shelf

if TYPE_CHECKING:
    from tidemill.runtime.operators.meeting import Met


class JoinAggregate(Operator):
    """Inputs: for each joined relation its changes, in early or late form, with the join key's shard."""

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.graph = JoinGraph(self.params["on"])
        self.nested = self.params["method"] == "nested loop"
        specs = self.params["inputs"]
        self.routes = [self.graph.route(k, spec["order"], self.nested) for k, spec in enumerate(specs)]
        used: list[list[tuple[str, ...]]] = [[] for _ in specs]
        for route in self.routes:
            for step in route:
                used[step.input].append(step.own)
        self.inputs = [
            AggregationSets(self.id, i, spec, self.graph.attributes(i), self.graph.equal(i), used[i])
            for i, spec in enumerate(specs)
        ]

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        # Imported on first use: plans without such a join never need numba here, and loading it costs a second.
        from tidemill.runtime.operators.join_values import JoinValues
        from tidemill.runtime.operators.meeting import Meeting, Met
        from tidemill.runtime.operators.partials import Partials

        inputs, sent = inputs[: len(self.inputs)], inputs[len(self.inputs) :]
        frontier = min(b.frontier for b in inputs)
        complain = self.complain and partial(self.complain, self.op)
        for sets in self.inputs:
            sets.prepare(shelf)
        hot = HotKeys(self.params.get("hot"), self.shard, self.inputs)
        inputs, leaving = hot.begin(inputs, shelf, shelf.value(self.id))
        for sets, batch, copies in zip(self.inputs, inputs, hot.arrived(sent), strict=True):
            sets.close(batch, frontier, shelf, complain, copies)
        found = Partials(self.params, self.inputs, self.graph, complain)
        times, met = self._times(), [Met() for _ in self.inputs]
        values = [JoinValues() for _ in self.graph.classes]
        for k, sets in enumerate(self.inputs):
            if sets.changes:
                meeting = Meeting(k, self.inputs, self.routes[k], values, times, self.nested, met)
                for encounter in meeting.encounters(shelf):
                    found.add(meeting, encounter)
                    hot.saw(meeting, encounter)
        for sets in self.inputs:
            sets.store(shelf)
        rows, picks = found.result(), found.picked()
        dated = times[times > STATIC_TIME]
        self.note = {"inputs": self._counted(met, shelf, hot), "pairs": found.pairs, "frontier": int(frontier),
                     "times": [int(dated[0]), int(dated[-1])] if len(dated) else [None, None],
                     "groups": rows.num_rows if rows else 0, "hot": hot.report(found.pairs)}
        return Batch(rows, frontier, picks | leaving)

    def _counted(self, met: list[Met], shelf: Shelf, hot: HotKeys) -> list[dict[str, Any]]:
        """For each input: what changed, what lies in store, and what probes into it found.

        `changes` are closed changes, `set_changes` how many those of a late input would be in early form. `arrived` are
        all rows that ever came or announced that they will go: what replaces each other in a set is no longer told
        apart when it closes. `rows` are those of the window now. `late_met` and `early_met` are the rows that probes
        found, or would have found, in either form.
        """
        from tidemill.runtime.operators.set_statistics import set_changes, stored_statistics

        live, ever = (shelf.value(self.id).setdefault(name, [0] * len(self.inputs)) for name in ("rows", "arrived"))
        found = []
        for i, sets in enumerate(self.inputs):
            moves = [hot.counted_once(i, t) for t in sets.moves.values()]
            live[i] += sum(int(t.column("__n").to_numpy().sum()) for t in moves)
            ever[i] += sum(int(np.abs(hot.counted_once(i, t).column("__n").to_numpy()).sum()) for t in sets.arrived)
            found.append({
                "changes": sum(t.num_rows for t in moves), "set_changes": set_changes(sets),
                "arrived": ever[i], "rows": live[i],
                "probes": met[i].probes, "met": met[i].met, "late_met": met[i].late_met,
                "early_met": round(met[i].early_met), **stored_statistics(sets, shelf),
            })
        return found

    def _times(self) -> np.ndarray:
        """The different times of all closed changes, sorted."""
        from tidemill.runtime.operators.join_values import number

        found = [t.column("__time").to_numpy() for s in self.inputs for t in s.moves.values()]
        times = np.concatenate(found).astype(np.int64)
        _, first = number(times)
        return np.sort(times[first])
