"""`tidemill sql`: statements in, results out. Nothing here needs a terminal; reading lines is in shell_input.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tidemill.engine.script import Placed, group_definitions, join_group, place_statements, take_complete
from tidemill.errors import TidemillError
from tidemill.interrupts import plain_interrupts
from tidemill.plan.statements import CreateSink, CreateView, Select, Subscribe
from tidemill.plan.value_text import clean
from tidemill.serve.follow import check_alive, drain, follow
from tidemill.serve.problems import describe
from tidemill.serve.results import print_result
from tidemill.serve.run import print_summary, run_to_end
from tidemill.serve.status import status_view

if TYPE_CHECKING:
    from tidemill.engine import Database

META = {
    "\\help": "this text",
    "\\status": "sources, views, lag, state",
    "\\run": "take in all finite input now, then stop (with --no-run, or when piped)",
    "\\plan": "the plan of everything; \\plan NAME for one view",
    "\\timing": "show how long statements take, or stop showing it",
    "\\q": "leave",
}
EXAMPLES = """\
REGISTER SOURCE Readings (RoomID INTEGER, Temperature DOUBLE, ts TIMESTAMP)
  FROM GENERATE (rate = 20, RoomID = 'uniform(1,9)', Temperature = 'normal(80,8)', start = 'now')
  WITH (timestamp = 'ts');
CREATE TAGGED STREAM Rooms OVER Readings KEY RoomID;
CREATE VIEW Hot AS SELECT RoomID, Temperature FROM R(Rooms) SYNC EVERY 2 SECONDS WHERE Temperature > 85;
SELECT * FROM Hot;            -- the answer of this moment
SUBSCRIBE Hot;                -- its changes as they come; ctrl-C ends the subscription
SELECT STREAMED RoomID FROM R(Rooms) WHERE Temperature > 95;   -- a standing query, live"""
_PLAIN_WORDS = {
    "help": "\\help",
    "?": "\\help",
    "\\?": "\\help",
    "\\h": "\\help",
    "exit": "\\q",
    "quit": "\\q",
    "\\quit": "\\q",
    "\\exit": "\\q",
}


@contextmanager
def spinner(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """A spinner while the user waits; yields a function that changes its text."""
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(text) as status:
        yield status.update


def wait_for_batch(db: Database, before: Any, seconds: float = 20.0) -> bool:
    """Wait at most `seconds` until a micro-batch after `before` is done; True if it is."""
    end = time.monotonic() + seconds
    while db.is_running and time.monotonic() < end:
        if db.status().get("batch") != before:
            return True
        time.sleep(0.1)
    return False


class Leave(Exception):
    """The user is done."""


@dataclass
class Shell:
    """One session with one database.

    The job starts with the first statement that needs it. If `live` is False (a script in a pipe), such a statement
    takes in all finite input instead, so that the next SELECT sees all data.
    """

    db: Database
    console: Console
    live: bool = True
    no_run: bool = False
    timing: bool = False
    stale: bool = False
    failed: bool = False
    fed: int = 0

    def feed(self, text: str) -> None:
        """Execute complete input: a meta command or statements. An error is printed, and the rest is skipped."""
        self.failed, self.fed = False, self.fed + 1
        command = parse_meta(text)
        try:
            with plain_interrupts():
                if command is not None:
                    self.execute_meta(*command)
                else:
                    for group in group_definitions(place_statements(text)):
                        self.execute_statement(group[0]) if len(group) == 1 else self.execute_definitions(group)
                    if self.live and self.stale:
                        self.start()
        except TidemillError as error:
            self.failed = True
            self.console.print(describe(error, text))
        except KeyboardInterrupt:
            self.failed = True
            self.console.print(Text("interrupted", style="yellow"))
        except (Leave, BrokenPipeError):
            raise
        except Exception as error:
            # The shell survives unexpected errors, for example a lost connection to Java.
            self.failed = True
            self.console.print(Text(f"{type(error).__name__}: {clean(str(error))[:2000]}", style="bold red"))

    def execute_statement(self, part: Placed) -> None:
        """Execute one statement and print its result; a subscription is followed until ctrl-C."""
        self.prepare(part)
        began = time.perf_counter()
        result = self.db.execute(part.text)
        if isinstance(part.statement, Subscribe):
            self.show_changes(", ".join(part.statement.names), result)
        else:
            print_result(self.console, result)
        if isinstance(part.statement, Select) and part.statement.output is not None:
            self.show_standing(result.name)
        elif self.timing:
            self.console.print(Text(f"{(time.perf_counter() - began) * 1000:,.1f} ms", style="dim"))

    def execute_definitions(self, group: list[Placed]) -> None:
        """Execute definitions together: they are one change of the plan of a running job."""
        for part in group:
            self.prepare(part)
        began = time.perf_counter()
        self.db.execute(join_group(group), tell=lambda result: print_result(self.console, result))
        if self.timing:
            self.console.print(Text(f"{(time.perf_counter() - began) * 1000:,.1f} ms", style="dim"))

    def prepare(self, part: Placed) -> None:
        """Start the job, or take in the data, before a statement that needs it."""
        statement = part.statement
        if isinstance(statement, Subscribe):
            self.start()
        elif isinstance(statement, Select) and statement.output is None and self.stale:
            self.start() if self.live else self.run()
        self.stale = self.stale or isinstance(statement, (CreateView, CreateSink))

    def start(self) -> None:
        """Start the job unless it runs or `no_run` is set, and wait for its first micro-batch."""
        if self.no_run or self.db.is_running:
            self.stale = False
            return
        with spinner(self.console, "starting Spark …") as tell:
            before = self.db.status().get("batch")
            self.db.start()
            tell("first micro-batch …")
            with plain_interrupts():
                wait_for_batch(self.db, before)
        self.stale = False

    def run(self) -> None:
        """Take in all finite input, unless the job runs or `no_run` is set."""
        if self.no_run or self.db.is_running:
            return
        run_to_end(self.console, self.db)
        self.stale = False

    def show_standing(self, name: str) -> None:
        """Follow a standing query that has just been created; it keeps running after ctrl-C."""
        if self.no_run:
            return
        if not self.live:
            self.stale = True
            return
        self.start()
        self.show_changes(name, self.db.subscribe(name))
        self.console.print(
            Text(f"{name} goes on; SUBSCRIBE {name} shows it again, DROP QUERY {name} ends it", style="dim")
        )

    def show_changes(self, name: str, subscription: Any) -> None:
        """Print changes until ctrl-C; without a running job, those that are already stored."""
        if self.console.is_terminal:
            self.console.print(Text(f"changes of {name}; ctrl-C ends the subscription", style="dim"))
        if not self.db.is_running:
            total = drain(self.console, name, subscription)
        else:
            total = follow(self.console, {name: subscription}, alive=lambda: self.db.is_running)
            check_alive(self.db)
        self.console.print(Text(f"{total:,} changes", style="dim"))

    def execute_meta(self, name: str, argument: str) -> None:
        """Execute a command that is not SQL."""
        if name == "\\q":
            raise Leave
        if name == "\\status":
            self.console.print(status_view(self.db.status()))
        elif name == "\\plan":
            print_result(self.console, self.db.execute(f"EXPLAIN {argument}".strip()))
        elif name == "\\timing":
            self.timing = not self.timing
            self.console.print(Text(f"timing is {'on' if self.timing else 'off'}"))
        elif name == "\\run":
            self.run_now()
        else:
            self.print_help(None if name == "\\help" else name)

    def run_now(self) -> None:
        """Run to the end, also with `no_run`."""
        if self.db.is_running:
            self.console.print(Text("the job runs live already; \\status shows how far it is", style="yellow"))
            return
        print_summary(self.console, self.db, run_to_end(self.console, self.db))
        self.stale = False

    def print_help(self, unknown: str | None) -> None:
        """All commands, and statements to try."""
        if unknown:
            self.console.print(Text(f"there is no command {unknown}", style="bold red"))
        for name, what in META.items():
            self.console.print(Text(f"  {name:<10}", style="bold").append(what, style="not bold"))
        self.console.print(Text("\nStatements end with ;  for example:\n", style="bold"))
        self.console.print(Text(EXAMPLES))


def parse_meta(text: str) -> tuple[str, str] | None:
    """The command and its argument; None if the text is SQL.

    >>> parse_meta("exit"), parse_meta("\\\\plan ParkLot;"), parse_meta("SELECT 1;")
    (('\\\\q', ''), ('\\\\plan', 'ParkLot'), None)
    """
    line = text.strip().rstrip(";").strip()
    word, _, argument = line.partition(" ")
    if line.lower() in _PLAIN_WORDS:
        return _PLAIN_WORDS[line.lower()], ""
    if not word.startswith("\\") or "\n" in line:
        return None
    return _PLAIN_WORDS.get(word.lower(), word.lower()), argument.strip()


def feed_lines(shell: Shell, lines: Iterable[str]) -> bool:
    """Execute a script up to its end, \\q or the first error. True if there was no error."""
    with suppress(Leave):
        feed_blocks(shell, lines)
    return not shell.failed


def feed_blocks(shell: Shell, blocks: Iterable[str]) -> None:
    """Execute blocks of lines as they arrive, up to the first error.

    The statements of one block are executed together. Text after the last semicolon is a statement too.
    """
    waiting = ""
    for block in blocks:
        for piece in split_commands(waiting, block):
            complete, waiting = (piece, "") if parse_meta(piece) else take_complete(piece)
            if complete.strip():
                shell.feed(complete)
                if shell.failed:
                    return
    if waiting.strip():
        shell.feed(waiting)


def split_commands(waiting: str, block: str) -> Iterator[str]:
    """The waiting text and the block after it, cut before and after each meta command.

    >>> list(split_commands("", "SHOW ALL;\\n\\\\timing\\nSHOW"))
    ['SHOW ALL;\\n', '\\\\timing\\n', 'SHOW']
    """
    for line in block.splitlines(keepends=True):
        if parse_meta(line) and not take_complete(waiting)[1].strip():
            if waiting.strip():
                yield waiting
            yield line
            waiting = ""
        else:
            waiting += line
    if waiting:
        yield waiting
