"""What a benchmark gives back, and docs/benchmarks/README.md made of it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from benchmarks.markdown import link_papers, reflow

LIBRARIES = ("pyspark", "duckdb", "pyarrow", "numpy", "numba")
ORDER = (
    "throughput",
    "peers",
    "joins",
    "aggregates",
    "nexmark",
    "tagger",
    "shared_taggers",
    "state_cost",
    "memory",
    "live",
    "start",
    "neighbours",
    "planning",
    "fast_paths",
)


@dataclass
class Table:
    """Rows of plain values under column titles."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    note: str = ""


@dataclass
class Check:
    """Something promised, what was measured, and whether the promise is kept."""

    what: str
    target: str
    measured: str
    met: bool


@dataclass
class Result:
    """One benchmark: prose, tables, checks, and the series its plots are drawn from."""

    title: str
    setup: str
    tables: list[Table] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def machine() -> dict[str, Any]:
    """Cores, memory and versions, as far as they matter for a number."""
    import psutil

    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
        **{name: version(name) for name in LIBRARIES},
        "load_before": round(os.getloadavg()[0], 2),
        "taken": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def render(results: dict[str, Any]) -> str:
    """The page: all promises first, then each benchmark with its tables and plots."""
    known = [n for n in ORDER if n in results] + sorted(set(results) - set(ORDER))
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; one benchmark alone: `python -m benchmarks NAME`. Every comparison of times is one"
        " run in which the sides take turns, at least three times; numbers are medians, and the answers of both sides"
        " are checked to be equal before a number counts. Single runs are: the points of figure 6 at given arrival"
        " rates, memory, Spark and Flink over window aggregates and joins, and the choice of a setting. Flink is"
        " optional: it has libraries of its own, and `python -m benchmarks.peers --flink` makes an environment for it"
        " beside the inputs; the Python of an environment that is there already can be named in `TIDEMILL_FLINK`.",
        "",
        "| benchmark | promise | target | measured | |",
        "|---|---|---|---|---|",
    ]
    for name in known:
        for check in results[name]["checks"]:
            mark = "met" if check["met"] else "**missed**"
            lines.append(
                f"| [{name}](#{_anchor(results[name]['title'])}) | {check['what']} | {check['target']}"
                f" | {check['measured']} | {mark} |"
            )
    lines += ["", *_machines(results, known)]
    for name in known:
        lines += _section(results[name])
    return link_papers(reflow("\n".join(lines).rstrip() + "\n"), "../papers.md")


def _machines(results: dict[str, Any], known: Iterable[str]) -> list[str]:
    rows: dict[str, list[str]] = {}
    for name in known:
        facts = results[name]["machine"]
        shown = (
            f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']}; Python"
            f" {facts['python']}, Java {facts['java']}, " + ", ".join(f"{n} {facts[n]}" for n in LIBRARIES)
        )
        size = "quick sizes" if results[name]["quick"] else "full sizes"
        rows.setdefault(shown, []).append(
            f"{name}: {facts['taken']}, {size}, {results[name]['seconds']:.0f} s, load before {facts['load_before']}"
        )
    lines = ["## Machine", ""]
    for shown, runs in rows.items():
        lines += [shown + ".", "", *(f"- {run}" for run in runs), ""]
    return lines


def _section(result: dict[str, Any]) -> list[str]:
    lines = [f"## {result['title']}", "", result["setup"], ""]
    for plot in result["plots"]:
        lines += [f"![{plot['caption']}]({plot['file']})", ""]
    for table in result["tables"]:
        lines += [f"**{table['title']}**", ""]
        lines.append("| " + " | ".join(table["columns"]) + " |")
        lines.append("|" + "|".join("---" if i == 0 else "--:" for i in range(len(table["columns"]))) + "|")
        lines += ["| " + " | ".join(shown(v) for v in row) + " |" for row in table["rows"]]
        lines += ["", *([table["note"], ""] if table["note"] else [])]
    return lines


def shown(value: Any) -> str:
    """A value for people: thousands apart, three digits that matter.

    >>> shown(1234567), shown(0.12345), shown(12.345), shown("x")
    ('1,234,567', '0.123', '12.3', 'x')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _java() -> str:
    from tidemill.runtime.spark.session import java_home, java_version

    home = java_home()
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        return str(java_version(java))
    except (OSError, subprocess.SubprocessError):
        return "unknown"
