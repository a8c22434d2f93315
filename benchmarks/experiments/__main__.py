"""`python -m benchmarks.experiments [NAME …] [--quick]`: run, write docs/experiments, say which targets were met."""

from __future__ import annotations

import importlib
import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.experiments.report import ORDER, render
from benchmarks.report import machine

DOCS = Path(__file__).resolve().parents[2] / "docs" / "experiments"
QUICK = Path(tempfile.gettempdir()) / "tidemill-experiments" / "quick"
console = Console(soft_wrap=True)


class Steps:
    """What an experiment says of its progress, as a bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def expect(self, count: int) -> None:
        self._progress.update(self._task, total=count)

    def done(self, what: str = "") -> None:
        self._progress.update(self._task, advance=1, what=what)


def run(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"some of {', '.join(ORDER)}; all when none is named")
    ] = None,
    quick: Annotated[bool, typer.Option(help="small sizes; writes to a temporary folder")] = False,
    out: Annotated[Path | None, typer.Option(help="where to write; docs/experiments unless --quick")] = None,
) -> None:
    """Run experiments and write results, plots and the page."""
    chosen = names or list(ORDER)
    unknown = [n for n in chosen if n not in ORDER]
    if unknown:
        raise typer.BadParameter(f"there are no experiments {', '.join(unknown)}; there are {', '.join(ORDER)}")
    folder = out or (QUICK if quick else DOCS)
    folder.mkdir(parents=True, exist_ok=True)
    with Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
        console=console,
    ) as progress:
        for name in chosen:
            _perform(name, quick, folder, Steps(progress, progress.add_task(name, total=None, what="")))
    results = _stored(folder)
    (folder / "README.md").write_text(render(results), encoding="utf-8")
    missed = _tell({n: results[n] for n in chosen})
    console.print(f"written to {folder}; {missed} missed")


def _perform(name: str, quick: bool, folder: Path, steps: Steps) -> None:
    module: Any = importlib.import_module(f"benchmarks.experiments.{name}.experiment")
    facts, began = machine(), time.time()
    result = json.loads(json.dumps(module.run(quick, steps).to_dict()))
    plots = module.draw(result.pop("series"), str(folder))
    result |= {"plots": plots, "machine": facts, "quick": quick, "seconds": time.time() - began}
    results = _stored(folder) | {name: result}
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")


def _stored(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _tell(results: dict[str, Any]) -> int:
    missed = 0
    for name, result in results.items():
        console.print(f"\n[bold]{name}[/bold]: {result['title']}")
        for check in result["checks"]:
            mark = "[green]met[/green]   " if check["met"] else "[red]missed[/red]"
            missed += not check["met"]
            console.print(f"  {mark} {check['what']}: {check['measured']} (target {check['target']})", highlight=False)
    return missed


if __name__ == "__main__":
    typer.run(run)
