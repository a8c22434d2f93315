"""From `db.run()` in a new process to the first answer: where the seconds go, with and without what shortens it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

from benchmarks.report import Check, Result, Table

TARGET_S = 6.0
# The parts of one start, in the order in which they end.
PARTS = (
    "the plan is written",
    "a session is up",
    "the query is started",
    "the first batch is committed",
    "the answer is there",
)
SQL = """REGISTER SOURCE Readings (room INTEGER, temp DOUBLE, at TIMESTAMP)
         FROM GENERATE (rate = 20, rows = 1200, seed = 7, room = 'uniform(1,30)', temp = 'normal(74,6)')
         WITH (timestamp = 'at');
         CREATE TAGGED STREAM Rooms OVER Readings KEY room;
         CREATE VIEW Hot AS SELECT room, temp FROM Rooms SYNC EVERY 2 SECONDS WHERE temp > 80;
         CREATE VIEW HotCount AS SELECT count(*) AS rooms FROM Hot"""


def child(place: str) -> None:
    """One start in this process; prints what it took."""
    import time

    import psutil

    import tidemill
    from tidemill.runtime.spark import job, session

    with tidemill.open(os.path.join(place, "db")) as db:
        db.execute(SQL)
        ends: list[float] = []
        began = time.perf_counter()

        def timed(module: Any, name: str, before: bool) -> None:
            call = getattr(module, name)

            def wrapper(*args: Any, **named: Any) -> Any:
                if before:
                    ends.append(time.perf_counter() - began)
                result = call(*args, **named)
                ends.append(time.perf_counter() - began)
                return result

            setattr(module, name, wrapper)

        timed(session, "local_session", before=True)
        timed(job, "start", before=False)
        db.outlet.listeners.append(lambda _: ends.append(time.perf_counter() - began))
        db.run()
        rooms = db.query("SELECT rooms FROM HotCount").to_pylist()
        answer = time.perf_counter() - began
        assert rooms == [{"rooms": 4}], rooms
        spent: dict[str, float] = {}
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            try:
                times, name = process.cpu_times(), _kind(process.cmdline())
            except psutil.Error:
                continue
            spent[name] = spent.get(name, 0.0) + times.user + times.system
    print(json.dumps({"ends": [*ends[:4], answer], "processor": spent}))


def _kind(words: list[str]) -> str:
    text = " ".join(words)
    if "java" in words[0]:
        return "JVM"
    if "tidemill.runtime.spark.zygote" in text:
        return "planner, readers and shards"
    if "sandbox" in text:
        return "the query"
    return "other Python of Spark" if "pyspark" in text else "user's process"


def once(archive: bool, cache: str) -> dict[str, Any]:
    """A start in a new process; `cache` keeps the archive from start to start."""
    place = tempfile.mkdtemp(prefix="tidemill-start-")
    try:
        environment = {**os.environ, "XDG_CACHE_HOME": cache, "TIDEMILL_JAVA_ARCHIVE": "on" if archive else "off"}
        code = f"from benchmarks.start import child; child({place!r})"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return dict(json.loads(done.stdout.splitlines()[-1]))
    finally:
        shutil.rmtree(place)


def _await_archive(cache: str) -> None:
    """The JVM writes the archive after its Python has ended."""
    import time

    folder = os.path.join(cache, "tidemill", "java-classes")
    until, size = time.monotonic() + 120, -1
    while time.monotonic() < until:
        found = [os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)] if os.path.isdir(folder) else []
        if found and sum(found) == size > 0:
            return
        size = sum(found)
        time.sleep(2)


def run(quick: bool, steps: Any) -> Result:
    rounds = 1 if quick else 5
    steps.expect(1 + 2 * rounds)
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    cache = tempfile.mkdtemp(prefix="tidemill-start-cache-")
    try:
        first = once(True, cache)
        _await_archive(cache)
        steps.done("the first start, which makes the archive")
        for number in range(rounds):
            for archive in (True, False) if number % 2 else (False, True):
                found[archive].append(once(archive, cache))
                steps.done("with the archive" if archive else "without")
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    return _result(first, found)


def _result(first: dict[str, Any], found: dict[bool, list[dict[str, Any]]]) -> Result:
    result = Result(
        "Start",
        "From `db.run()` in a new process to the answer of `db.query`, with 1,200 generated rows and two views: five"
        " starts with the archive of Java's classes and five without, in turns; medians. The very first start of a"
        " user, which also makes the archive when it ends, stands beside them. A part ends when what it names has"
        " happened; the parts follow each other, while processes start side by side within them.",
    )
    columns = {"with the archive": found[True], "without": found[False], "the very first": [first]}
    rows: list[list[Any]] = []
    for i, part in enumerate(PARTS):
        rows.append(
            [
                part,
                *(median(r["ends"][i] - (r["ends"][i - 1] if i else 0.0) for r in runs) for runs in columns.values()),
            ]
        )
    rows.append(["all", *(median(r["ends"][-1] for r in runs) for runs in columns.values())])
    result.tables.append(Table("Seconds until", ["", *columns], rows))
    kinds = sorted({kind for runs in columns.values() for r in runs for kind in r["processor"]})
    spent = [
        [kind, *(median(r["processor"].get(kind, 0.0) for r in runs) for runs in columns.values())] for kind in kinds
    ]
    spent.append(["all", *(median(sum(r["processor"].values()) for r in runs) for runs in columns.values())])
    result.tables.append(Table("Seconds of processor time", ["process", *columns], spent))
    taken = median(r["ends"][-1] for r in found[True])
    result.checks.append(
        Check(
            "from run() in a new process to the first answer, two quiet cores",
            f"< {TARGET_S:g} s",
            f"{taken:.1f} s",
            taken < TARGET_S,
        )
    )
    result.series = {"parts": [[row[1], row[2]] for row in rows[:-1]]}
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """The parts of a start on top of each other."""
    from benchmarks import plots  # who only wants numbers needs nothing to draw with

    figure, (axes,) = plots.panels(1)
    below = [0.0, 0.0]
    for name, values in zip(PARTS, series["parts"], strict=True):
        axes.bar(["with the archive", "without"], values, 0.6, bottom=below, label=name)
        below = [b + v for b, v in zip(below, values, strict=True)]
    axes.set(title="from run() to the first answer", ylabel="seconds")
    axes.legend(fontsize=7)
    return [plots.save(figure, folder, "start", "where the seconds of a start go")]
