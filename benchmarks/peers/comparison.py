"""Every side in a process of its own, over the same files, on the same cores, one after another.

Spark and Flink take minutes for what takes the others seconds: they run once, after a warm-up and after the choice of
their best setting on a small trace. Tidemill and DuckDB take turns, three times. All answers are compared with
Tidemill's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import answers, data, flink, packets
from benchmarks.peers import duckdb_side, flink_side
from benchmarks.peers.duckdb_side import DuckDBSide
from benchmarks.peers.figures import Figures
from benchmarks.peers.flink_side import FlinkSide
from benchmarks.peers.mixture import mixed
from benchmarks.peers.page import page
from benchmarks.peers.spark_side import SparkSide
from benchmarks.peers.tidemill_side import TidemillSide
from benchmarks.peers.workloads import ASKED, EACH, ONE, PANES, SHARED, STEPS, WORKS, drawn
from benchmarks.report import Result
from benchmarks.sides import Side, alternate
from benchmarks.spark import STORES


@dataclass(frozen=True)
class Sizes:
    """Rows of the trace, of the long one, and of the one to warm up and to try settings; rounds of Tidemill and DuckDB.
    W5: queries, unit and least number of units of their slides (seconds), queries whose answers are compared. Of the
    mixture DuckDB answers `sample` queries."""

    rows: int
    long_rows: int
    small_rows: int
    rounds: int
    queries: int
    unit: int
    least: int
    compared: int
    sample: int


FULL = Sizes(20_000_000, 100_000_000, 2_000_000, 3, 1_000, 10, 40, 6, 50)
QUICK = Sizes(1_000_000, 2_000_000, 250_000, 1, 50, 1, 20, 3, 5)
SHAPES = {"W1": (EACH, ONE), "W2": (EACH, PANES), "W3": (EACH, PANES)}
FILES_A_BATCH = 4

Plan = tuple[str, str, int | None]
Done = Callable[[str], None]


def compare(quick: bool, steps: Any) -> Result:
    """Everything, in this order: Spark, Flink, Tidemill and DuckDB in turns, the long trace, many queries."""
    sizes = QUICK if quick else FULL
    trace, long, small = (packets.trace(rows) for rows in (sizes.rows, sizes.long_rows, sizes.small_rows))
    found = Figures(sizes.rows, sizes.long_rows, sizes.rounds)
    steps.expect(_steps(sizes.rounds))
    with data.scratch("answers") as kept:
        _spark(found, trace, small, kept, steps.done)
        if flink.python():
            _flink(found, trace, small, kept, steps.done)
        with Side(TidemillSide) as ours, Side(DuckDBSide) as duck:
            _turns(found, ours, duck, trace, small, kept, steps.done)
            _long(found, ours, duck, long, kept, steps.done)
            _many(found, ours, duck, long, kept, sizes, steps.done)
            _mixture(found, ours, duck, trace, kept, sizes, steps.done)
    return page(found)


def _steps(rounds: int) -> int:
    """How many measurements there will be."""
    spark = sum(1 + len(_spark_plans(work)) + len(SHAPES[work]) for work in WORKS)
    flinks = sum(2 + len(_flink_settings(work)) for work in WORKS) if flink.python() else 0
    forms = [duckdb_side.shapes(work.queries) for work in WORKS.values()]
    turns = sum(1 + sum(map(len, ways.values())) + (3 + len(ways)) * rounds for ways in forms)
    return spark + flinks + turns + 4 * rounds


def _spark_plans(work: str) -> list[Plan]:
    """What is tried on the small trace. Twenty queries take too long to try: they run as the one query before."""
    if work == "W3":
        return []
    return [(shape, store, None) for shape in SHAPES[work] for store in STORES] + [
        (SHAPES[work][1], "in memory", FILES_A_BATCH)
    ]


def _spark(found: Figures, trace: str, small: str, kept: str, done: Done) -> None:
    best: dict[str, Plan] = {}
    with Side(SparkSide) as side:
        for work, what in WORKS.items():
            side.ask("measure", small, what.queries[:4], EACH, "in memory", None, None)
            done(f"{work}: Spark, warm-up")
            tried = {}
            for plan in _spark_plans(work):
                tried[plan] = side.ask("measure", small, what.queries, *plan, None)["seconds"]
                found.tried.append([work, "Spark", _plan_name(plan), tried[plan]])
                done(f"{work}: which setting is best for Spark")
            for shape in SHAPES[work]:
                chosen = [p for p in tried if p[0] == shape]
                best[shape] = min(chosen, key=tried.__getitem__) if chosen else best[shape]
                folder = os.path.join(kept, work, shape)
                got = side.ask("measure", trace, what.queries, *best[shape], folder)
                assert got["rows"] == found.rows, got
                found.add(work, shape, got)
                found.way(work, shape, _plan_name(best[shape]))
                done(f"{work}: Spark, {shape}")


def _plan_name(plan: Plan) -> str:
    shape, store, files = plan
    return f"{shape}, state {store}, {f'{files} files a batch' if files else 'everything in one batch'}"


def _flink_settings(work: str) -> list[str]:
    return list(flink_side.SETTINGS) if work != "W3" else []


def _flink(found: Figures, trace: str, small: str, kept: str, done: Done) -> None:
    best = ""
    with Side(FlinkSide) as side:
        for work, what in WORKS.items():
            first = next(iter(flink_side.SETTINGS))
            side.ask("measure", small, what.queries, first, os.path.join(kept, "warm", work))
            done(f"{work}: Flink, warm-up")
            tried = {}
            for setting in _flink_settings(work):
                place = os.path.join(kept, "tried", work, setting)
                tried[setting] = side.ask("measure", small, what.queries, setting, place)["job"]
                found.tried.append([work, "Flink", setting, tried[setting]])
                done(f"{work}: which setting is best for Flink")
            best = min(tried, key=tried.__getitem__) if tried else best
            found.add(work, "flink", side.ask("measure", trace, what.queries, best, os.path.join(kept, work, "flink")))
            found.way(work, "flink", best)
            done(f"{work}: Flink")
        side.ask("close")


def _turns(found: Figures, ours: Side, duck: Side, trace: str, small: str, kept: str, done: Done) -> None:
    """Tidemill and DuckDB over the trace, and all answers against Tidemill's."""
    until = answers.last_time(trace)
    for work, what in WORKS.items():
        ours.ask("measure", small, what.queries, None)
        done(f"{work}: Tidemill, warm-up")
        for side, ways in duckdb_side.shapes(what.queries).items():
            tried = {}
            for shape in ways:
                tried[shape] = duck.ask("measure", trace, what.queries, shape, None)["seconds"]
                found.tried.append([work, _form(side), shape, tried[shape]])
                done(f"{work}: which SQL is best for DuckDB")
            found.way(work, side, min(tried, key=tried.__getitem__))
        forms = [side for side in (ASKED, SHARED) if side in found.ways[work]]
        _alternate(found, ours, duck, trace, forms, os.path.join(kept, work), found.runs, work, done)
        mine = os.path.join(kept, work, "tidemill")
        for side in found.runs[work]:
            other = os.path.join(kept, work, side)
            found.compared[work] = answers.check_equal(what.queries, mine, other, until)
        assert found.compared[work], f"{work}: no window ended"


def _long(found: Figures, ours: Side, duck: Side, long: str, kept: str, done: Done) -> None:
    """Tidemill and DuckDB's fastest over the long trace."""
    until = answers.last_time(long)
    for work, what in WORKS.items():
        place = os.path.join(kept, "long", work)
        side = SHARED if SHARED in found.ways[work] else ASKED
        _alternate(found, ours, duck, long, [side], place, found.long, work, done)
        answers.check_equal(what.queries, f"{place}/tidemill", f"{place}/{side}", until)


def _alternate(
    found: Figures,
    ours: Side,
    duck: Side,
    trace: str,
    forms: Sequence[str],
    place: str,
    into: dict[str, dict[str, list[dict[str, Any]]]],
    work: str,
    done: Done,
) -> None:
    """Tidemill and these forms of DuckDB, each in the way that was found best."""
    queries = WORKS[work].queries
    sides: dict[str, Callable[[], Any]] = {
        "tidemill": lambda: ours.ask("measure", trace, queries, os.path.join(place, "tidemill"))
    }
    for form in forms:
        sides[form] = lambda form=form: duck.ask(  # type: ignore[misc]
            "measure", trace, queries, found.ways[work][form], os.path.join(place, form)
        )
    runs = alternate(sides, found.rounds, lambda: done(f"{work}: Tidemill and DuckDB"))
    rows = found.rows if into is found.runs else found.long_rows
    assert all(r["rows"] == rows for r in runs["tidemill"]), runs["tidemill"]
    into.setdefault(work, {}).update(runs)


def _form(side: str) -> str:
    """
    >>> _form(SHARED)
    'DuckDB, shared by hand'
    """
    return side.replace("duckdb", "DuckDB")


def _many(found: Figures, ours: Side, duck: Side, long: str, kept: str, sizes: Sizes, done: Done) -> None:
    """Many queries at once against one alone that reports more often than others; some answers against DuckDB's."""
    queries = sorted(drawn(sizes.queries, sizes.unit, sizes.least), key=lambda q: q.slide)
    place, some = os.path.join(kept, "many"), queries[: sizes.queries // 2 : sizes.queries // 2 // sizes.compared]
    one = next(q for q in queries if q.predicate and q.predicate.startswith("len"))  # groups of all ports have rows
    found.many_queries = sizes.queries
    found.many_slides = f"{sizes.least * sizes.unit} to {STEPS * sizes.unit:,} s"
    found.many = alternate(
        {
            "one": lambda: ours.ask("measure", long, (one,), None),
            "all": lambda: ours.ask("measure", long, queries, os.path.join(place, "tidemill"), some),
        },
        found.rounds,
        lambda: done(f"W5: {sizes.queries:,} queries and one"),
    )
    until, compared = answers.last_time(long), 0
    for query in some:
        duck.ask("measure", long, (query,), "copies", os.path.join(place, "duckdb"))
        compared += answers.check_equal((query,), f"{place}/tidemill", f"{place}/duckdb", until)
    assert compared, "W5: no window ended"
    found.compared["W5"] = compared
    assert all(r["out"] for r in found.many["one"]), "W5: the one query has no answer"
    share = found.many["all"][0]["out"] / found.long_rows
    assert 0 < share < 0.1, f"the answers of W5 have {share:.0%} as many rows as the input"


def _mixture(found: Figures, ours: Side, duck: Side, trace: str, kept: str, sizes: Sizes, done: Done) -> None:
    """Many unlike queries at once against DuckDB, which answers a sample of them one after another."""
    queries, place = mixed(sizes.queries), os.path.join(kept, "mixture")
    sample = queries[:: sizes.queries // sizes.sample]
    found.mixture_sample = len(sample)
    found.mixture = alternate(
        {
            "tidemill": lambda: ours.ask("measure", trace, queries, os.path.join(place, "tidemill"), sample),
            "duckdb": lambda: duck.ask("answer", trace, sample, os.path.join(place, "duckdb")),
        },
        found.rounds,
        lambda: done("mixture: Tidemill and DuckDB"),
    )
    until = answers.last_time(trace)
    found.compared["the mixture"] = answers.check_equal(sample, f"{place}/tidemill", f"{place}/duckdb", until)
