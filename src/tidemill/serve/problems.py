"""Error messages for a terminal: the code, the line of the text with a caret under the position, the hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tidemill.errors import TidemillError
from tidemill.plan.value_text import clean

WIDEST_EXCERPT = 100
_BEFORE_CARET = 70
_TRACEBACK = "Traceback (most recent call last)"


def excerpt(text: str, line: int, column: int) -> tuple[str, str] | None:
    """The line of `text` and the caret line to print under it; None when there is no such line.

    >>> print(*excerpt("SHOW VIEWS;\\nSELEC 1", 2, 1), sep="\\n")
    SELEC 1
    ^
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 1 <= line <= len(lines) or column < 1:
        return None
    whole, place = lines[line - 1].replace("\t", " "), column - 1
    cut = max(0, place - _BEFORE_CARET) if len(whole) > WIDEST_EXCERPT else 0
    head, rest = whole[cut:place], whole[place : cut + WIDEST_EXCERPT]
    head, rest = ("…" if cut else "") + clean(head), clean(rest)
    tail = "…" if cut + WIDEST_EXCERPT < len(whole) else ""
    return head + rest + tail, " " * cell_len(head) + "^"


def describe(error: TidemillError, text: str | None = None, name: str | None = None) -> Text:
    """The whole message; the error's line and column are positions in `text`, which came from the file `name`.

    A traceback among the details is left out: the message has its last line, the log has all of it.
    """
    shown = Text()
    shown.append(f"{error.code} ", style="bold red")
    shown.append(clean(error.message), style="bold")
    found = None
    if error.line is not None:
        column = error.column or 1
        shown.append(
            f"\n  at {name}:{error.line}:{column}" if name else f" at line {error.line}, column {column}", style="dim"
        )
        found = excerpt(text, error.line, column) if text else None
    if found:
        gutter = f"{error.line} │ "
        shown.append(f"\n  {gutter}", style="dim").append(found[0])
        shown.append("\n  " + " " * (len(gutter) - 2) + "│ ", style="dim").append(found[1], style="bold red")
    if error.detail and _TRACEBACK not in error.detail:
        shown.append("\ndetail: ", style="dim").append(_lines(error.detail))
    if error.hint:
        shown.append("\nhint:   ", style="green").append(_lines(error.hint))
    return shown


@contextmanager
def report_errors(console: Console, text: str | None = None, name: str | None = None) -> Iterator[None]:
    """A TidemillError is printed without a traceback, and the command ends with exit code 1."""
    try:
        yield
    except TidemillError as error:
        console.print(describe(error, text, name))
        raise typer.Exit(1) from None


def _lines(text: str) -> str:
    return "\n        ".join(clean(line) for line in text.splitlines())
