"""Aggregates that do not invert beside SUM, over the same join of windows: CPU time, memory, and their ratio to SUM.

    python -m benchmarks.joins.aggregates [--packets 70000] [--windows 14] [--only MAX] [--window sliding]

Every query runs in a process of its own, in one pipeline, so its peak memory is its own. MIN and MAX meet as many pairs
as SUM (`runtime/joins/value_presence.py`); what they add is a row for each value that comes or goes. COUNT(DISTINCT)
adds the lists of values that the reader makes of each fragment and sends, which is also most of its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.joins import streams

SIPS = 558
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
WINDOWS = {"tumbling": "[RANGE 10 SECONDS SLIDE 10 SECONDS]", "sliding": "[RANGE 10 SECONDS SLIDE 2 SECONDS]"}


def measure(folder: str, select: str, window: str, output: str) -> dict[str, float]:
    """CPU seconds of readers and operators, and the process's peak memory above that before the run, in MB."""
    columns = "(sip INT, len INT, ts TIMESTAMP)"
    made = [
        f"REGISTER SOURCE {n}Source {columns} FROM FILES '{folder}/{n}/*.parquet' WITH (timestamp = 'ts');"
        f"CREATE TAGGED STREAM {n} OVER {n}Source;"
        for n in streams.NAMES
    ]
    view = (
        f"CREATE {output} VIEW V AS SELECT A.sip, {select} FROM PacketsA AS A {window}, PacketsB AS B {window}"
        f" WHERE A.sip = B.sip GROUP BY A.sip;"
    )
    with data.scratch("join-aggregates") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute("".join(made) + view)
        before = _peak()
        db.run(final=True)
        return {
            "seconds": db.pipeline_seconds,
            "reader": db.spent["reader"],
            "stage": db.spent["stage"],
            "memory": _peak() - before,
            "rows": db.query("SELECT count(*) AS n FROM V").to_pylist()[0]["n"],
        }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _alone(arguments: list[str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.joins.aggregates", *arguments], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=70_000)
    parser.add_argument("--windows", type=int, default=14)
    parser.add_argument("--only", action="append")
    parser.add_argument("--window", choices=WINDOWS, default="tumbling")
    parser.add_argument("--output", default="RSTREAM")
    parser.add_argument("--one")
    given = parser.parse_args()
    folder = streams.streams(given.packets, given.windows, SIPS)
    if given.one:
        first, again = (measure(folder, SELECTS[given.one], WINDOWS[given.window], given.output) for _ in range(2))
        print(json.dumps(again | {"memory": first["memory"]}))  # kernels are compiled the first time
        return
    names = ["SUM", *(n for n in given.only or SELECTS if n != "SUM")]
    same = [
        "--packets",
        str(given.packets),
        "--windows",
        str(given.windows),
        "--window",
        given.window,
        "--output",
        given.output,
    ]
    found = {name: _alone([*same, "--one", name]) for name in names}
    print(f"{'':22}{'CPU s':>8}{'reader':>8}{'stage':>8}{'ratio':>8}{'MB':>8}{'rows':>10}")
    for name, one in found.items():
        print(
            f"{name:22}{one['seconds']:8.2f}{one['reader']:8.2f}{one['stage']:8.2f}"
            f"{one['seconds'] / found['SUM']['seconds']:8.2f}{one['memory']:8.0f}{one['rows']:10,.0f}"
        )


if __name__ == "__main__":
    main()
