"""`python -m benchmarks [NAME …] [--quick] [--events N]`: run, write docs/benchmarks, say what was met and missed."""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.process import DOCS, perform
from benchmarks.report import ORDER, render, shown

QUICK = Path(tempfile.gettempdir()) / "tidemill-benchmarks" / "quick"
console = Console(soft_wrap=True)


def run(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"some of {', '.join(ORDER)}; all when none is named")
    ] = None,
    quick: Annotated[bool, typer.Option(help="small sizes, about two minutes; writes to a temporary folder")] = False,
    events: Annotated[int | None, typer.Option(help="of nexmark, in the place of 20 million", min=50)] = None,
    out: Annotated[Path | None, typer.Option(help="where to write; docs/benchmarks unless --quick")] = None,
) -> None:
    """Run benchmarks, each in its own process, and write results, plots and the page."""
    chosen = names or list(ORDER)
    unknown = [n for n in chosen if n not in ORDER]
    if unknown:
        raise typer.BadParameter(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(ORDER)}")
    folder = out or (QUICK if quick else DOCS)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    with Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
        console=console,
    ) as progress:
        for name in chosen:
            sized = {"events": events} if name == "nexmark" and events is not None else {}
            if not _one(name, quick, folder, progress, sized):
                failed.append(name)
    results = _stored(folder)
    (folder / "README.md").write_text(render(results), encoding="utf-8")
    _tell({n: results[n] for n in chosen if n in results})
    console.print(f"written to {folder}")
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}")
        sys.exit(1)


def _one(name: str, quick: bool, folder: Path, progress: Progress, options: dict[str, Any]) -> bool:
    """Run one benchmark in a fresh process; True when it came to its end."""
    fresh = multiprocessing.get_context("spawn")
    near, far = fresh.Pipe()
    process = fresh.Process(target=perform, args=(far, name, quick, str(folder), options))
    task = progress.add_task(name, total=None, what="")
    process.start()
    far.close()
    good = False
    try:
        while True:
            kind, value = near.recv()
            if kind == "expect":
                progress.update(task, total=value)
            elif kind == "done":
                progress.update(task, advance=1, what=value)
            elif kind == "result":
                results = _stored(folder)
                results[name] = value
                (folder / "results.json").write_text(
                    json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
                )
                good = True
            else:
                console.print(value, markup=False, highlight=False)
    except EOFError:
        process.join()
    progress.update(task, what="" if good else "failed")
    return good


def _stored(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _tell(results: dict[str, Any]) -> None:
    for name, result in results.items():
        console.print(f"\n[bold]{name}[/bold]: {result['title']}")
        for table in result["tables"]:
            console.print(f"  {table['title']}", markup=False)
            rows = [table["columns"], *([shown(v) for v in row] for row in table["rows"])]
            widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
            for row in rows:
                console.print(
                    "    " + "  ".join(v.rjust(w) for v, w in zip(row, widths, strict=True)),
                    markup=False,
                    highlight=False,
                )
        for check in result["checks"]:
            mark = "[green]met[/green]   " if check["met"] else "[red]missed[/red]"
            console.print(f"  {mark} {check['what']}: {check['measured']} (target {check['target']})", highlight=False)


if __name__ == "__main__":
    typer.run(run)
