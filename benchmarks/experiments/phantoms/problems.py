"""Beyond the paper: how far GCSL and refined table sizes are from the optimum on random problems, by the model."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

import numpy as np

from benchmarks.experiments.checks import at_most
from benchmarks.experiments.phantoms.setting import Part, Setting, gcsl_refined
from benchmarks.report import Table
from tidemill.optimize.share.phantoms.choose import epes, gc
from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.statistics import Statistics

SETS = [Relation(frozenset(s)) for size in (1, 2, 3) for s in combinations("ABCD", size)]
STEPS = 60
NOTE = (
    "3 to 5 queries over four attributes with 20 to 2,000 values, up to 100,000 groups, flow lengths 1 to 40, M of"
    " 5,000 to 200,000, c2/c1 of 5 to 50; half of them with as many hash table evictions for a million tuples as"
    f" there are queries below. EPES divides M in {STEPS} steps, so it can be beaten slightly."
)


def problems(setting: Setting, done: Callable[[str], None]) -> Part:
    """Average, 90th percentile and maximum of the cost over EPES."""
    chance = random.Random(1)
    found: dict[str, list[float]] = {"GCSL": [], "GCSL refined": []}
    for _ in range(10 if setting.quick else 120):
        asked, model, memory = _problem(chance)
        best = epes(asked, model, memory, STEPS).cost
        found["GCSL"].append(gc(asked, model, memory).cost / best)
        found["GCSL refined"].append(gcsl_refined(asked, model, memory).cost / best)
    done("random problems")
    rows = [[n, float(np.mean(v)), float(np.percentile(v, 90)), max(v)] for n, v in found.items()]
    title = f"Cost over EPES by the model, {len(found['GCSL'])} random problems"
    table = Table(title, ["algorithm", "average", "90 %", "greatest"], rows, NOTE)
    means = [float(np.mean(found["GCSL refined"]))]
    what = "GCSL with refined sizes, as in the engine, over EPES, random problems, average"
    return Part([], [table], [at_most(what, means, 1.05)])


def _problem(chance: random.Random) -> tuple[tuple[Relation, ...], Model, int]:
    asked = tuple(chance.sample(SETS, chance.choice((3, 4, 5))))
    values = {letter: chance.choice((20, 100, 500, 2000)) for letter in "ABCD"}
    cap = chance.choice((2_000, 10_000, 100_000))

    def groups(relation: Relation) -> float:
        product = 1.0
        for letter in relation.attributes:
            product *= values[letter]
        return product * cap / (product + cap)

    flows = chance.choice(((1.0,), (1.0, 2.0), (5.0, 2.0, 1.0), (40.0, 4.0, 1.5)))
    memory = chance.choice((5_000, 20_000, 60_000, 200_000))
    evictions = chance.choice((None, lambda below: float(len(below))))
    constants = Constants(1.0, chance.choice((5.0, 15.0, 50.0)))
    return asked, Model(Statistics(groups, flows, 1e6), constants, evictions, only_occupied=True), memory
