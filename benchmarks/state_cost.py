"""The time of a micro-batch of 1,000 changes against the number of groups in the state.

A COMPLETE view keeps one row for each group. Batches come one at a time: a file with 1,000 rows, each of another
group. The sizes take turns in rounds, live under Spark and in one process without Spark.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data, plots
from benchmarks.inprocess import InProcess
from benchmarks.report import Check, Result, Table
from benchmarks.sides import Side, quiet

CHANGES, TARGET, PATIENCE = 1_000, 1.5, 120.0
SETUP = """REGISTER SOURCE P (k BIGINT, v BIGINT, ts BIGINT) FROM FILES '{files}/*.parquet' WITH (timestamp = 'ts');
           CREATE TAGGED STREAM S OVER P;
           CREATE COMPLETE VIEW v AS SELECT k, count(*) AS n, sum(v) AS s FROM S GROUP BY k"""
NAMES = {"spark": "under Spark", "process": "in one process"}


class Groups:
    """One database with a number of groups, and the files that change them."""

    def __init__(self, place: str, size: int, open_: Any) -> None:
        self.size, self.files = size, os.path.join(place, f"in{size}")
        os.makedirs(self.files)
        source = data.groups(size)
        for name in os.listdir(source):
            os.link(os.path.join(source, name), os.path.join(self.files, name))
        self.db = open_(os.path.join(place, f"db{size}"))
        self.db.execute(SETUP.format(files=self.files))
        self.sent = 0

    def send(self) -> None:
        """One file of changes, visible at once or not at all."""
        self.sent += 1
        chance = np.random.default_rng(self.sent)
        keys = chance.choice(self.size, CHANGES, replace=False)
        table = pa.table({"k": keys, "v": np.ones(CHANGES, np.int64), "ts": np.full(CHANGES, self.sent)})
        part = os.path.join(os.path.dirname(self.files), "part")
        pq.write_table(table, part)
        os.rename(part, os.path.join(self.files, f"c{self.sent:06d}.parquet"))

    def check(self) -> None:
        """Every group is there and every change was counted."""
        self.db.run(final=True)
        found = self.db.query("SELECT count(*) AS g, sum(n) AS n FROM v").to_pylist()[0]
        assert found["g"] == self.size and found["n"] == self.size + self.sent * CHANGES, (found, self.size, self.sent)


class SparkSide:
    """All sizes in one Spark session; only one runs at a time."""

    def __init__(self, place: str) -> None:
        import tidemill

        self.place, self.open = place, tidemill.open
        self.made: dict[int, Groups] = {}

    def load(self, size: int) -> float:
        with quiet():
            self.made[size] = Groups(self.place, size, self.open)
            began = time.perf_counter()
            self.made[size].db.run(final=True)
            return time.perf_counter() - began

    def batches(self, size: int, count: int) -> list[float]:
        """Seconds of `count` micro-batches as Spark reports them, after two to warm up."""
        groups, seen = self.made[size], []
        db = groups.db
        listener = seen.append
        db.outlet.listeners.append(listener)
        try:
            with quiet(), db.running():
                query = db.runner.job.query
                for number in range(count + 2):
                    groups.send()
                    _wait(lambda number=number: sum(_rows(s) > 0 for s in seen) > number)
                wanted = [s["batch"] for s in seen if _rows(s) == CHANGES][2:]
                _wait(lambda: {p["batchId"] for p in query.recentProgress} >= set(wanted))
                progress = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress}
        finally:
            db.outlet.listeners.remove(listener)
        assert len(wanted) == count, f"{len(wanted)} batches of {CHANGES} changes, not {count}"
        return [progress[batch] for batch in wanted]

    def close(self) -> None:
        with quiet():
            for groups in self.made.values():
                groups.check()
                groups.db.close()


class ProcessSide:
    """All sizes in one process without Spark."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.made: dict[int, Groups] = {}

    def load(self, size: int) -> float:
        self.made[size] = Groups(self.place, size, lambda path: InProcess(path, shards=2))
        began = time.perf_counter()
        self.made[size].db.run(final=True)
        return time.perf_counter() - began

    def batches(self, size: int, count: int) -> list[float]:
        groups, seconds = self.made[size], []
        with groups.db.running():
            while groups.db.step() is not None:
                pass
            for _ in range(count + 1):
                groups.send()
                took = groups.db.step()
                assert took is not None
                seconds.append(took)
        return seconds[1:]

    def close(self) -> None:
        for groups in self.made.values():
            groups.check()
            groups.db.close()


def _rows(summary: dict[str, Any]) -> int:
    return sum(t["rows"] for t in summary["tallies"].values())


def _wait(reached: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > until:
            raise TimeoutError("the micro-batch did not come")
        time.sleep(0.002)


def run(quick: bool, steps: Any) -> Result:
    sizes = [10_000, 100_000] if quick else [10_000, 100_000, 1_000_000, 10_000_000]
    rounds, count = (2, 3) if quick else (5, 5)
    steps.expect(2 * len(sizes) * (rounds + 1))
    times: dict[str, dict[int, list[float]]] = {side: {s: [] for s in sizes} for side in NAMES}
    loads: dict[str, dict[int, float]] = {side: {} for side in NAMES}
    with data.scratch("state") as place:
        for name, make in (("spark", SparkSide), ("process", ProcessSide)):
            folder = os.path.join(place, name)
            os.makedirs(folder)
            with Side(make, folder) as side:
                for size in sizes:
                    loads[name][size] = side.ask("load", size)
                    steps.done(f"{NAMES[name]}: {size:,} groups loaded")
                for number in range(rounds):
                    for size in sizes[:: -1 if number % 2 else 1]:
                        times[name][size] += side.ask("batches", size, count)
                        steps.done(f"{NAMES[name]}: batches over {size:,} groups")
                side.ask("close")
    return _result(sizes, times, loads, rounds * count)


def _result(
    sizes: list[int], times: dict[str, dict[int, list[float]]], loads: dict[str, dict[int, float]], count: int
) -> Result:
    result = Result(
        "Cost against state",
        f"The time of a micro-batch of {CHANGES:,} rows, each of another group, when a COMPLETE view `GROUP BY k`"
        " already holds"
        f" that many groups. Median of {count} micro-batches for each size; the sizes take turns. Under Spark: a"
        " live query, the"
        " duration of the whole micro-batch as Spark reports it. In one process: planning, reading, both shards and"
        " the stored view, without Spark's fixed cost.",
    )
    rows = []
    for size in sizes:
        row: list[Any] = [size]
        for side in NAMES:
            found = times[side][size]
            row += [median(found) * 1e3, float(np.percentile(found, 90)) * 1e3, loads[side][size]]
        rows.append(row)
    titles = [f"{NAMES[s]}: {what}" for s in NAMES for what in ("median ms", "90th percentile ms", "load s")]
    result.tables.append(Table("Micro-batch time", ["groups", *titles], rows))
    for side in NAMES:
        ratio = median(times[side][sizes[-1]]) / median(times[side][sizes[0]])
        result.checks.append(
            Check(
                f"micro-batch with {sizes[-1]:,} groups against {sizes[0]:,}, {NAMES[side]}",
                f"≤ {TARGET:g} ×",
                f"{ratio:.2f} ×",
                ratio <= TARGET,
            )
        )
    result.series = {
        "sizes": sizes,
        "ms": {s: [median(times[s][n]) * 1e3 for n in sizes] for s in NAMES},
        "all": {s: [[t * 1e3 for t in times[s][n]] for n in sizes] for s in NAMES},
    }
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    figure, (axes,) = plots.panels(1)
    plots.lines(
        axes,
        f"a micro-batch of {CHANGES:,} changes",
        "groups in the state",
        "ms",
        [(NAMES[s], series["sizes"], series["ms"][s]) for s in NAMES],
    )
    for side, colour in zip(NAMES, ("C0", "C1"), strict=True):
        for size, found in zip(series["sizes"], series["all"][side], strict=True):
            axes.plot([size] * len(found), found, ".", color=colour, alpha=0.25, markersize=3)
    axes.set_xscale("log")
    axes.autoscale(axis="y")
    axes.set_ylim(bottom=0)
    return [plots.save(figure, folder, "state_cost", "time of a micro-batch against the number of groups")]
