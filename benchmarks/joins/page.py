"""The comparison of joins as tables and promises."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks import flink
from benchmarks.joins import set_state, window_cost
from benchmarks.joins.figures import AUCTIONS, DENSE, SPARSE, Figures
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS
from benchmarks.report import Check, Result, Table
from benchmarks.sides import IN_AN_ENGINE_THAT_IS_UP, WHOLE

TARGETS = {SPARSE: {"Spark": 20.0, "Flink": 10.0}, DENSE: {"Spark": 100.0, "Flink": 100.0}}
EARLY_TARGET, WINDOW_TARGET, STATE_TARGET = 10.0, 1.2, 1.2
PEERS = ("Spark", "Flink")
ABSENT, NONE = "not installed", "–"


def page(found: Figures) -> Result:
    """Everything that was measured."""
    result = Result("Aggregation joins against Spark, Flink and DuckDB", _setup(found))
    result.tables += [_inputs(found), _rates(found, False), _rates(found, True), _by_hand(found)]
    result.tables += [_plans(found)] if found.plans else []
    result.tables += [_windows(found), _state(found), _ways(found), _every(found), _tried(found)]
    result.checks = [*_rate_checks(found), *_plan_checks(found), *_window_checks(found), *_state_checks(found)]
    result.series = _series(found)
    return result


def _setup(found: Figures) -> str:
    compared = ", ".join(f"{rows:,} rows of {case}" for case, rows in found.compared.items())
    return (
        f"*J1*: {WORKS['J1'].title}; two generated packet streams, 7,000 packets a second each at full size, every"
        " source address as likely as any other: many of them in *J1 sparse*, few in *J1 dense*, so that the same"
        f" number of rows makes few pairs or many. *J2*: {WORKS['J2'].title} (paper 000), over streams of bids and"
        " auctions and a table of persons in the proportions of Nexmark, with some auctions much more popular than"
        " others. A rate is rows of all input streams per second over the whole query to its last answer, in sessions"
        " that had run the same on a smaller input."
        + IN_AN_ENGINE_THAT_IS_UP
        + " Spark and Flink are asked as a user asks, join first, and ran once, with the fastest of the settings below;"
        " in *J1 dense* over the beginning of the input only, of the same density. Spark: availableNow, watermarks"
        f" without delay, append. Flink {flink.VERSION}: streaming mode, state on the heap, no checkpoints."
        " In J2 a refresh of Tidemill is the end of a window of 1 hour every minute on the other sides, which is the"
        " same because no bid is earlier than its auction: Spark joins a bid with auctions that are not later, Flink"
        " with the auction as of the bid's time (its other joins lose event time or hold the answer back)."
        f" Tidemill: medians, rounds: {found.rounds}. DuckDB is no streaming engine: it has all rows at once. Every"
        f" other side's answers were equal to its own: {compared}."
        + ("" if flink.python() else " Flink is not installed here.")
    )


def _inputs(found: Figures) -> Table:
    rows = [
        [case.name, case.base.rows, case.base.pairs or NONE, case.short.rows, case.short.pairs or NONE, case.long.rows]
        for case in found.cases.values()
    ]
    columns = ["input", "rows", "matching pairs", "rows for Spark and Flink", "matching pairs", "rows of the long one"]
    return Table("Inputs", columns, rows)


def _millions(rate: float | None) -> float | str:
    return ABSENT if rate is None else rate / 1e6


def _times(mine: float, other: float | None) -> float | str:
    return ABSENT if other is None else mine / other


def _pick(found: Figures, case: str, side: str, steady: bool) -> float | None:
    return found.steady(case, side) if steady else found.rate(case, side)


def _mine(found: Figures, case: str, steady: bool) -> float:
    rate = _pick(found, case, "Tidemill", steady)
    assert rate is not None
    return rate


def _rates(found: Figures, steady: bool) -> Table:
    rows = []
    for case in found.cases:
        mine = _mine(found, case, steady)
        peers = [_pick(found, case, f"{peer}, {ASKED}", steady) for peer in PEERS]
        rows.append([case, mine / 1e6, *map(_millions, peers), *(_times(mine, rate) for rate in peers)])
    columns = ["input", "Tidemill", *PEERS, *(f"Tidemill : {peer}" for peer in PEERS)]
    if not steady:
        return Table(f"Million rows/s, {WHOLE}", columns, rows)
    note = (
        "Tidemill from the end of its first micro-batch to the end of its last, over the long input; Flink's job"
        " without planning and submission; Spark as above."
    )
    return Table("Million rows/s, sustained", columns, rows, note)


def _by_hand(found: Figures) -> Table:
    rows = []
    for case in (SPARSE, DENSE):
        mine, steady = (_mine(found, case, which) for which in (False, True))
        for peer in PEERS:
            whole, job = (_pick(found, case, f"{peer}, {BY_HAND}", which) for which in (False, True))
            rows.append([case, peer, _millions(whole), _times(mine, whole), _millions(job), _times(steady, job)])
    for case in found.cases:
        for way in (ASKED, BY_HAND):
            whole = found.rate(case, f"DuckDB, {way}")
            rows.append(
                [case, f"DuckDB, {way}", _millions(whole), _times(_mine(found, case, False), whole), NONE, NONE]
            )
    return Table(
        "Rewritten by hand, and DuckDB in batch: million rows/s",
        ["input", "side", "whole query", "Tidemill : it", "sustained", "Tidemill : it"],
        rows,
        "*By hand*: a user who knows that it is the same can aggregate both streams before the join, which is what"
        " Tidemill does by itself; it stands beside the query as it is asked, which is what the targets are about.",
    )


def _plans(found: Figures) -> Table:
    rows = []
    for where, cases in found.plans.items():
        for case in cases:
            given, paces = found.given(where, case), [found.pace(where, case, plan) / 1e6 for plan in ("late", "auto")]
            rows.append([case, given.rows, given.pairs, where, *paces, found.early_to_late(where, case)])
    return Table(
        f"Late and early aggregation in Tidemill, million rows/s: {WORKS['J1both'].title}",
        ["input", "rows", "matching pairs", "where", "late (LAP)", "chosen by cost", "chosen : late"],
        rows,
        f"Under Spark it is the {WHOLE}, and sustained from the end of the first micro-batch to the end of the last; in"
        " one process it is one reader and one shard, without Spark's fixed cost.",
    )


def _windows(found: Figures) -> Table:
    rows = [
        [plan, length, found.matches[length], found.loaded[plan][length], median(seconds) * 1e3, max(seconds) * 1e3]
        for plan, lengths in found.windows.items()
        for length, seconds in lengths.items()
    ]
    return Table(
        f"J3: a micro-batch of {4 * window_cost.MOMENTS:,} changes against the length of the windows, in one process",
        ["plan", "rows of each window", "matches in them", "rows of state", "median ms", "slowest ms"],
        rows,
        f"A row has {window_cost.MATCHES} partners on average whatever the length: a batch has the same changes and the"
        " same number of matches.",
    )


def _state(found: Figures) -> Table:
    plans = list(next(iter(found.state.values())))
    rows = [
        [
            count,
            2 * count * set_state.FRAGMENTS,
            set_state.pairs() * set_state.FRAGMENTS,
            *(runs[plan]["rows"] for plan in plans),
            *(runs[plan]["bytes"] / 1e6 for plan in plans),
        ]
        for count, runs in found.state.items()
    ]
    return Table(
        f"J4: all state of a join of windows of {set_state.FRAGMENTS} fragments, in one process",
        [
            "packets of a stream in a fragment",
            "packets in both windows",
            "(group, join key) pairs of all fragments",
            *(f"rows of state, {plan}" for plan in plans),
            *(f"MB, {plan}" for plan in plans),
        ],
        rows,
        f"Grouped by dip ({set_state.DIPS}), joined on sip ({set_state.SIPS}): (dip, sip) of one stream, sip of the"
        " other. Rows of state are those of all operators, the groups of the answer among them.",
    )


def _ways(found: Figures) -> Table:
    rows = [[case, side, how] for case, ways in found.ways.items() for side, how in ways.items()]
    return Table("How the others ran", ["input", "side", "setting"], rows)


def _every(found: Figures) -> Table:
    rows = [
        [case, side, runs[0]["rows"], " ".join(f"{r['seconds']:.2f}" for r in runs)]
        for cases in (found.runs, found.long)
        for case, sides in cases.items()
        for side, runs in sides.items()
    ]
    for where, cases in found.plans.items():
        for case, plans in cases.items():
            for plan, runs in plans.items():
                seconds = " ".join(f"{r['seconds']:.2f}" for r in runs)
                rows.append([case, f"Tidemill, {plan}, {where}", found.given(where, case).rows, seconds])
    return Table("All runs, seconds", ["input", "side", "rows", "seconds"], rows)


def _tried(found: Figures) -> Table:
    return Table(
        "Settings tried (one run each over a small input)", ["input", "side", "setting", "seconds"], found.tried
    )


def _rate_checks(found: Figures) -> list[Check]:
    made = []
    for case, targets in TARGETS.items():
        for peer, target in targets.items():
            for steady, which in ((False, WHOLE), (True, "sustained")):
                other = _pick(found, case, f"{peer}, {ASKED}", steady)
                if other is not None:
                    ratio = _mine(found, case, steady) / other
                    pairs = found.cases[case].base.pairs
                    what = f"{case}, {pairs:,} pairs: rows/s against {peer}, {which}"
                    made.append(Check(what, f"≥ {target:g} ×", f"{ratio:.2f} ×", ratio >= target))
    return made


def _plan_checks(found: Figures) -> list[Check]:
    made = []
    for where in found.plans:
        ratio = found.early_to_late(where, DENSE)
        what = f"{DENSE}: the plan chosen by cost against the late plan, {where}"
        made.append(Check(what, f"≥ {EARLY_TARGET:g} × as fast", f"{ratio:.2f} ×", ratio >= EARLY_TARGET))
    return made


def _window_checks(found: Figures) -> list[Check]:
    made = []
    for plan, lengths in found.windows.items():
        short, long = sorted(lengths)
        ratio = median(lengths[long]) / median(lengths[short])
        what = f"J3: a micro-batch over windows of {long:,} rows against {short:,}, same matches, plan {plan}"
        made.append(Check(what, f"≤ {WINDOW_TARGET:g} ×", f"{ratio:.2f} ×", ratio <= WINDOW_TARGET))
    return made


def _state_checks(found: Figures) -> list[Check]:
    few, many = min(found.state), max(found.state)
    grown = found.state[many]["auto"]["rows"] / found.state[few]["auto"]["rows"]
    what = f"J4: rows of state with {many // few} times the packets, the same (group, join key) pairs"
    return [Check(what, f"≤ {STATE_TARGET:g} ×", f"{grown:.2f} ×", grown <= STATE_TARGET)]


def _series(found: Figures) -> dict[str, Any]:
    def rates(side: str, steady: bool = False) -> list[float]:
        return [(_pick(found, case, side, steady) or 0.0) / 1e6 for case in found.cases]

    names = {AUCTIONS: f"{AUCTIONS}: Example 1"}
    pairs = {case.name: f"{case.name}: {case.base.pairs:,} pairs" for case in found.cases.values() if case.base.pairs}
    return {
        "works": [{**names, **pairs}[case] for case in found.cases],
        "sides": {
            "Tidemill, sustained": rates("Tidemill", True),
            "Tidemill, whole query": rates("Tidemill"),
            "DuckDB in batch": rates(f"DuckDB, {ASKED}"),
            "Flink SQL": rates(f"Flink, {ASKED}"),
            "Spark Structured Streaming": rates(f"Spark, {ASKED}"),
        },
        "packets": list(found.state),
        "state": {plan: [runs[plan]["rows"] for runs in found.state.values()] for plan in found.windows},
    }
