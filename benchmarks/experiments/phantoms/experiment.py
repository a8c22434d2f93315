"""The experiments of paper 002: collision rates, space allocation, phantom choosing, real collisions.

Data, models and sizes are in `phantoms_setting`; parts in `phantoms_collisions`, `_line`, `_costs`, `_space`,
`_choice`, `_real`, `_problems`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.experiments import figures
from benchmarks.experiments.phantoms.choice import choice
from benchmarks.experiments.phantoms.collisions import collisions
from benchmarks.experiments.phantoms.costs import costs
from benchmarks.experiments.phantoms.line import straight_line
from benchmarks.experiments.phantoms.problems import problems
from benchmarks.experiments.phantoms.real import real
from benchmarks.experiments.phantoms.setting import Setting, joined
from benchmarks.experiments.phantoms.space import space
from benchmarks.report import Result

SETUP = (
    "GCSL is the paper's algorithm: GC's phantoms with SL's table sizes. The engine runs what is called GCSL refined"
    " (`choose_configuration`): GC's configuration, or no phantom where that is cheaper, with sizes that start from"
    " SL's and even out what the last bucket is worth. Queries A, B, C, D run on 1,000,000 uniform tuples, queries AB,"
    " BC, BD, CD on a generated packet trace of"
    " 860,000 packets in 62 seconds and 8,000 flows, in place of AT&T's. Both have exactly the paper's numbers of"
    " groups in every projection: 552, 1,846, 2,117 and 2,837 in one to four attributes. No set of groups with these"
    " numbers is uniform in its projections too, as the paper's random data is (section 5.2), so where it matters"
    " there is *even* uniform data as well: 2,837 groups, 552 values of each attribute, every projection as uniform as"
    " can be, and therefore about 2,830 groups in pairs and triples. c2/c1 is 15, a bucket takes"
    " 4 bytes for each attribute and the counter, M is in units of 4 bytes. Exhaustive allocation (ES) divides M in"
    " steps of 1 % and is an exact minimum (see `exhaustive.py`); EPES tries it with every configuration. Group"
    " counts and flow lengths come from one window of data, real collisions from another one, run through the"
    " engine's own hash tables. With different epochs a cycle is 30 minutes at the rate of the data, and costs are"
    " by equation 29. Costs are per tuple, in units of c1."
)


def run(quick: bool, steps: Any) -> Result:
    """Everything; about a minute on two cores."""
    setting = Setting(quick)
    memories = len(setting.memories)
    steps.expect(4 + 2 + 2 + memories + 2 * (memories + 1) + 2 * (setting.draws + setting.few + 1) + 1 + 1)
    parts = (collisions, straight_line, costs, space, choice, real, problems)
    everything = joined(*(part(setting, steps.done) for part in parts))
    return Result(
        title="Phantoms (paper 002)",
        setup=SETUP,
        tables=everything.tables,
        checks=everything.checks,
        series={"figures": [f.to_dict() for f in sorted(everything.figures, key=lambda f: f.file)]},
    )


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """The figures as SVG files."""
    return figures.draw(series["figures"], folder)
