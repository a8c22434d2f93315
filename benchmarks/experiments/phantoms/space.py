"""Space allocation by the cost model: figures 15 and 23, tables 3 to 5 of paper 002."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.experiments.checks import Explained, at_most
from benchmarks.experiments.figures import Figure, Line, Panel
from benchmarks.experiments.phantoms.data import GROUPS
from benchmarks.experiments.phantoms.setting import MINUTE_TRACE, PAIRS, SINGLES, Part, Setting, groups_of, joined
from benchmarks.experiments.phantoms.tables import measured_flows
from benchmarks.report import Check, Table
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation, relations
from tidemill.optimize.share.phantoms.enumeration import all_configurations
from tidemill.optimize.share.phantoms.epochs import Epochs
from tidemill.optimize.share.phantoms.exhaustive import exhaustive_allocation
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.space import pl, pr, sl, sr
from tidemill.optimize.share.phantoms.statistics import Statistics

SCHEMES = {"SL": sl, "SR": sr, "PL": pl, "PR": pr}
SHOWN = ("ABCD(AB BCD(BC BD CD))", "ABCD(AB(A B) CD(C D))", "ABCD(ABC(AB(A B) C) D)", "ABC(AC(A C) B)")
SHOWN_EPOCHS = (("ABC(AC(A C) B)", (2, 3, 5)), ("ABCD(AB BCD(BC BD CD))", (2, 3, 5, 6)))
TRIPLE = relations("A B C")
EPOCHS = (
    *((TRIPLE, lengths) for lengths in ((2, 3, 5), (3, 4, 5), (1, 5, 9))),
    *((PAIRS, lengths) for lengths in ((2, 3, 5, 6), (2, 3, 5, 7), (3, 5, 7, 9))),
)
Costs = dict[str, float]


def space(setting: Setting, done: Callable[[str], None]) -> Part:
    """Sections 8.3 and 8.6.1."""
    flows = {memory: _flows(setting, memory) for memory in setting.memories}
    tractable_part = tractable(setting, flows)
    done("tractable configurations")
    same = same_epochs(setting, flows)
    done("space, same epochs")
    different = different_epochs(setting, flows, done)
    return joined(tractable_part, same, different)


def _flows(setting: Setting, memory: int) -> tuple[float, ...]:
    """Flow lengths by depth as the trace has them at this memory."""
    forest = Configuration.parse(SHOWN[0])
    buckets = sl(forest, Model(Statistics(groups_of, (40.0, 4.0, 1.5))), memory)
    return measured_flows(forest, buckets, GROUPS, setting.trace.before)[1]


def _relative(forest: Configuration, model: Model, memory: int, steps: int) -> Costs:
    """The cost with each scheme over the cost with exhaustive allocation."""
    best = model.cost(forest, exhaustive_allocation(steps)(forest, model, memory))
    return {name: model.cost(forest, scheme(forest, model, memory)) / best for name, scheme in SCHEMES.items()}


def is_tractable(forest: Configuration) -> bool:
    """No phantom, or one phantom over all queries."""
    return not forest.phantoms or (len(forest.phantoms) == 1 and len(forest.raw) == 1 and max(forest.depths) == 2)


def tractable(setting: Setting, flows: dict[int, tuple[float, ...]]) -> Part:
    """Section 8.3.1: where a closed form exists."""
    found: dict[str, list[float]] = {"no phantom": [], "one phantom over all queries": []}
    for memory in setting.memories:
        model = Model(Statistics(groups_of, flows[memory]))
        for asked in (SINGLES, PAIRS, TRIPLE):
            for forest in filter(is_tractable, all_configurations(asked)):
                kind = "one phantom over all queries" if forest.phantoms else "no phantom"
                found[kind].append(_relative(forest, model, memory, setting.steps)["SL"])
    rows = [(kind, float(np.mean(values)), max(values)) for kind, values in found.items()]
    table = Table(
        "Section 8.3.1: closed form over exhaustive allocation, tractable configurations",
        ["configuration", "average", "greatest"],
        [list(row) for row in rows],
        "The paper: less than 1 % without phantom; usually less than 1 % with one, at most 2 %.",
    )
    worst = [greatest for _, _, greatest in rows]
    return Part([], [table], [at_most("closed forms, cost over exhaustive allocation", worst, 1.02)])


def same_epochs(setting: Setting, flows: dict[int, tuple[float, ...]]) -> Part:
    """Figure 15, tables 3 and 4, and table 3 once more for data without flows, and with flows in raw relations only."""
    every = [f for asked in (SINGLES, PAIRS, TRIPLE) for f in all_configurations(asked) if not is_tractable(f)]
    clustered = _all_costs(setting, every, flows)
    scattered = _all_costs(setting, every, dict.fromkeys(setting.memories, (1.0,)))
    topped = _all_costs(setting, every, dict.fromkeys(setting.memories, (40.0, 1.0)))
    averages, plain, raw_only = (
        {m: _averages(by.values()) for m, by in costs.items()} for costs in (clustered, scattered, topped)
    )
    panels = [
        Panel(text, "M (thousands)", "cost over ES", _lines(setting.memories, (by[text] for by in clustered.values())))
        for text in SHOWN
    ]
    figure = Figure(
        "phantoms_15",
        "Figure 15: space allocation schemes, representative configurations",
        "SL and SR are better than PL and PR, which reach 1.3 times the optimum; SL is mostly the best.",
        f"On average over all M {_spoken(averages, clustered)} SL is the best on average; but SR is not better than"
        " PL and PR, and all four are closer together than in the paper. With flows as long as ours the raw relation"
        " hardly collides, and little of the cost depends on the division at all. With l_a = 1 the paper's"
        f" differences are there: {_spoken(plain, scattered)} The ranking depends on the data: with flows of 40 in"
        f" raw relations and none below, {_spoken(raw_only, topped)}",
        panels,
    )
    title = f"average relative cost over all {len(every)} intractable configurations"
    tables = [
        _average_table(
            f"Table 3: {title}",
            averages,
            "The paper: SL 1.024 falling to 1.001, SR 1.021 to 1.011, PL 1.083 to 1.092, PR 1.080 to 1.125.",
        ),
        _average_table(f"Table 3 for data without flows (l_a = 1): {title}", plain, ""),
        _average_table(f"Table 3 for flows of 40 in raw relations, none below: {title}", raw_only, ""),
        _table_4(setting, clustered),
    ]
    beyond = _beyond_the_line(setting, every, scattered, plain)
    return Part([figure], tables, _checks("", averages) + _checks(", l_a = 1", plain, beyond))


def _beyond_the_line(
    setting: Setting, forests: list[Configuration], costs: dict[int, dict[str, Costs]], averages: dict[int, Costs]
) -> str:
    """How SL does with l_a = 1 where the straight line holds (rates below 0.4), and where it does not."""
    memory = max(averages, key=lambda m: averages[m]["SL"])
    model = Model(Statistics(groups_of))
    inside, outside = list[float](), list[float]()
    for forest in forests:
        rates = model.rates(forest, exhaustive_allocation(setting.steps)(forest, model, memory))
        (inside if max(rates) < 0.4 else outside).append(costs[memory][str(forest)]["SL"])
    held = f"{np.mean(inside):.3f} over the {len(inside)}" if inside else "nothing to say over the 0"
    others = {m: a["SL"] for m, a in averages.items() if m != memory}
    return (
        "Not the paper's data: its table 3 is for the clustered trace, where the target is met. SL is derived from the"
        f" straight line of section 5.4, for rates below 0.4. At M = {memory:,} SL costs {held} configurations whose"
        f" best allocation keeps all rates below 0.4, and {np.mean(outside or [1.0]):.3f} over the {len(outside)}"
        f" others; at larger M it is at most {max(others.values(), default=1.0):.3f} over all. Refined sizes, which the"
        " engine uses, start from SL and follow the true curve."
    )


def _all_costs(
    setting: Setting, forests: list[Configuration], flows: dict[int, tuple[float, ...]]
) -> dict[int, dict[str, Costs]]:
    """Relative costs of every configuration, for each M."""
    found = {}
    for memory in setting.memories:
        model = Model(Statistics(groups_of, flows[memory]))
        found[memory] = {str(forest): _relative(forest, model, memory, setting.steps) for forest in forests}
    return found


def _average_table(title: str, averages: dict[int, Costs], note: str) -> Table:
    rows = [[name, *(by[name] for by in averages.values())] for name in SCHEMES]
    return Table(title, ["M", *(f"{m:,}" for m in averages)], rows, note)


def _table_4(setting: Setting, costs: dict[int, dict[str, Costs]]) -> Table:
    shares, gaps = [], []
    for memory in setting.memories:
        behind = [c["SL"] / min(c.values()) - 1 for c in costs[memory].values()]
        late = [b for b in behind if b > 1e-9]
        shares.append(100 * (1 - len(late) / len(behind)))
        gaps.append(100 * float(np.mean(late)) if late else 0.0)
    return Table(
        "Table 4: SL against the best of the four schemes",
        ["M", *(f"{m:,}" for m in setting.memories)],
        [["SL being best (%)", *shares], ["difference from the best where it is not (%)", *gaps]],
        "The paper: best in 31, 65, 89, 92, 100 % of the configurations; difference 0.034, 0.014, 0.005, 0, 0 %.",
    )


def different_epochs(setting: Setting, flows: dict[int, tuple[float, ...]], done: Callable[[str], None]) -> Part:
    """Figure 23 and table 5: the same with hash table evictions in the cost (29)."""
    chosen = EPOCHS[::3] if setting.quick else EPOCHS
    averages: dict[int, Costs] = {}
    shown: dict[str, list[Costs]] = {text: [] for text, _ in SHOWN_EPOCHS}
    for memory in setting.memories:
        costs: list[Costs] = []
        for asked, lengths in chosen:
            model = _epoch_model(asked, lengths, flows[memory])
            for forest in all_configurations(asked):
                if forest.phantoms:
                    costs.append(_relative(forest, model, memory, setting.steps))
                if (str(forest), lengths) in SHOWN_EPOCHS:
                    shown[str(forest)].append(costs[-1])
        averages[memory] = _averages(costs)
        done(f"space, different epochs, M = {memory:,}")
    panels = [
        Panel(f"{text}, epochs {lengths}", "M (thousands)", "cost over ES", _lines(setting.memories, shown[text]))
        for text, lengths in SHOWN_EPOCHS
    ]
    figure = Figure(
        "phantoms_23",
        "Figure 23: space allocation schemes, different epochs",
        "In most cases SL is the best; where it is not, it is close.",
        "Averages over all configurations are in table 5.",
        panels,
    )
    table = _average_table(
        "Table 5: average relative cost, different epochs",
        averages,
        "The paper: SL 1.038 falling to 1.001, SR 1.02 to 1.03, PL 1.09 to 1.11, PR 1.09 to 1.13.",
    )
    return Part([figure], [table], _checks(", different epochs", averages))


def _epoch_model(asked: tuple[Relation, ...], lengths: tuple[int, ...], flows: tuple[float, ...]) -> Model:
    epochs = Epochs(dict(zip(asked, lengths, strict=True)))
    return Model(Statistics(groups_of, flows, MINUTE_TRACE * epochs.cycle), evictions=epochs)


def _averages(costs: Iterable[Costs]) -> Costs:
    listed = list(costs)
    return {name: float(np.mean([c[name] for c in listed])) for name in SCHEMES}


def _lines(memories: list[int], costs: Iterable[Costs]) -> list[Line]:
    listed = list(costs)
    return [(name, [m / 1000 for m in memories], [c[name] for c in listed]) for name in SCHEMES]


def _spoken(averages: dict[int, Costs], costs: dict[int, dict[str, Costs]]) -> str:
    worst = {name: max(c[name] for by in costs.values() for c in by.values()) for name in SCHEMES}
    mean = {name: float(np.mean([a[name] for a in averages.values()])) for name in SCHEMES}
    return ", ".join(f"{n} {mean[n]:.3f} (at most {worst[n]:.2f})" for n in SCHEMES) + "."


def _checks(what: str, averages: dict[int, Costs], why: str = "") -> list[Check]:
    highest = max(a["SL"] for a in averages.values())
    mean = {name: float(np.mean([a[name] for a in averages.values()])) for name in SCHEMES}
    margin = min(mean["PL"], mean["PR"]) - mean["SL"]
    return [
        Explained(
            f"SL over exhaustive allocation{what}, average at each M", "<= 1.04", f"{highest:.3f}", highest <= 1.04, why
        ),
        Check(f"SL better than PL and PR on average{what}", "> 0", f"{margin:.3f}", margin > 0),
    ]
