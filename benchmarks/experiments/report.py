"""docs/experiments/README.md: each figure with what the paper found and what came out here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.markdown import link_papers, reflow
from benchmarks.report import shown

ORDER = ("phantoms", "weaving", "joins", "pipelines", "sites")


def render(results: dict[str, Any]) -> str:
    """The page: all checks first, then each paper with its figures and tables."""
    known = [name for name in ORDER if name in results]
    lines = [
        "# Experiments",
        "",
        "The papers' experiments, repeated with our implementation. Written by `python -m benchmarks.experiments`;"
        " one paper alone: `python -m benchmarks.experiments phantoms`; small sizes: `--quick`.",
        "",
        "| experiments | what | target | measured | |",
        "|---|---|---|---|---|",
    ]
    for name in known:
        for check in results[name]["checks"]:
            mark = "met" if check["met"] else "**missed**"
            lines.append(f"| {name} | {check['what']} | {check['target']} | {check['measured']} | {mark} |")
    lines += _missed(results, known)
    for name in known:
        lines += ["", f"## {results[name]['title']}", "", results[name]["setup"], ""]
        facts = results[name]["machine"]
        size = "quick sizes" if results[name]["quick"] else "full sizes"
        lines += [
            f"Run on {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, numpy {facts['numpy']},"
            f" numba {facts['numba']}: {facts['taken']}, {size}, {results[name]['seconds']:.0f} s.",
            "",
        ]
        for plot in results[name]["plots"]:
            lines += _figure(plot)
        for table in results[name]["tables"]:
            lines += _table(table)
    return link_papers(reflow("\n".join(lines).rstrip() + "\n"), "../papers.md")


def _missed(results: dict[str, Any], known: Iterable[str]) -> list[str]:
    """Why checks are missed, where the experiment says so."""
    listed = [
        f"- **{name}: {check['what']}** ({check['measured']}, target {check['target']}). {check['why']}"
        for name in known
        for check in results[name]["checks"]
        if not check["met"] and check.get("why")
    ]
    return ["", "## Missed, and why", "", *listed] if listed else []


def _figure(plot: dict[str, str]) -> list[str]:
    lines = [f"### {plot['title']}", ""] if "title" in plot else []
    lines += [f"![{plot['caption']}]({plot['file']})", ""]
    if "paper" in plot:
        lines += [f"*Paper:* {plot['paper']}", "", f"*Here:* {plot['here']}", ""]
    return lines


def _table(table: dict[str, Any]) -> list[str]:
    lines = [f"**{table['title']}**", "", "| " + " | ".join(table["columns"]) + " |"]
    lines.append("|" + "|".join("---" if i == 0 else "--:" for i in range(len(table["columns"]))) + "|")
    lines += ["| " + " | ".join(_cell(v) for v in row) + " |" for row in table["rows"]]
    return [*lines, "", *([table["note"], ""] if table["note"] else [])]


def _cell(value: Any) -> str:
    """Like a benchmark's cell, but costs near one keep three decimals.

    >>> _cell(1.0163), _cell(1234), _cell(55.25)
    ('1.016', '1,234', '55.2')
    """
    return f"{value:.3f}" if isinstance(value, float) and abs(value) < 10 else shown(value)
