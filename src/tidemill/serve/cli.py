"""The commands of `tidemill`. Each one parses its arguments here and does its work in a module of its own."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.interrupts import plain_interrupts
from tidemill.serve import opening
from tidemill.serve.problems import report_errors
from tidemill.serve.serve_command import serve
from tidemill.serve.terminal import console
from tidemill.version import __version__

if TYPE_CHECKING:
    from tidemill.serve.shell import Shell

app = typer.Typer(
    name="tidemill",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="DIR",
        help="Directory of the database; made when missing. Without it, a temporary one that is removed at the end.",
    ),
]
Clock = Annotated[str | None, typer.Option(help="Length of one clock unit, for example '1 second'.")]
Shards = Annotated[int | None, typer.Option(min=1, help="How many shards a new database has; the cores if not given.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidemill {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continuous SQL on Apache Spark: views on streams, refreshed when you say.

    Begin with **tidemill demo**, then try **tidemill sql**.
    """


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.sql", exists=True, dir_okay=False, help="What to execute.")],
    db: Db = None,
    watch: Annotated[bool, typer.Option("--watch", help="Stay until ctrl-C and print changes as they come.")] = False,
    clock: Clock = None,
    shards: Shards = None,
) -> None:
    """Execute a file, take in all finite input, and answer the SELECTs at its end.

    Examples:

        tidemill run examples/parking_lot.sql

        tidemill run pipeline.sql --db /data/lot --watch
    """
    from tidemill.serve.run import run_script

    out, errors, text = console(), console(stderr=True), _read(file)
    with report_errors(errors, text, str(file)), opening.database(db, out, clock=clock, shards=shards) as opened:
        try:
            run_script(out, opened, text, watch)
        except KeyboardInterrupt:
            out.print("interrupted" + (f"; the same command goes on where {db} stopped" if db else ""))
            raise typer.Exit(130) from None


@app.command()
def sql(
    db: Db = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Start no job; \\run takes in finite input.")] = False,
    clock: Clock = None,
    shards: Shards = None,
) -> None:
    """An interactive shell; statements end with a semicolon, \\help lists the rest.

    From a pipe it executes statement by statement, takes in the data before a SELECT, and stops at the first error.

    Examples:

        tidemill sql --db /data/lot

        echo "SELECT * FROM HotRooms;" | tidemill sql --db /data/lot
    """
    from tidemill.engine.script import read_arriving
    from tidemill.serve.shell import Shell, feed_lines

    out, live = console(), sys.stdin.isatty() and sys.stdout.isatty()
    with report_errors(console(stderr=True)), opening.database(db, out, clock=clock, shards=shards) as opened:
        shell = Shell(opened, out, live=live, no_run=no_run)
        if live:
            _converse(shell, db)
        elif not feed_lines(shell, read_arriving(sys.stdin)):
            raise typer.Exit(1)


app.command()(serve)


@app.command()
def explain(
    target: Annotated[str, typer.Argument(metavar='FILE.sql|"SELECT …"', help="What to explain.")],
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="The plan as a Mermaid drawing.")] = False,
) -> None:
    """Show how queries would be executed, without executing them.

    A file without --db explains itself: what it registers and creates exists for this command only.

    Examples:

        tidemill explain examples/parking_lot.sql --mermaid

        tidemill explain "SELECT VType, count(*) FROM ParkLot GROUP BY VType" --db /data/lot
    """
    from tidemill.serve.explain import plans_of, print_plans, read_target

    if as_json and mermaid:
        raise typer.BadParameter("choose one of --json and --mermaid")
    try:
        text, name = read_target(target)
    except OSError as error:
        raise typer.BadParameter(f"{target}: {error.strerror}") from None
    out, errors = console(), console(stderr=True)
    with report_errors(errors, text, name), opening.database(db, errors) as opened:
        plans = plans_of(opened, text, fresh=db is None)
        print_plans(out, plans, "json" if as_json else "mermaid" if mermaid else "text")


@app.command()
def status(
    db: Annotated[str, typer.Option("--db", metavar="DIR", help="Directory of the database.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON; with --watch one line each second.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until ctrl-C.")] = False,
) -> None:
    """Sources, views, lag and state of a database, also while another process runs it.

    Example:

        tidemill status --db /data/lot --watch
    """
    from tidemill.serve.status import show_status

    with report_errors(console(stderr=True)):
        show_status(console(), lambda: opening.stored_status(db), as_json, watch)


@app.command()
def skip(
    source: Annotated[str, typer.Argument(help="The source whose records are skipped.")],
    db: Annotated[str, typer.Option("--db", metavar="DIR", help="Directory of the database.")],
) -> None:
    """Turn a source's records in a failed batch into dead letters; the next start continues after that batch.

    Example:

        tidemill skip Orders --db /data/lot
    """
    out = console()
    with report_errors(console(stderr=True)), opening.open_existing(db, out) as opened:
        name = source.replace('"', '""')
        out.print(str(opened.execute(f'SKIP BATCH OF "{name}"')))


@app.command()
def backup(
    db: Annotated[str, typer.Argument(metavar="DB", help="Directory of the database.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new directory for the backup.")],
    copy: Annotated[
        bool,
        typer.Option(
            "--copy",
            help="Copy all bytes; without it, files that never change are hard "
            "links where TARGET is on the same file system.",
        ),
    ] = False,
) -> None:
    """Back a database up as it is after a micro-batch, also while another process runs it.

    In it: definitions, views, state, dead letters, and what waits on ports. Not in it: files that sources read, files
    that sinks wrote.

    Example:

        tidemill backup /data/lot /backups/lot-monday
    """
    from tidemill.serve.backup import run_backup

    with report_errors(console(stderr=True)):
        run_backup(console(), db, target, links=not copy)


@app.command()
def restore(
    backup: Annotated[str, typer.Argument(metavar="BACKUP", help="Directory that tidemill backup made.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new directory for the database.")],
) -> None:
    """Make a database from a backup, after checking every file in it. It continues where the backup was made.

    Example:

        tidemill restore /backups/lot-monday /data/lot
    """
    from tidemill.serve.backup import run_restore

    with report_errors(console(stderr=True)):
        run_restore(console(), backup, target)


@app.command()
def rescale(
    db: Annotated[str, typer.Argument(metavar="DB", help="Directory of the database.")],
    shards: Annotated[int, typer.Option("--shards", min=1, max=4096, help="How many shards it shall have.")],
) -> None:
    """Give a database that no process runs another number of shards; all answers stay as they are.

    Example:

        tidemill rescale /data/lot --shards 8
    """
    out = console()
    with report_errors(console(stderr=True)), opening.open_existing(db, out) as opened:
        out.print(f"{db}: {opened.rescale(shards)}")


@app.command()
def doctor(
    db: Db = None,
    port: Annotated[list[int] | None, typer.Option(min=1, max=65_535, help="A port that should be free.")] = None,
) -> None:
    """Check Java, versions, disk and ports; exit code 1 when something is missing.

    Example:

        tidemill doctor --db /data/lot --port 5501 --port 5502
    """
    from tidemill.serve.doctor import examine, print_checks

    if not print_checks(console(), examine(db, port or [])):
        raise typer.Exit(1)


@app.command()
def calibrate(
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="DIR",
            help="Let this database plan with it from now on; "
            "without it, all databases of this user that say nothing else.",
        ),
    ] = None,
) -> None:
    """Measure what sharing, joins and keyed streams cost on this machine: probes, updates, rows. Takes seconds.

    Example:

        tidemill calibrate --db /data/lot
    """
    from tidemill.serve.calibrate import run_calibration

    out = console()
    with report_errors(console(stderr=True)):
        costs = run_calibration(out)
        if db is not None:
            with opening.database(db, out) as opened:
                opened.execute(f"SET eviction_cost = {costs.ratio}")
            out.print(f"{db} plans with eviction_cost = {costs.ratio}")


@app.command()
def demo(
    seconds: Annotated[float | None, typer.Option(min=0, help="Seconds of results after which the demo ends.")] = None,
    db: Db = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a screen; ends after 20 s.")] = False,
    sites: Annotated[bool, typer.Option("--sites", help="Two sites on this machine, and what crosses.")] = False,
) -> None:
    """A parking lot and hot rooms, live: generated streams, views on views, answers that refresh when they should.

    Examples:

        tidemill demo

        tidemill demo --plain --seconds 15

        tidemill demo --sites
    """
    from tidemill.serve.demo import run_demo
    from tidemill.serve.demo_sites import run_sites_demo

    out = console()
    with report_errors(console(stderr=True)), opening.directory(db, out) as where:
        if sites:
            run_sites_demo(out, where, seconds)
        else:
            run_demo(out, where, seconds, plain)


def main() -> None:
    """The entry point. A reader that closes the pipe ends the command quietly."""
    code: object = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    if "pyspark" not in sys.modules:
        sys.exit(code)  # type: ignore[arg-type]
    # Threads of the bridge to Java keep objects of DuckDB alive, whose bindings print pages about it at the very end.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _converse(shell: Shell, directory: str | None) -> None:
    from tidemill.serve.shell_input import converse, make_session

    shell.console.print("Tidemill. Statements end with ;  \\help helps, \\q leaves.", style="bold")
    shell.stale = bool(shell.db.status().get("views"))
    with plain_interrupts():
        converse(shell, make_session(shell, directory))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8 text") from None


if __name__ == "__main__":
    main()
