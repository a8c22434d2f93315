"""Memory of the Python side over a finite run: the user's process and every Python process that Spark starts.

What counts is the proportional set size: pages that forked workers share are counted once in all. The JVM is not Python
and is shown beside it.
"""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

from benchmarks import data, plots
from benchmarks.report import Check, Result, Table
from benchmarks.sides import Side, quiet
from benchmarks.throughput.questions import FILES, VIEWS

TARGET_GB, EVERY = 2.0, 0.1
RAW = "CREATE STREAMED VIEW v AS SELECT k, len FROM S WHERE proto = 1"
WORKS = {"count": VIEWS["count"], "rows": RAW}
NAMES = {"count": "per-key count every 10 s", "rows": "raw rows of one protocol, STREAMED"}


class Run:
    """One finite run in a fresh process."""

    def run(self, folder: str, work: str) -> dict[str, Any]:
        import tidemill

        with data.scratch("memory") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            db.execute(f"""REGISTER SOURCE P (k INT, proto INT, len INT, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'
                           WITH (timestamp = 'ts'); CREATE TAGGED STREAM S OVER P; {WORKS[work]}""")
            summary = db.run(final=True)
            kept = db.status()["views"][0]["rows"]
            return {"rows": summary.rows, "seconds": summary.seconds, "batches": summary.batches, "kept": kept}


class Sampler:
    """Memory of a process and everything below it, in bytes."""

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.samples: list[dict[str, float]] = []
        self.began = time.perf_counter()

    def sample(self) -> None:
        """One sample; a process that ends while it is looked at counts nothing."""
        found = {
            "at": time.perf_counter() - self.began,
            "driver": 0.0,
            "workers": 0.0,
            "rss": 0.0,
            "jvm": 0.0,
            "processes": 0.0,
        }
        for process in [self.root, *self.root.children(recursive=True)]:
            try:
                if "python" in process.name().lower():
                    memory = process.memory_full_info()
                    found["driver" if process == self.root else "workers"] += memory.pss
                    found["rss"] += memory.rss
                    found["processes"] += 1
                else:
                    found["jvm"] += process.memory_info().rss
            except psutil.Error:
                continue
        self.samples.append(found)


def run(quick: bool, steps: Any) -> Result:
    rows = 2_000_000 if quick else 20_000_000
    folder = data.packets(rows, FILES)
    steps.expect(len(WORKS))
    result = Result(
        "Memory",
        f"A finite run over {rows:,} packet rows with Tidemill's own settings, from opening the database to the last"
        " answer: the memory of all Python processes (the user's process, Spark's planner and workers), sampled every"
        f" {EVERY:g} s."
        " Shared pages are counted once (proportional set size); the JVM is not included, its resident size is listed.",
    )
    lines = []
    for work in WORKS:
        with Side(Run) as side:
            sampler = Sampler(side.pid)
            side.tell("run", folder, work)
            while not side.answered(EVERY):
                sampler.sample()
            done = side.answer()
        assert done["rows"] == rows, done
        peak = max(sampler.samples, key=lambda s: s["driver"] + s["workers"])
        top = (peak["driver"] + peak["workers"]) / 2**30
        lines.append(
            [
                NAMES[work],
                done["rows"],
                done["kept"],
                done["batches"],
                done["seconds"],
                top,
                peak["driver"] / 2**30,
                peak["workers"] / 2**30,
                int(peak["processes"]),
                max(s["rss"] for s in sampler.samples) / 2**30,
                max(s["jvm"] for s in sampler.samples) / 2**30,
            ]
        )
        result.checks.append(
            Check(f"peak of the Python side, {NAMES[work]}", f"< {TARGET_GB:g} GB", f"{top:.2f} GB", top < TARGET_GB)
        )
        result.series[work] = {
            key: [round(s[key] / (1 if key == "at" else 2**30), 4) for s in sampler.samples]
            for key in ("at", "driver", "workers", "jvm")
        }
        steps.done(NAMES[work])
    result.tables.append(
        Table(
            "Peaks, GB",
            [
                "query",
                "rows",
                "rows of the view",
                "batches",
                "run s",
                "Python in all",
                "user's process",
                "planner and workers",
                "Python processes",
                "sum of RSS",
                "JVM",
            ],
            lines,
        )
    )
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    figure, axes = plots.panels(len(series))
    for place, (work, found) in zip(axes, series.items(), strict=True):
        whole = [a + b for a, b in zip(found["driver"], found["workers"], strict=True)]
        plots.lines(
            place,
            NAMES[work],
            "seconds",
            "GB",
            [
                ("all Python processes", found["at"], whole),
                ("user's process", found["at"], found["driver"]),
                ("planner and workers", found["at"], found["workers"]),
            ],
            marks=False,
        )
        place.axhline(TARGET_GB, color="grey", linestyle=":")
        place.set_ylim(0, TARGET_GB * 1.1)
    return [plots.save(figure, folder, "memory", "memory of the Python side over a finite run")]
