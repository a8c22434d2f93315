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
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from tidemill.plan import physical as p
from tidemill.plan.measured.joins import JoinCounts, JoinInputCounts
from tidemill.plan.relations import STATIC_TIME
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.joins.aggregation_sets import AggregationSets
from tidemill.runtime.joins.hot_keys import HotKeys
from tidemill.runtime.joins.routes import JoinGraph
from tidemill.runtime.state.shard_state import ShardState

if TYPE_CHECKING:
    from tidemill.runtime.joins.delta_join import ProbeTally
    from tidemill.runtime.joins.partials import OnRowError, Partials


class JoinAggregate(Operator[p.JoinAggregate]):
    """Inputs: for each joined relation its changes, in early or late form, with the join key's shard."""

    def __init__(self, op: p.JoinAggregate, first: bool = True) -> None:
        super().__init__(op, first)
        self.graph = JoinGraph(op.on)
        self.nested = op.method == "nested loop"
        specs = op.joined
        self.routes = [self.graph.route(k, spec.order, self.nested) for k, spec in enumerate(specs)]
        used: list[list[tuple[str, ...]]] = [[] for _ in specs]
        for route in self.routes:
            for step in route:
                used[step.input].append(step.own)
        self.inputs = [
            AggregationSets(self.id, i, spec, self.graph.attributes(i), self.graph.equal(i), used[i])
            for i, spec in enumerate(specs)
        ]

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        inputs, sent = inputs[: len(self.inputs)], inputs[len(self.inputs) :]
        frontier = min(b.frontier for b in inputs)
        on_row_error = self.on_row_error and partial(self.on_row_error, self.op)
        for sets in self.inputs:
            sets.prepare(state)
        hot = HotKeys(self.op.hot, self.shard, self.inputs)
        inputs, leaving = hot.begin(inputs, state, state.value(self.id))
        for sets, batch, copies in zip(self.inputs, inputs, hot.take_copies(sent), strict=True):
            sets.close(batch, frontier, state, on_row_error, copies)
        times = self._collect_times()
        found, tallies = self._join(state, times, hot, on_row_error)
        for sets in self.inputs:
            sets.store(state)
        rows, picks = found.result(), found.value_counts()
        dated = times[times > STATIC_TIME]
        self.note = JoinCounts(
            inputs=self._measure_inputs(tallies, state, hot),
            pairs=found.pairs,
            frontier=int(frontier),
            times=(int(dated[0]), int(dated[-1])) if len(dated) else None,
            groups=rows.num_rows if rows else 0,
            hot=hot.report(found.pairs),
        )
        return Batch(rows, frontier, picks | leaving)

    def _join(
        self, state: ShardState, times: np.ndarray, hot: HotKeys, on_row_error: OnRowError | None
    ) -> tuple[Partials, list[ProbeTally]]:
        """Join and aggregate the changes. Where possible, value counts are computed without making the pairs."""
        # Imported on first use: plans without such a join never need numba here, and loading it costs a second.
        from tidemill.runtime.joins.partials import Partials
        from tidemill.runtime.joins.value_presence import ValuePresence

        found = Partials(self.op, self.inputs, self.graph, on_row_error)
        # Told values need sums of pairs: what is evaluated row by row may put rows aside.
        tells = len(times) and fast_paths.is_on("value_presence") and fast_paths.is_on("pair_sums")
        presence = ValuePresence.of(found, self.inputs, self.graph, self.routes) if tells else None
        if presence is not None:
            try:
                known = presence.count_values(state, times)
                fewer = Partials(self.op, self.inputs, self.graph, on_row_error, known)
                return fewer, self._join_changes(fewer, state, times, hot, presence.columns)
            except (duckdb.Error, OverflowError):
                hot.samples.clear()
        return found, self._join_changes(found, state, times, hot, frozenset())

    def _join_changes(
        self, found: Partials, state: ShardState, times: np.ndarray, hot: HotKeys, unread: frozenset[str]
    ) -> list[ProbeTally]:
        """Join the changes of each input with the others; `found` aggregates the matches."""
        from tidemill.runtime.dataflow.value_codes import JoinValues
        from tidemill.runtime.joins.delta_join import DeltaJoin, ProbeTally

        tallies = [ProbeTally() for _ in self.inputs]
        values = [JoinValues() for _ in self.graph.classes]
        for k, sets in enumerate(self.inputs):
            if sets.changes:
                join = DeltaJoin(k, self.inputs, self.routes[k], values, times, self.nested, tallies, unread)
                for matches in join.find_matches(state):
                    found.add(join, matches)
                    hot.sample_pairs(join, matches)
        return tallies

    def _measure_inputs(
        self, tallies: list[ProbeTally], state: ShardState, hot: HotKeys
    ) -> tuple[JoinInputCounts, ...]:
        """Statistics of each input: its changes, its stored rows, and the matches of probes into it."""
        from tidemill.runtime.joins.set_statistics import set_changes, stored_statistics

        live, ever = (state.value(self.id).setdefault(name, [0] * len(self.inputs)) for name in ("rows", "arrived"))
        found = []
        for i, sets in enumerate(self.inputs):
            moves = [hot.drop_copies(i, t) for t in sets.moves.values()]
            live[i] += sum(int(t.column("__n").to_numpy().sum()) for t in moves)
            ever[i] += sum(int(np.abs(hot.drop_copies(i, t).column("__n").to_numpy()).sum()) for t in sets.arrived)
            found.append(
                JoinInputCounts(
                    **vars(stored_statistics(sets, state)),
                    changes=sum(t.num_rows for t in moves),
                    set_changes=set_changes(sets),
                    arrived=ever[i],
                    rows=live[i],
                    probes=tallies[i].probes,
                    met=tallies[i].matches,
                    late_met=tallies[i].late_matches,
                    early_met=round(tallies[i].early_matches),
                )
            )
        return tuple(found)

    def _collect_times(self) -> np.ndarray:
        """The different times of all closed changes, sorted."""
        from tidemill.runtime.dataflow.value_codes import number

        found = [t.column("__time").to_numpy() for s in self.inputs for t in s.moves.values()]
        times = np.concatenate(found).astype(np.int64)
        _, first = number(times)
        return np.sort(times[first])
