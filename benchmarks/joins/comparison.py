"""Every side in a process of its own, over the same files, on the same cores, one after another.

Spark and Flink run once, after a warm-up and after the choice of their best setting on a small input; where a whole run
would take minutes they get the beginning of the input, of the same density. All answers are compared with DuckDB's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import answers, data, flink
from benchmarks.joins import auctions, flink_side, spark_side, streams
from benchmarks.joins.duckdb_side import DuckDBSide
from benchmarks.joins.figures import (
    AUCTIONS,
    DENSE,
    IN_ONE_PROCESS,
    SPARSE,
    SUSTAINED,
    UNDER_SPARK,
    Case,
    Figures,
    Input,
)
from benchmarks.joins.flink_side import FlinkSide
from benchmarks.joins.page import page
from benchmarks.joins.set_state import StateSide
from benchmarks.joins.spark_side import SparkSide
from benchmarks.joins.tidemill_side import AUTO, LATE, ProcessSide, TidemillSide
from benchmarks.joins.window_cost import WindowSide
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS
from benchmarks.report import Result
from benchmarks.sides import Side, alternate

PLANS = {UNDER_SPARK: TidemillSide, SUSTAINED: TidemillSide, IN_ONE_PROCESS: ProcessSide}


@dataclass(frozen=True)
class Sizes:
    """J1: packets of a stream in a window; windows of the base, the long and the small input, and of those for peers
    at the density; pairs of the base. J2: events. Settings tried for a peer, rounds. J3: the shorter window, batches of
    a round. J4: packets of a fragment."""

    packets: int
    windows: int
    long_windows: int
    small_windows: int
    peer_windows: dict[str, int]
    pairs: dict[str, int]
    events: int
    long_events: int
    small_events: int
    tries: int
    rounds: int
    window: int
    batches: int
    fragment: tuple[int, ...]


FULL = Sizes(
    70_000, 14, 140, 1, {SPARSE: 14, DENSE: 4}, {SPARSE: 9_000_000, DENSE: 123_000_000},
    2_000_000, 20_000_000, 200_000, 4, 3, 100_000, 5, (5_000, 20_000, 80_000),
)  # fmt: skip
QUICK = Sizes(
    7_000, 14, 28, 1, {SPARSE: 14, DENSE: 4}, {SPARSE: 900_000, DENSE: 12_300_000},
    100_000, 200_000, 50_000, 1, 1, 5_000, 3, (5_000, 20_000),
)  # fmt: skip

Done = Callable[[str], None]


def compare(quick: bool, steps: Any) -> Result:
    """Everything, in this order: DuckDB, Spark, Flink, Tidemill, its plans, its windows, its state."""
    sizes = QUICK if quick else FULL
    plans = (LATE, AUTO)
    with data.scratch("answers") as kept:
        with Side(DuckDBSide) as duck:
            found = Figures(_cases(sizes, duck), sizes.rounds)
            steps.expect(_steps(found, sizes, plans))
            for case in found.cases.values():
                _duckdb(found, case, duck, kept, steps.done)
        with Side(SparkSide) as side:
            for case in found.cases.values():
                _spark(found, case, side, kept, sizes.tries, steps.done)
        if flink.python():
            with Side(FlinkSide) as side:
                for case in found.cases.values():
                    _flink(found, case, side, kept, sizes.tries, steps.done)
                side.ask("close")
        with Side(TidemillSide) as side:
            for case in found.cases.values():
                _tidemill(found, case, side, kept, steps.done)
        _plans(found, kept, steps.done)
        _windows(found, sizes, plans, steps.done)
        _state(found, sizes, plans, steps.done)
    return page(found)


def _steps(found: Figures, sizes: Sizes, plans: tuple[str, ...]) -> int:
    """How many measurements there will be."""
    works = [case.work for case in found.cases.values()]
    spark = sum(len(spark_side.WAYS[w]) * (2 + len(list(spark_side.SETTINGS)[: sizes.tries])) for w in works)
    flinks = sum(len(flink_side.WAYS[w]) * (2 + len(list(flink_side.SETTINGS)[: sizes.tries])) for w in works)
    tidemill = len(works) * (1 + 2 * sizes.rounds)
    choices = 2 * 2 * len(PLANS) * sizes.rounds
    windows = 2 * len(plans) * (1 + sizes.rounds)
    peers = spark + (flinks if flink.python() else 0)
    return len(works) + peers + tidemill + choices + windows + len(plans) * len(sizes.fragment)


def _cases(sizes: Sizes, duck: Side) -> dict[str, Case]:
    made = {}
    for name, pairs in sizes.pairs.items():
        sips = streams.addresses(sizes.packets, sizes.windows, pairs)

        def packets(windows: int, sips: int = sips) -> Input:
            folder = streams.streams(sizes.packets, windows, sips)
            return Input(folder, 2 * (windows * sizes.packets + 1), duck.ask("pairs", folder, WORKS["J1"]))

        counts = (sizes.windows, sizes.peer_windows[name], sizes.long_windows, sizes.small_windows)
        made[name] = Case(name, "J1", *map(packets, counts))
    counts = (sizes.events, sizes.events, sizes.long_events, sizes.small_events)
    made[AUCTIONS] = Case(AUCTIONS, "J2", *(Input(auctions.house(n), auctions.rows(n)) for n in counts))
    return made


def _kept(kept: str, given: Input, side: str) -> str:
    return os.path.join(kept, os.path.basename(given.folder), side)


def _check(found: Figures, case: Case, given: Input, kept: str, side: str, work: str | None = None) -> None:
    """The answer of a side to an input equals that of DuckDB."""
    question = WORKS[work or case.work]
    until = min(answers.last_time(os.path.join(given.folder, name)) for name in question.streams)
    rows = answers.check_equal([question], _kept(kept, given, "duckdb"), _kept(kept, given, side), until)
    assert rows, f"{case.name}: no window ended"
    if given == case.base:
        found.compared[case.name] = rows


def _duckdb(found: Figures, case: Case, duck: Side, kept: str, done: Done) -> None:
    """Both ways give the same; the first is what the others are compared with, on the long input the second."""
    for way in (ASKED, BY_HAND, ASKED, BY_HAND):  # the first time it reads files that are not in memory
        place = _kept(kept, case.base, "duckdb" if way == ASKED else "by hand")
        run = duck.ask("measure", case.base.folder, case.work, way, place)
        found.runs.setdefault(case.name, {})[f"DuckDB, {way}"] = [{**run, "rows": case.base.rows}]
    _check(found, case, case.base, kept, "by hand")
    if case.short.folder != case.base.folder:
        duck.ask("measure", case.short.folder, case.work, ASKED, _kept(kept, case.short, "duckdb"))
    duck.ask("measure", case.long.folder, case.work, BY_HAND, _kept(kept, case.long, "duckdb"))
    if case.work == "J1":
        for given in (case.base, case.long):
            duck.ask("measure", given.folder, "J1both", BY_HAND, _kept(kept, given, "duckdb"))
    done(f"{case.name}: DuckDB")


def _spark(found: Figures, case: Case, side: Side, kept: str, tries: int, done: Done) -> None:
    for way in spark_side.WAYS[case.work]:
        name, tried = f"Spark, {way}", {}
        settings = list(spark_side.SETTINGS)[:tries]
        side.ask("measure", case.small.folder, case.work, way, settings[0], None)
        done(f"{case.name}: {name}, warm-up")
        for setting in settings:
            tried[setting] = side.ask("measure", case.small.folder, case.work, way, setting, None)["seconds"]
            done(f"{case.name}: which setting is best for {name}")
        best, given = _chosen(found, case, name, tried), _given(case, way)
        run = side.ask("measure", given.folder, case.work, way, best, _kept(kept, given, name))
        assert run["rows"] == given.rows, (run, given)
        _check(found, case, given, kept, name)
        found.add(case.name, name, run)
        done(f"{case.name}: {name}")


def _flink(found: Figures, case: Case, side: Side, kept: str, tries: int, done: Done) -> None:
    for way in flink_side.WAYS[case.work]:
        name, tried = f"Flink, {way}", {}
        settings = list(flink_side.SETTINGS)[:tries]
        places = (os.path.join(kept, "tried", f"{case.name} {way} {number}") for number in range(1 + tries))
        side.ask("measure", case.small.folder, case.work, way, settings[0], next(places))
        done(f"{case.name}: {name}, warm-up")
        for setting in settings:
            tried[setting] = side.ask("measure", case.small.folder, case.work, way, setting, next(places))["job"]
            done(f"{case.name}: which setting is best for {name}")
        best, given = _chosen(found, case, name, tried), _given(case, way)
        run = side.ask("measure", given.folder, case.work, way, best, _kept(kept, given, name))
        _check(found, case, given, kept, name)
        found.add(case.name, name, {**run, "rows": given.rows})
        done(f"{case.name}: {name}")


def _chosen(found: Figures, case: Case, name: str, tried: dict[str, float]) -> str:
    """The fastest setting; all that were tried are noted."""
    found.tried += [[case.name, name, setting, seconds] for setting, seconds in tried.items()]
    best = min(tried, key=tried.__getitem__)
    found.way(case.name, name, best)
    return best


def _given(case: Case, way: str) -> Input:
    """By hand the whole input takes seconds."""
    return case.base if way == BY_HAND else case.short


def _tidemill(found: Figures, case: Case, side: Side, kept: str, done: Done) -> None:
    side.ask("measure", case.small.folder, case.work, None)
    done(f"{case.name}: Tidemill, warm-up")
    for _ in range(found.rounds):
        for given, into in ((case.base, found.runs), (case.long, found.long)):
            run = side.ask("measure", given.folder, case.work, _kept(kept, given, "Tidemill"))
            _check(found, case, given, kept, "Tidemill")
            assert run["rows"] >= given.rows, (run, given)
            # A table's rows are counted by the engine, too; here a row is one of a stream.
            run["sustained"] *= given.rows / run["rows"]
            into.setdefault(case.name, {}).setdefault("Tidemill", []).append({**run, "rows": given.rows})
            done(f"{case.name}: Tidemill")


def _plans(found: Figures, kept: str, done: Done) -> None:
    """The late plan and the one that costs least, in turns: the whole query, the long input, and in one process."""
    for where, make in PLANS.items():
        with Side(make) as side:
            for case in (found.cases[SPARSE], found.cases[DENSE]):
                given = found.given(where, case.name)
                side.ask("measure", case.small.folder, "J1both", None, AUTO)

                def measure(plan: str, side: Side = side, case: Case = case, given: Input = given) -> Any:
                    run = side.ask("measure", given.folder, "J1both", _kept(kept, given, plan), plan)
                    _check(found, case, given, kept, plan, "J1both")
                    return run

                found.plans.setdefault(where, {})[case.name] = alternate(
                    {plan: partial(measure, plan) for plan in (LATE, AUTO)},
                    found.rounds,
                    partial(done, f"{case.name}: late and early, {where}"),
                )


def _windows(found: Figures, sizes: Sizes, plans: tuple[str, ...], done: Done) -> None:
    lengths = (sizes.window, 10 * sizes.window)
    with data.scratch("windows") as place, Side(WindowSide, place) as side:
        for plan in plans:
            for length in lengths:
                found.loaded.setdefault(plan, {})[length] = side.ask("load", length, plan)
                done(f"J3: windows of {length:,} loaded")
        for number in range(sizes.rounds):
            for length in lengths[:: -1 if number % 2 else 1]:
                for plan in plans:
                    seconds = side.ask("batches", length, plan, sizes.batches)
                    found.windows.setdefault(plan, {}).setdefault(length, []).extend(seconds)
                    done(f"J3: batches over windows of {length:,}")
        found.matches = {int(length): count for length, count in side.ask("close").items()}


def _state(found: Figures, sizes: Sizes, plans: tuple[str, ...], done: Done) -> None:
    with Side(StateSide) as side:
        for count in sizes.fragment:
            runs = {}
            for plan in plans:
                runs[plan] = side.ask("measure", count, plan)
                done(f"J4: state with {count:,} packets in a fragment")
            different = [r["answer"] for r in runs.values() if r["answer"] != runs[AUTO]["answer"]]
            assert not different, f"J4: plans answer differently with {count} packets in a fragment"
            found.state[count] = {plan: {"rows": r["rows"], "bytes": r["bytes"]} for plan, r in runs.items()}
