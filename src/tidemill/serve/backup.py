"""Backups from the command line: by this process, or by the one that has the database open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from tidemill.serve import opening


def run_backup(console: Console, db: str, target: str, links: bool) -> None:
    """Back up. If another process has the database open, it makes the backup: it knows when nothing changes."""
    from tidemill.engine import ask_for_backup, is_held

    with _show_progress(console, f"backing up {db}") as tell:
        if is_held(db):
            made = ask_for_backup(db, target, links, tell)
        else:
            with opening.open_existing(db, console) as opened:
                made = opened.backup(target, links=links, progress=tell)
    console.print(Text(f"backup {made}"))


def run_restore(console: Console, backup: str, target: str) -> None:
    """Restore into a new directory."""
    from tidemill.engine import restore

    with _show_progress(console, f"restoring {backup}") as tell:
        made = restore(backup, target, tell)
    console.print(Text(f"restored {made}"))


@contextmanager
def _show_progress(console: Console, what: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line on the terminal that shows the progress."""
    with console.status(Text(what)) as line:

        def tell(note: dict[str, Any]) -> None:
            if "files" in note:
                total = f" of {note['of']:,}" if note.get("of") else ""
                line.update(Text(f"{what}: {note['files']:,}{total} files {note['step']}"))

        yield tell
