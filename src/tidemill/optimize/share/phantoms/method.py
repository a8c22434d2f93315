"""The engine's choice of a configuration: which algorithm chooses the phantoms, which one divides the memory, and how
much the end of an epoch may cost.

The default is GC with SL, with refined table sizes. Every other method of paper 002 can be set in its place, so that a
running system can show what each of them saves; no answer depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from tidemill.optimize.share.phantoms.choose import Choice, detach_queries, epes, gc, gp
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants, Evictions
from tidemill.optimize.share.phantoms.exhaustive import exhaustive_allocation
from tidemill.optimize.share.phantoms.feeding import FeedingGraph
from tidemill.optimize.share.phantoms.model import Model, Sizes, bucket_size
from tidemill.optimize.share.phantoms.peak import fit_peak
from tidemill.optimize.share.phantoms.refinement import refined_allocation
from tidemill.optimize.share.phantoms.share_model import ShareModel, Shares
from tidemill.optimize.share.phantoms.space import Allocate, pl, pr, sl, sr
from tidemill.optimize.share.phantoms.statistics import Statistics

Chooser = Literal["gc", "gp", "epes"]
Allocation = Literal["refined", "sl", "sr", "pl", "pr", "es"]
PHI = 1.0  # buckets for each group while GP chooses: in the middle of the ratios of figure 15
_STEPS = 100  # ES divides the memory into steps of 1 %
_ENUMERATED = 5  # most queries for EPES: they have 472 configurations, which take a fifth of a second
_DETACHED = 6  # most queries of which some are tried apart from their feeders: it takes some 20 ms
_REFINED = 3  # configurations found so whose table sizes are refined
_SCHEMES: Mapping[str, Allocate] = {"refined": refined_allocation(), "sl": sl, "sr": sr, "pl": pl, "pr": pr}


@dataclass(frozen=True)
class Method:
    """`peak` is E_p of section 8.5.2, the most that the end of an epoch may cost, in the units of c1 and c2."""

    chooser: Chooser = "gc"
    allocation: Allocation = "refined"
    peak: float | None = None

    def divide(self, configuration: Configuration, model: Model, memory: int) -> list[int]:
        """Buckets of each relation. ES gives way to refined sizes if its steps are too few to give each a bucket."""
        if self.allocation != "es":
            return _SCHEMES[self.allocation](configuration, model, memory)
        try:
            return exhaustive_allocation(_STEPS)(configuration, model, memory)
        except ValueError:
            return refined_allocation()(configuration, model, memory)

    def candidates(self, queries: list[Relation], model: Model, memory: int, phantoms: bool) -> dict[str, Choice]:
        """The choices to compare, by name. EPES gives way to GC if there are too many configurations."""
        plain = Configuration.without_phantoms(queries)
        alone = {"no phantoms": Choice.of(plain, self.divide(plain, model, memory), model)}
        if not phantoms:
            return alone
        if self.chooser == "gp":
            found = self._divide_again(gp(queries, model, memory, PHI), model, memory)
            return ({} if not model.refuses(found.configuration, found.table_sizes) else alone) | {"GP": found}
        if self.chooser == "epes" and len(queries) <= _ENUMERATED:
            with suppress(ValueError):  # too little memory to give every table of every configuration a step
                return {"EPES": epes(queries, model, memory, _STEPS)}
        if self.allocation != "refined":
            return alone | {f"GC{self.allocation.upper()}": gc(queries, model, memory, self.divide)}
        greedy = gc(queries, model, memory)
        options = alone | {"GCSL": greedy, "GCSL refined": self._divide_again(greedy, model, memory)}
        if _want_different_rows(queries, model):
            options["GCSL detached"] = self._detach(queries, greedy, model, memory)
        return options

    def _detach(self, queries: list[Relation], greedy: Choice, model: Model, memory: int) -> Choice:
        """What GC finds when it begins with each candidate, and with queries that it feeds apart where that is cheaper.

        A feeder of queries that want few rows tells these rows apart: GC, which feeds every query that it can, takes
        no such feeder, although the others would be cheaper with it.
        """
        starts = [greedy, *(gc(queries, model, memory, begin=[c]) for c in FeedingGraph.of(queries).candidates)]
        tried = dict.fromkeys(detach_queries(c.configuration, model, memory) for c in starts)
        cheapest = sorted(tried, key=lambda c: model.cost(c, sl(c, model, memory)))[:_REFINED]
        choices = [Choice.of(c, self.divide(c, model, memory), model, greedy.steps) for c in cheapest]
        return min(choices, key=lambda c: (model.refuses(c.configuration, c.table_sizes), c.cost))

    def choose(self, options: Iterable[Choice], model: Model) -> Choice:
        """The cheapest choice within the peak load; if none is, the one with the least peak."""
        found = [self.limit_peak(c, model) for c in options]
        fine = [c for c in found if not model.refuses(c.configuration, c.table_sizes)] or found
        if self.peak is None:
            return min(fine, key=lambda c: c.cost)
        peaks = [(c, model.end_cost(c.configuration, c.table_sizes)) for c in fine]
        kept = [c for c, peak in peaks if peak <= self.peak]
        return min(kept, key=lambda c: c.cost) if kept else min(peaks, key=lambda p: p[1])[0]

    def _divide_again(self, chosen: Choice, model: Model, memory: int) -> Choice:
        """The same configuration, with its memory divided by this method."""
        return Choice.of(chosen.configuration, self.divide(chosen.configuration, model, memory), model, chosen.steps)

    def limit_peak(self, chosen: Choice, model: Model) -> Choice:
        """Smaller tables, so that the end of an epoch stays within the peak load: the cheaper of shrink and shift."""
        if self.peak is None:
            return chosen
        sizes = fit_peak(chosen.configuration, chosen.table_sizes, model, self.peak)
        return Choice.of(chosen.configuration, sizes, model, chosen.steps)


def _want_different_rows(queries: list[Relation], model: Model) -> bool:
    """True for a few queries of a share that want different shares of its rows."""
    if not isinstance(model, ShareModel) or len(queries) > _DETACHED:
        return False
    return len({model.known.wanted_share(q.alone) for q in queries}) > 1


_PLAIN_COSTS, _DEFAULT_METHOD = Constants(), Method()


def choose_configuration(
    queries: Iterable[Relation],
    statistics: Statistics,
    memory: int,
    constants: Constants = _PLAIN_COSTS,
    *,
    evictions: Evictions | None = None,
    sizes: Sizes | None = None,
    forbid_phantoms: bool = False,
    method: Method = _DEFAULT_METHOD,
    shares: Shares | None = None,
) -> Choice:
    """The configuration for a reader: by default the cheapest of no phantoms and what GC with SL finds, refined.

    `memory` is in the units of `sizes` (default: one for each attribute and one for the counter). `evictions` gives the
    hash table evictions of a relation while `statistics.tuples` arrive, from the queries at or below it; a hash table
    eviction evicts the buckets in use. With `shares`, costs are those of one reader's share of a micro-batch instead
    (`ShareModel`). The result's `alternatives` are the costs of all choices that were compared.
    """
    model = model_of(statistics, constants, evictions, sizes or bucket_size, shares)
    options = method.candidates(list(queries), model, memory, not forbid_phantoms)
    best = method.choose(options.values(), model)
    return replace(best, alternatives={name: chosen.cost for name, chosen in options.items()})


def model_of(
    statistics: Statistics, constants: Constants, evictions: Evictions | None, sizes: Sizes, shares: Shares | None
) -> Model:
    """The paper's cost model, or that of a share if its statistics are given."""
    if shares is None:
        return Model(statistics, constants, evictions, sizes, only_occupied=True)
    return ShareModel(statistics, constants, None, sizes, only_occupied=True, known=shares)
