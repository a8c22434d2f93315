"""`tidemill run`: execute a file, take in the data, answer its questions; or keep running and show changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from tidemill.engine.script import Placed, place_statements, setup_and_questions
from tidemill.interrupts import plain_interrupts
from tidemill.plan.statements import (
    CreateSink,
    CreateTaggedStream,
    CreateView,
    RegisterSource,
    RegisterTable,
    Select,
    Subscribe,
)
from tidemill.plan.value_text import clean
from tidemill.serve.follow import Changes, check_alive, drain, follow
from tidemill.serve.render import format_count, format_size, grid
from tidemill.serve.results import print_result, print_table
from tidemill.serve.status import clock_text, views_table

if TYPE_CHECKING:
    from tidemill.engine import Database

LAST_CHANGES = 20
DECLARATIONS = (RegisterSource, RegisterTable, CreateTaggedStream, CreateView, CreateSink, Select)


@dataclass
class Standing:
    """What a file leaves running: its standing queries, and its views by their output."""

    queries: list[str] = field(default_factory=list)
    streamed: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def views_to_follow(self) -> list[str]:
        """The streamed views and standing queries; without any, all views."""
        return [*self.streamed, *self.queries] or self.others


class ProgressLine:
    """One line that always shows the latest micro-batch; batches are reported by another thread."""

    def __init__(self) -> None:
        self.spinner = Spinner("dots")
        self.began = time.monotonic()
        self.text = "starting Spark and the first micro-batch"

    def __call__(self, report: dict[str, Any]) -> None:
        self.text = progress_text(report)

    def __rich__(self) -> Spinner:
        self.spinner.update(text=Text(f"{self.text} · {time.monotonic() - self.began:.0f} s"))
        return self.spinner


def progress_text(report: dict[str, Any]) -> str:
    """The numbers of one micro-batch.

    >>> progress_text({"batch": 3, "total_rows": 12000, "rows_per_second": 4000.0, "clock": None, "state_rows": 5})
    '12,000 rows · 4,000 rows/s · batch 3 · clock – · state 5 rows (0 B)'
    """
    rows, rate = report.get("total_rows") or 0, report.get("rows_per_second") or 0
    return (
        f"{format_count(rows)} rows · {format_count(rate)} rows/s"
        f" · batch {report.get('batch')} · clock {clock_text(report.get('clock'))}"
        f" · state {format_count(report.get('state_rows') or 0)} rows ({format_size(report.get('state_bytes') or 0)})"
    )


def run_script(console: Console, db: Database, text: str, watch: bool) -> None:
    """The whole command, on an open database."""
    setup, questions = setup_and_questions(place_statements(text))
    standing = execute_setup(console, db, setup)
    if watch:
        watch_changes(console, db, standing)
    else:
        print_summary(console, db, run_to_end(console, db, final=True))
        for name in standing.queries:
            _print_last_changes(console, name, db.changes(name))
    for question in questions:
        answer(console, db, question)


def execute_setup(console: Console, db: Database, setup: list[Placed]) -> Standing:
    """Execute the declarations, and return what they leave running.

    A declaration that the catalog already has with the same text is skipped: running the same file again continues
    where it was stopped.
    """
    standing, known = Standing(), names_by_definition(db)
    for part in setup:
        name = known.get(part.statement.text) if isinstance(part.statement, DECLARATIONS) else None
        if name is not None:
            console.print(Text(f"{clean(name)} stands already", style="dim"))
        else:
            name = _execute(console, db, part)
        if isinstance(part.statement, CreateView) and part.statement.output != "virtual":
            streamed = part.statement.output == "streamed"
            (standing.streamed if streamed else standing.others).append(part.statement.name)
        elif isinstance(part.statement, Select) and part.statement.output is not None and name is not None:
            standing.queries.append(name)
    return standing


def names_by_definition(db: Database) -> dict[str, str]:
    """The name of each object in the catalog by the text that created it."""
    table = db.execute("SHOW ALL")
    return dict(zip(table.column("definition").to_pylist(), table.column("name").to_pylist(), strict=True))


def _execute(console: Console, db: Database, part: Placed) -> str | None:
    """Execute and print; returns the name of what was created."""
    result = db.execute(part.text)
    if isinstance(part.statement, Subscribe):
        drain(console, ", ".join(part.statement.names), result)
        return None
    print_result(console, result)
    return getattr(result, "name", None)


def answer(console: Console, db: Database, question: Placed) -> None:
    """Print the answer under the question."""
    console.print(Text("\n" + question.statement.text, style="bold"))
    result = db.execute(question.text)
    if isinstance(question.statement, Subscribe):
        drain(console, ", ".join(question.statement.names), result)
    else:
        print_result(console, result)


def run_to_end(console: Console, db: Database, final: bool = False) -> Any:
    """Take in all finite input while a line shows the progress; returns the engine's summary."""
    with progress_line(console) as line:
        return db.run(progress=line, final=final)


@contextmanager
def progress_line(console: Console) -> Iterator[ProgressLine]:
    """A progress line that disappears at the end; none if the console is not a terminal."""
    line = ProgressLine()
    if not console.is_terminal:
        yield line
        return
    with Live(line, console=console, transient=True, refresh_per_second=8):
        yield line


def print_summary(console: Console, db: Database, summary: Any) -> None:
    """What the run did, and how many rows each view holds now."""
    table = grid("Run", ">rows", ">seconds", ">rows/s", ">micro-batches", ">late", ">bad")
    rate = summary.rows / summary.seconds if summary.seconds else 0
    table.add_row(
        format_count(summary.rows),
        f"{summary.seconds:,.2f}",
        format_count(round(rate)),
        format_count(summary.batches),
        format_count(summary.late),
        format_count(summary.bad),
    )
    console.print(table)
    console.print(views_table(db.status()))
    for warning in summary.warnings:
        console.print(Text(warning, style="yellow"))
    if summary.bad or summary.late:
        console.print(Text("SHOW DEAD LETTERS lists the late and bad records", style="yellow"))


def watch_changes(console: Console, db: Database, standing: Standing) -> None:
    """Print changes until ctrl-C; the last line is the status."""
    with plain_interrupts(), progress_line(console) as line:
        try:
            db.start()
        except KeyboardInterrupt:
            return
        subscriptions: dict[str, Changes] = {name: db.subscribe(name) for name in standing.views_to_follow()}
        try:
            follow(console, subscriptions, lambda: db.is_running, between=lambda: line(_report(db.status())))
            check_alive(db)
        finally:
            line.text = "stopping"
            db.stop()


def _report(status: dict[str, Any]) -> dict[str, Any]:
    """A status as a progress report."""
    sources, state = status.get("sources") or [], status.get("state") or {}
    return {
        "batch": status.get("batch"),
        "clock": status.get("clock"),
        "total_rows": sum(source.get("rows") or 0 for source in sources),
        "rows_per_second": sum(source.get("rows_per_second") or 0 for source in sources),
        "state_rows": state.get("rows"),
        "state_bytes": state.get("bytes"),
    }


def _print_last_changes(console: Console, name: str, changes: pa.Table) -> None:
    left_out = max(0, changes.num_rows - LAST_CHANGES) if console.is_terminal else 0
    title = f"Changes of {name}" + (
        f", the last {LAST_CHANGES} of {format_count(changes.num_rows)}" if left_out else ""
    )
    print_table(console, changes.slice(left_out), title)
