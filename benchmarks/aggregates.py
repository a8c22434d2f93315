"""Aggregates over a join of windows beside SUM: MIN and MAX do not invert, and may cost half as much again.

A pair of windows is joined and grouped once for each aggregate, in one pipeline. MIN and MAX meet as many pairs as SUM
(`runtime/joins/value_presence.py`); what they add is a row for each value that comes or goes. COUNT(DISTINCT) adds the
lists of values that the reader makes of each fragment and sends, which is also most of its memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.joins import streams
from benchmarks.report import Check, Result, Table
from benchmarks.sides import Side, alternate

SIPS, WINDOWS, FEW = 558, 14, 2_000
MOST_TIME, MOST_MEMORY = 1.5, 1.3
SELECTS = {
    "SUM": "count(*) AS n, sum(A.len) AS s, sum(B.len) AS t",
    "MAX": "count(*) AS n, sum(A.len) AS s, max(B.len) AS t",
    "MIN": "count(*) AS n, sum(A.len) AS s, min(B.len) AS t",
    "MIN and MAX of both": "count(*) AS n, min(A.len) AS a, max(A.len) AS b, min(B.len) AS c, max(B.len) AS d",
    "SUM and MAX of one": "count(*) AS n, sum(B.len) AS s, max(B.len) AS t",
    "MAX of text": "count(*) AS n, sum(A.len) AS s, max(CAST(B.len AS VARCHAR)) AS t",
    "AVG": "count(*) AS n, sum(A.len) AS s, avg(B.len) AS t",
    "STDDEV": "count(*) AS n, sum(A.len) AS s, stddev(B.len) AS t",
    "COUNT DISTINCT": "count(*) AS n, sum(A.len) AS s, count(DISTINCT B.len) AS t",
}
PROMISED = ("MAX", "MIN", "MIN and MAX of both", "SUM and MAX of one", "MAX of text")
SLIDES = {"tumbling": streams.SECONDS, "sliding": 2}


def cost(select: str, slide: int, packets: int) -> dict[str, float]:
    """Processor seconds of reader and operators, and rows of the answer."""
    window = f"[RANGE {streams.SECONDS} SECONDS SLIDE {slide} SECONDS]"
    folder = streams.streams(packets, WINDOWS, SIPS)
    made = "".join(
        f"REGISTER SOURCE {n}Source (sip INT, len INT, ts TIMESTAMP) FROM FILES '{folder}/{n}/*.parquet'"
        f" WITH (timestamp = 'ts'); CREATE TAGGED STREAM {n} OVER {n}Source;"
        for n in streams.NAMES
    )
    view = (
        f"CREATE RSTREAM VIEW V AS SELECT A.sip, {SELECTS[select]} FROM PacketsA AS A {window}, PacketsB AS B {window}"
        " WHERE A.sip = B.sip GROUP BY A.sip;"
    )
    with data.scratch("aggregates") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(made + view)
        db.run(final=True)
        rows = db.query("SELECT count(*) AS n FROM V").to_pylist()[0]["n"]
        return {"reader": db.spent["reader"], "stage": db.spent["stage"], "all": db.pipeline_seconds, "rows": rows}


class Alone:
    """One query in a process of its own."""

    def memory(self, select: str, slide: int, packets: int) -> float:
        """MB by which the peak of the process grows in a run, once a small one has loaded kernels and libraries."""
        cost(select, slide, FEW)
        before = _peak()
        cost(select, slide, packets)
        return _peak() - before


def _peak() -> float:
    """MB. `ru_maxrss` would not do: it begins with what the process that started this one had."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def run(quick: bool, steps: Any) -> Result:
    """A table and its promises for each way to slide."""
    packets, rounds = (10_000, 1) if quick else (150_000, 5)
    steps.expect(len(SLIDES) * len(SELECTS) * (rounds + 2))
    result = Result("Aggregates of a join that do not invert", _setup(packets, rounds))
    for title, slide in SLIDES.items():
        memory = {}
        for name in SELECTS:
            with Side(Alone) as side:
                memory[name] = side.ask("memory", name, slide, packets)
            cost(name, slide, FEW)
            steps.done(f"{title}: {name}")
            steps.done()
        sides: dict[str, Callable[[], Any]] = {name: partial(cost, name, slide, packets) for name in SELECTS}
        found = alternate(sides, rounds, partial(steps.done, title))
        assert len({run["rows"] for runs in found.values() for run in runs}) == 1, "groups differ"
        times = ratios(found)
        grown = {name: most / memory["SUM"] for name, most in memory.items()}
        result.tables.append(_table(title, found, times, memory))
        result.checks += checks(title, times, grown)
    return result


def ratios(found: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """How many times SUM of the same round, in the median.

    >>> ratios({"SUM": [{"all": 1.0}, {"all": 2.0}], "MAX": [{"all": 1.5}, {"all": 3.0}]})
    {'SUM': 1.0, 'MAX': 1.5}
    """
    return {
        name: median(one["all"] / base["all"] for one, base in zip(runs, found["SUM"], strict=True))
        for name, runs in found.items()
    }


def checks(title: str, times: dict[str, float], grown: dict[str, float]) -> list[Check]:
    """MIN and MAX in all their forms stay near SUM."""
    return [_check(f"{title} windows: time", times, MOST_TIME), _check(f"{title} windows: memory", grown, MOST_MEMORY)]


def _check(what: str, found: dict[str, float], most: float) -> Check:
    name = max(PROMISED, key=lambda name: found[name])
    return Check(
        f"{what} of MIN and MAX to that of SUM, the dearest",
        f"≤ {most:g} ×",
        f"{found[name]:.2f} × ({name})",
        found[name] <= most,
    )


def _table(title: str, found: dict[str, list[dict[str, float]]], times: dict[str, float], memory: Any) -> Table:
    rows = [
        [
            name,
            *(median(run[part] for run in runs) for part in ("reader", "stage")),
            times[name],
            memory[name],
            memory[name] / memory["SUM"],
            int(runs[0]["rows"]),
        ]
        for name, runs in found.items()
    ]
    columns = ["aggregate", "reader s", "operators s", "times SUM", "memory, MB", "times SUM", "rows"]
    return Table(f"{title} windows of {streams.SECONDS} s, every {SLIDES[title]} s", columns, rows)


def _setup(packets: int, rounds: int) -> str:
    asked = "; ".join(f"*{name}*: `{select}`" for name, select in SELECTS.items())
    return (
        f"Two streams of {packets * WINDOWS:,} packets each, joined on `sip` in windows of {streams.SECONDS} s with"
        f" {packets:,} packets of each stream and {SIPS} addresses, grouped by `sip`. {asked}. One reader and one shard"
        f" in one process; processor time of reading and operators, medians of {rounds} rounds in turns, each ratio to"
        " SUM of the same round. Memory is that by which the peak of a process of its own grows in a run."
    )


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """There is no plot."""
    return []
