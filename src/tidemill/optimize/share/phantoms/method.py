"""The choice that the engine asks for: who chooses the phantoms, who divides the memory, what an epoch's end may cost.

By default GC with SL chooses, and the sizes are refined. Every other method of paper 002 can be asked for in its place,
so that a running system can show what each of them earns; no answer depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from tidemill.optimize.share.phantoms.choose import Chosen, epes, gc, gp
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants, Evictions
from tidemill.optimize.share.phantoms.exhaustive import exhaustive
from tidemill.optimize.share.phantoms.model import Model, Sizes, bucket_size
from tidemill.optimize.share.phantoms.peak import within_peak
from tidemill.optimize.share.phantoms.refinement import refined
from tidemill.optimize.share.phantoms.share_model import ShareModel, Shares
from tidemill.optimize.share.phantoms.space import Allocate, pl, pr, sl, sr
from tidemill.optimize.share.phantoms.statistics import Statistics

Chooser = Literal["gc", "gp", "epes"]
Allocation = Literal["refined", "sl", "sr", "pl", "pr", "es"]
PHI = 1.0  # buckets for each group while GP chooses: in the middle of the ratios of figure 15
_STEPS = 100  # ES divides the memory into steps of 1 %
_ENUMERATED = 5  # queries up to which every configuration is tried: 472 of them, a fifth of a second
_SCHEMES: Mapping[str, Allocate] = {"refined": refined(), "sl": sl, "sr": sr, "pl": pl, "pr": pr}


@dataclass(frozen=True)
class Method:
    """`peak` is E_p of section 8.5.2, the most that the end of an epoch may cost, in the units of c1 and c2."""

    chooser: Chooser = "gc"
    allocation: Allocation = "refined"
    peak: float | None = None

    def divided(self, configuration: Configuration, model: Model, memory: int) -> list[int]:
        """Buckets of each relation. ES where its steps can give each of them one, refined sizes elsewhere."""
        if self.allocation != "es":
            return _SCHEMES[self.allocation](configuration, model, memory)
        try:
            return exhaustive(_STEPS)(configuration, model, memory)
        except ValueError:
            return refined()(configuration, model, memory)

    def options(self, queries: list[Relation], model: Model, memory: int, phantoms: bool) -> dict[str, Chosen]:
        """What is compared, by name; EPES gives way to GC where not everything can be tried."""
        plain = Configuration.unshared(queries)
        alone = {"no phantoms": Chosen.of(plain, self.divided(plain, model, memory), model)}
        if not phantoms:
            return alone
        if self.chooser == "gp":
            found = self._again(gp(queries, model, memory, PHI), model, memory)
            return ({} if not model.refuses(found.configuration, found.table_sizes) else alone) | {"GP": found}
        if self.chooser == "epes" and len(queries) <= _ENUMERATED:
            with suppress(ValueError):  # too little memory to give every table of every configuration a step
                return {"EPES": epes(queries, model, memory, _STEPS)}
        if self.allocation != "refined":
            return alone | {f"GC{self.allocation.upper()}": gc(queries, model, memory, self.divided)}
        greedy = gc(queries, model, memory)
        return alone | {"GCSL": greedy, "GCSL refined": self._again(greedy, model, memory)}

    def best(self, options: Iterable[Chosen], model: Model) -> Chosen:
        """The cheapest that keeps the peak load; the one nearest to it where none does."""
        found = [self.flattened(c, model) for c in options]
        fine = [c for c in found if not model.refuses(c.configuration, c.table_sizes)] or found
        if self.peak is None:
            return min(fine, key=lambda c: c.cost)
        peaks = [(c, model.end_cost(c.configuration, c.table_sizes)) for c in fine]
        kept = [c for c, peak in peaks if peak <= self.peak]
        return min(kept, key=lambda c: c.cost) if kept else min(peaks, key=lambda p: p[1])[0]

    def _again(self, chosen: Chosen, model: Model, memory: int) -> Chosen:
        """The same configuration, its memory divided by this method."""
        return Chosen.of(
            chosen.configuration, self.divided(chosen.configuration, model, memory), model, chosen.steps)

    def flattened(self, chosen: Chosen, model: Model) -> Chosen:
        """Tables so small that the end of an epoch costs no more than it may: the cheaper of shrink and shift."""
        if self.peak is None:
            return chosen
        sizes = within_peak(chosen.configuration, chosen.table_sizes, model, self.peak)
        return Chosen.of(chosen.configuration, sizes, model, chosen.steps)


def choose_configuration(
    queries: Iterable[Relation],
    statistics: Statistics,
    memory: int,
    constants: Constants = Constants(),  # noqa: B008  frozen
    *,
    evictions: Evictions | None = None,
    sizes: Sizes | None = None,
    forbid_phantoms: bool = False,
    method: Method = Method(),  # noqa: B008  frozen
    shares: Shares | None = None,
) -> Chosen:
    """The configuration for an engine's reader: by default what GC with SL finds, or no phantom, with refined sizes.

    `memory` is in the units of `sizes` (default: one for each attribute and one counter). `evictions` gives the hash
    table evictions of a relation in the time of `statistics.tuples`, from the queries at or below it; a hash table
    eviction evicts the buckets in use. With `shares` costs are those of one reader's share of a micro-batch instead
    (`ShareModel`). `alternatives` has the costs of what was compared.
    """
    model = model_of(statistics, constants, evictions, sizes or bucket_size, shares)
    options = method.options(list(queries), model, memory, not forbid_phantoms)
    best = method.best(options.values(), model)
    return replace(best, alternatives={name: chosen.cost for name, chosen in options.items()})


def model_of(statistics: Statistics, constants: Constants, evictions: Evictions | None, sizes: Sizes,
             shares: Shares | None) -> Model:
    """The paper's costs, or those of a share where one is known."""
    if shares is None:
        return Model(statistics, constants, evictions, sizes, only_occupied=True)
    return ShareModel(statistics, constants, None, sizes, only_occupied=True, known=shares)
