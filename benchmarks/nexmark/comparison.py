"""Every query by every engine over the same files, on the same cores, in turns.

The first run of a query is not measured: it warms both sides up, and its answer is compared with DuckDB's. Flink is
warmed up on few events. Then come all queries in one database, and what each query costs in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks import data, flink
from benchmarks.nexmark import events as generator
from benchmarks.nexmark.flink_side import FlinkSide, sides
from benchmarks.nexmark.largest_process import LargestProcess
from benchmarks.nexmark.measured import Measured, Sizes
from benchmarks.nexmark.page import page
from benchmarks.nexmark.questions import NAMES, question
from benchmarks.nexmark.sides import ProcessSide, TidemillSide, check
from benchmarks.report import Result
from benchmarks.sides import Side, alternate

FULL, QUICK = Sizes(20_000_000, 500_000, 3), Sizes(200_000, 50_000, 1)


def compare(quick: bool, steps: Any, events: int | None = None) -> Result:
    """Everything; `events` in the place of the usual number."""
    usual = QUICK if quick else FULL
    sizes = usual if events is None else Sizes(events, min(usual.few, events), usual.rounds)
    names = list(NAMES)
    found = Measured(sizes)
    peers = list(sides()) if flink.python() else []
    asked_of_flink = sum(question(name).flink is not None for name in names)
    turns = len(names) * (1 + sizes.rounds) + len(peers) * asked_of_flink * (1 + sizes.rounds)
    steps.expect(turns + sizes.rounds + len(names) * sizes.rounds)
    folder, few = generator.folder(sizes.events), generator.folder(sizes.few)
    with data.scratch("answers") as kept, ExitStack() as open_sides:
        ours = open_sides.enter_context(Side(TidemillSide))
        theirs = open_sides.enter_context(Side(FlinkSide)) if peers else None
        for name in names:
            ours.ask("measure", folder, [name], kept)
            found.answers[name] = check(folder, name, kept)
            steps.done(f"{name}: the answer is right")
            _turns(found, ours, theirs, folder, few, name, steps.done)
        if theirs is not None:
            theirs.ask("close")
        for _ in range(sizes.rounds):
            found.together.append(_watched(ours, folder, names))
            steps.done("all queries in one database")
    for name in names:
        found.costs[name] = [cost(few, name) for _ in range(sizes.rounds)]
        steps.done(f"{name}: in one process")
    return page(found)


def cost(folder: str, name: str) -> dict[str, Any]:
    """Processor time and memory of one query in a process of its own; the answer is compared with DuckDB's."""
    with data.scratch("answers") as kept, Side(ProcessSide) as side:
        found: dict[str, Any] = side.ask("measure", folder, name, kept)
        return {**found, "answer": check(folder, name, kept)}


def _turns(
    found: Measured, ours: Side, theirs: Side | None, folder: str, few: str, name: str, done: Callable[[str], None]
) -> None:
    """One query on all sides that know it."""
    measured: dict[str, Callable[[], Any]] = {"tidemill": partial(_watched, ours, folder, [name])}
    if theirs is not None and question(name).flink is not None:
        for label, settings in sides().items():
            theirs.ask("measure", few, name, settings)
            done(f"{name}: Flink, warm-up")
            measured[label] = partial(theirs.ask, "measure", folder, name, settings)
    found.runs[name] = alternate(measured, found.sizes.rounds, lambda: done(f"{name}: in turns"))


def _watched(ours: Side, folder: str, names: list[str]) -> dict[str, Any]:
    with LargestProcess(ours.pid) as watched:
        measured = ours.ask("measure", folder, names)
    return {**measured, "megabytes": watched.megabytes}
